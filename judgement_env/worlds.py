"""The hidden cards dealt anew: one of all deals that fit what a seat knows, each equally likely.

Kept are its own cards, all cards played, the turn-up, hand sizes and shown voids. The deals are
counted exactly; none is tried and thrown away. A `View` goes in, so the true hands cannot leak out.

>>> import random
>>> from judgement_env import Table
>>> view = Table("kachuful", seed=7, dealer=0).view(1)
>>> sample_deal(view, random.Random(0).random)[1] == view.hand
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache, partial
from itertools import chain
from math import comb, prod

from judgement_env.cards import NONE, NUM_RANKS, NUM_SUITS
from judgement_env.deals import Hands
from judgement_env.view import View, cards_in

# Draws a number from 0 up to, but not including, 1.
Random = Callable[[], float]
# How many unseen cards of each suit there are, C D H S.
Counts = tuple[int, ...]
# The size of a hand to be dealt, and its voids: bit s set = it holds none of suit s.
Place = tuple[int, int]


def sample_deal(view: View, random: Random) -> Hands:
    """Every seat's cards as dealt this round, rising, in one deal that fits what the seat knows.

    Each such deal of the physical cards is equally likely, as it is after any play that does not
    depend on the hands. The seat's own cards are dealt anew only while they lie face down.
    """
    t = view.tables_array[0]
    num_players = view.rules.num_players
    is_face_down = view.is_blind and view.is_bidding
    # A view holds of the other seats the cards they have played, and of its own all of them.
    known = [cards_in(words) for words in t["dealt"][:num_players]]
    unseen = list(view.rules.pack)
    for card in chain(*known, [view.turn_up] if view.turn_up != NONE else []):
        unseen.remove(card)
    voids = t["voids"][:num_players].tolist()
    places = [
        (view.num_cards - len(cards) if seat != view.seat or is_face_down else 0, voids[seat])
        for seat, cards in enumerate(known)
    ]
    dealt = deal_unseen(unseen, places, random)
    return tuple(tuple(sorted(cards + more)) for cards, more in zip(known, dealt, strict=True))


def sample_bids(view: View, random: Random) -> tuple[int, ...]:
    """The bids by seat, NONE where not made; one made but hidden is drawn from 0 to the cards.

    Only simultaneous bidding hides bids. It has no hook, so each number is open to each seat.
    """
    bids = list(view.bids)
    if view.is_bidding:
        for turn in range(int(view.tables_array["num_bids"][0])):
            seat = (view.dealer + (turn + 1) * view.rules.step) % view.rules.num_players
            if bids[seat] == NONE:
                bids[seat] = _below(view.num_cards + 1, random)
    return tuple(bids)


def deal_unseen(unseen: Sequence[int], places: Sequence[Place], random: Random) -> list[list[int]]:
    """Deal `unseen` cards into hands of these sizes and voids; what is left over stays undealt.

    Uniform over the deals of the physical cards that break no void. Raises ValueError where there
    is none.
    """
    stock = [[c for c in unseen if c // NUM_RANKS == suit] for suit in range(NUM_SUITS)]
    hands: list[list[int]] = [[] for _ in places]
    bound = [k for k, (size, voids) in enumerate(places) if size and voids]
    ways = _counting(tuple(places[k] for k in bound))
    left = tuple(len(cards) for cards in stock)
    if not ways(0, left) or sum(left) < sum(size for size, _ in places):
        raise ValueError(f"places: {places!r} (allowed: hands that {len(unseen)} cards can fill)")
    for step, k in enumerate(bound, start=1):
        taken = _draw_split(left, places[k], partial(ways, step), random)
        hands[k] = [_take(stock[s], random) for s in range(NUM_SUITS) for _ in range(taken[s])]
        left = _minus(left, taken)
    rest = [card for cards in stock for card in cards]
    for k, (size, voids) in enumerate(places):
        if not voids:
            hands[k] = [_take(rest, random) for _ in range(size)]
    return hands


# --- counting ---------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def _counting(places: tuple[Place, ...]) -> Callable[[int, Counts], int]:
    """The number of ways to fill the places from number k on out of so many cards of each suit.

    What the other hands get need not be counted: they can be filled in as many ways whatever the
    suits of the cards left. Kept for the last few questions, for a search asks one again and again.
    """

    @cache
    def ways(k: int, left: Counts) -> int:
        if k == len(places):
            return 1
        return sum(
            _choices(left, taken) * ways(k + 1, _minus(left, taken))
            for taken in _splits(left, places[k])
        )

    return ways


def _splits(left: Counts, place: Place) -> Iterator[Counts]:
    """How many cards of each suit a hand may hold: every split of its size over its suits."""
    size, voids = place
    most = [0 if voids >> suit & 1 else left[suit] for suit in range(NUM_SUITS)]
    clubs, diamonds, hearts, spades = most
    for c in range(min(clubs, size) + 1):
        for d in range(min(diamonds, size - c) + 1):
            others = size - c - d
            for h in range(max(0, others - spades), min(hearts, others) + 1):
                yield c, d, h, others - h


def _choices(left: Counts, taken: Counts) -> int:
    return prod(comb(n, k) for n, k in zip(left, taken, strict=True))


def _minus(left: Counts, taken: Counts) -> Counts:
    return tuple(n - k for n, k in zip(left, taken, strict=True))


# --- drawing ----------------------------------------------------------------------------------


def _draw_split(
    left: Counts, place: Place, ways: Callable[[Counts], int], random: Random
) -> Counts:
    """The suits of one hand, each split as often as deals have it."""
    splits = list(_splits(left, place))
    weights = [_choices(left, taken) * ways(_minus(left, taken)) for taken in splits]
    target = _below(sum(weights), random)
    for taken, weight in zip(splits, weights, strict=True):
        target -= weight
        if target < 0:
            return taken
    raise AssertionError("the weights add up to more than any target")


def _below(bound: int, random: Random) -> int:
    """A whole number from 0 to bound - 1, each as likely as the numbers drawn allow."""
    return min(int(random() * bound), bound - 1)


def _take(cards: list[int], random: Random) -> int:
    """Take one card out of a heap, each as likely; the heap's order does not matter."""
    place = _below(len(cards), random)
    cards[place], cards[-1] = cards[-1], cards[place]
    return cards.pop()
