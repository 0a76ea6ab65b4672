"""How the answers of the blunder suite are known to be right.

`AnyOthers` is a game in which the others may at any turn play any card the seat has not seen: what
holds in it holds in every deal, whatever they do. `count_worlds` goes through every deal of the
hidden cards, `play_worlds` through drawn ones. All of them start from the view of the seat to act.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import cache
from math import comb, prod
from typing import NamedTuple

import numpy as np

from judgement_env import Table
from judgement_env._jit import njit
from judgement_env.blunders import MARGIN, Position
from judgement_env.bots.rule_player import heuristic_action
from judgement_env.cards import BID_OFFSET, NONE, NUM_RANKS, NUM_SUITS, is_bid
from judgement_env.engine import apply_action, legal_cards, popcount
from judgement_env.playouts import nth_card
from judgement_env.state import BIDDING, Array, RulesRecord, TableRecord
from judgement_env.view import View, cards_in
from judgement_env.worlds import sample_deal

Hand = tuple[int, ...]
Leads = tuple[int, ...]


def hidden_cards(view: View) -> list[int]:
    """Every card the seat has not seen, copies side by side."""
    t = view.tables_array[0]
    known = [card for words in t["dealt"][: view.rules.num_players] for card in cards_in(words)]
    left = Counter(view.rules.pack)
    left.subtract(known)
    left.subtract([view.turn_up] if view.turn_up != NONE else [])
    assert min(left.values()) >= 0
    return sorted(left.elements())


# --- whatever the others hold and do ------------------------------------------------------------


class AnyOthers:
    """The seat of a view against others who may play any card it has not seen, at any turn.

    They need not follow suit and may play a card again, so every play they have in any deal is
    among theirs here. Only this is kept of what they must do: each lead of a suit by the seat
    takes one of its hidden cards out of play, if any is left in play.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self.hidden = sorted(set(hidden_cards(view)))
        self.hidden_in = Counter(card // NUM_RANKS for card in hidden_cards(view))

    def live(self, leads: Leads) -> list[int]:
        """The hidden cards that may still be in play after so many leads of each suit."""
        return [c for c in self.hidden if leads[c // NUM_RANKS] < self.hidden_in[c // NUM_RANKS]]

    def beats(self, card: int, best: int) -> bool:
        """Whether a later card beats the best card so far, of two equal ones the later one."""
        suit, best_suit = card // NUM_RANKS, best // NUM_RANKS
        return card >= best if suit == best_suit else suit == self.view.trump

    def outcomes(self, card: int, best: int, are_others_later: bool, leads: Leads) -> set[bool]:
        """Whether a card wins the trick: all that may happen. `best` NONE: it is led."""
        if best != NONE and not self.beats(card, best):
            return {False}
        if are_others_later and any(self.beats(other, card) for other in self.live(leads)):
            return {True, False}
        return {True}

    def tricks_of_others(self, leads: Leads) -> Iterator[tuple[int, int, bool]]:
        """What the seat may find on the table: suit led, best card, whether others play after."""
        live = self.live(leads)
        for led in sorted({card // NUM_RANKS for card in live}):
            for best in live:
                if best // NUM_RANKS in (led, self.view.trump):
                    yield led, best, True
                    yield led, best, False

    @cache  # noqa: B019 - one short-lived game per proof
    def is_sure(self, hand: Hand, leads: Leads, is_leader: bool, need: int) -> bool:
        """Whether the seat can take exactly `need` tricks more whatever the others do."""
        if not hand:
            return need == 0
        if is_leader:
            # What cannot be beaten is tried first: it is often enough.
            leads_to_try = sorted(
                set(hand), key=lambda card: len(self.outcomes(card, NONE, True, leads))
            )
            return any(
                self._is_sure_after(hand, leads, card, NONE, True, need) for card in leads_to_try
            )
        return all(
            any(
                self._is_sure_after(hand, leads, card, best, is_later, need)
                for card in following(hand, led)
            )
            for led, best, is_later in self.tricks_of_others(leads)
        )

    def _is_sure_after(
        self, hand: Hand, leads: Leads, card: int, best: int, are_others_later: bool, need: int
    ) -> bool:
        rest, later = without(hand, card), counted_lead(leads, card, best)
        return all(
            self.is_sure(rest, later, won, need - won)
            for won in self.outcomes(card, best, are_others_later, leads)
        )

    @cache  # noqa: B019 - one short-lived game per proof
    def possible(self, hand: Hand, leads: Leads, is_leader: bool) -> frozenset[int]:
        """How many tricks more the seat may take, by all that it and the others may do."""
        if not hand:
            return frozenset({0})
        if is_leader:
            finds = [(card, NONE, True) for card in set(hand)]
        else:
            finds = [
                (card, best, is_later)
                for led, best, is_later in self.tricks_of_others(leads)
                for card in following(hand, led)
            ]
        return frozenset(
            won + more
            for card, best, is_later in finds
            for won in self.outcomes(card, best, is_later, leads)
            for more in self.possible(without(hand, card), counted_lead(leads, card, best), won)
        )

    def _now(self) -> tuple[int, bool]:
        """The best card on the table, and whether others play after the seat."""
        best = NONE
        for _, card in self.view.trick:
            if best == NONE or self.beats(card, best):
                best = card
        return best, len(self.view.trick) < self.view.rules.num_players - 1

    def makes_bid(self, action: int) -> bool:
        """Whether the seat makes its bid for certain after this bid or play."""
        view, none = self.view, (0,) * NUM_SUITS
        if is_bid(action):
            return self.is_sure(view.hand, none, view.leader == view.seat, action - BID_OFFSET)
        best, are_others_later = self._now()
        need = view.bids[view.seat] - view.won[view.seat]
        return self._is_sure_after(view.hand, none, action, best, are_others_later, need)

    def possible_won(self, action: int) -> set[int]:
        """How many tricks the seat may have at the end of the round after this bid or play."""
        view, none = self.view, (0,) * NUM_SUITS
        if is_bid(action):
            return set(self.possible(view.hand, none, view.leader == view.seat))
        best, are_others_later = self._now()
        rest, leads = without(view.hand, action), counted_lead(none, action, best)
        return {
            view.won[view.seat] + won + more
            for won in self.outcomes(action, best, are_others_later, none)
            for more in self.possible(rest, leads, won)
        }


def following(hand: Hand, led: int) -> list[int]:
    """The different cards that may be played to a suit led."""
    suit = [card for card in hand if card // NUM_RANKS == led]
    return sorted(set(suit or hand))


def without(hand: Hand, card: int) -> Hand:
    place = hand.index(card)
    return hand[:place] + hand[place + 1 :]


def counted_lead(leads: Leads, card: int, best: int) -> Leads:
    if best != NONE:
        return leads
    return tuple(n + (suit == card // NUM_RANKS) for suit, n in enumerate(leads))


# --- the deal as it lies ------------------------------------------------------------------------


def can_force(
    table: Table, allies: Collection[int], seat: int, is_wanted: Callable[[int], bool]
) -> bool:
    """Whether the allies, seeing all cards, can bring about wanted points of `seat` this round."""
    is_ally = table.seat in allies
    for action in table.legal():
        if table.push(action):
            points = table.last_points
            assert points is not None
            is_reached = is_wanted(points[seat])
        else:
            is_reached = can_force(table, allies, seat, is_wanted)
        table.pop()
        if is_reached == is_ally:
            return is_ally
    return not is_ally


# --- every deal of the hidden cards -------------------------------------------------------------


class Count(NamedTuple):
    """Results of one action by deal: over all plays alike, the lowest and the highest of them."""

    mean: float
    low: float
    high: float


@njit
def result(r: RulesRecord, t: TableRecord, me: int, is_margin: bool) -> float:
    """Return the points of a settled round, or how far they are above the mean of the others."""
    total = 0.0
    for seat in range(r.num_players):
        total += t.points[seat]
    own = float(t.points[me])
    return own - (total - own) / (r.num_players - 1) if is_margin else own


@njit
def try_all_plays(
    r: RulesRecord, work: Array, me: int, action: int, is_margin: bool, out: Array
) -> bool:
    """Write mean, lowest and highest result of an action in the world ``work[0]`` into `out` (3,).

    Bids of others that come later are the lowest they may make: they change no trick here. Returns
    False where the seat has a choice left, for then a result would not be the action's alone.
    """
    choice = np.zeros(64, np.int64)
    options = np.zeros(64, np.int64)
    known = 0
    out[0], out[1], out[2] = 0.0, np.inf, -np.inf
    while True:
        work[1] = work[0]
        t = work[1]
        depth = 0
        share = 1.0
        over = apply_action(r, t, action)
        while not over:
            if t.phase == BIDDING:
                bid = 0
                if r.has_hook and t.num_bids == r.num_players - 1 and t.bid_sum == t.cards:
                    bid = 1
                over = apply_action(r, t, 52 + bid)
                continue
            cards = legal_cards(t)
            number = popcount(cards)
            if t.seat == me and number > 1:
                return False
            if depth == known:
                choice[depth] = 0
                options[depth] = number
                known += 1
            share /= number
            over = apply_action(r, t, nth_card(cards, choice[depth]))
            depth += 1
        value = result(r, t, me, is_margin)
        out[0] += share * value
        out[1] = min(out[1], value)
        out[2] = max(out[2], value)
        while known > 0 and choice[known - 1] == options[known - 1] - 1:
            known -= 1
        if known == 0:
            return True
        choice[known - 1] += 1


@njit
def count_worlds_rows(
    rules: Array,
    work: Array,
    me: int,
    places: Array,
    hidden: Array,
    actions: Array,
    is_margin: bool,
    sums: Array,
) -> int:
    """Add up the results of `actions` (A,) in every world into `sums` (A, 3); return their number.

    `places` (M,) is the seat of each hidden place, those of a seat side by side, `hidden` (H,) the
    cards they are filled from, copies as cards of their own; `work` (3,) holds in row 2 what the
    seat knows. Returns -1 where the seat has a choice left after an action.
    """
    r = rules[0]
    num_places = len(places)
    index = np.full(num_places, -1, np.int64)
    used = np.zeros(len(hidden), np.bool_)
    out = np.empty(3)
    number = 0
    k = 0
    while k >= 0:
        if k == num_places:
            work[0] = work[2]
            t = work[0]
            for place in range(num_places):
                card = hidden[index[place]]
                bit = np.uint64(1) << np.uint64(card)
                word = 1 if t.hand[places[place], 0] & bit else 0
                t.hand[places[place], word] |= bit
            for a in range(len(actions)):
                if not try_all_plays(r, work, me, actions[a], is_margin, out):
                    return -1
                sums[a] += out
            number += 1
            k -= 1
            continue
        if index[k] >= 0:
            used[index[k]] = False
        elif k > 0 and places[k] == places[k - 1]:
            index[k] = index[k - 1]
        index[k] += 1
        voids = work[2].voids[places[k]]
        while index[k] < len(hidden) and (
            used[index[k]] or (voids >> (hidden[index[k]] // 13)) & 1
        ):
            index[k] += 1
        if index[k] == len(hidden):
            index[k] = -1
            k -= 1
        else:
            used[index[k]] = True
            k += 1
    return number


def hidden_places(view: View) -> list[int]:
    """The seat of each card the seat has not seen, seat after seat."""
    t = view.tables_array[0]
    num_played = [len(view.history)] * view.rules.num_players
    for seat, _ in view.trick:
        num_played[seat] += 1
    assert num_played[view.seat] + len(view.hand) == view.num_cards or view.is_blind
    return [
        seat
        for seat in range(view.rules.num_players)
        if seat != view.seat or (view.is_blind and t["phase"] == BIDDING)
        for _ in range(view.num_cards - num_played[seat])
    ]


def number_of_worlds(view: View) -> int:
    """How many deals of the hidden cards there are, shown voids aside."""
    left = len(hidden_cards(view))
    sizes = Counter(hidden_places(view)).values()
    ways = []
    for size in sizes:
        ways.append(comb(left, size))
        left -= size
    return prod(ways)


def count_worlds(position: Position) -> dict[int, Count]:
    """What each legal action earns on average over every deal of the hidden cards."""
    view = position.view()
    work = np.concatenate([view.tables_array] * 3)
    sums = np.zeros((len(view.legal), 3))
    number = count_worlds_rows(
        view.rules_array,
        work,
        view.seat,
        np.array(hidden_places(view), np.int64),
        np.array(hidden_cards(view), np.int64),
        np.array(view.legal, np.int64),
        position.goal == MARGIN,
        sums,
    )
    assert number > 0, f"{position.id}: the seat has a choice left after this one"
    return {a: Count(*(sums[k] / number).tolist()) for k, a in enumerate(view.legal)}


# --- drawn deals --------------------------------------------------------------------------------


@njit
def play_on(rules: Array, tables: Array, action: int) -> None:
    """Take an action in row 0 and play the round on, every seat by the rules of thumb."""
    over = apply_action(rules[0], tables[0], action)
    while not over:
        over = apply_action(rules[0], tables[0], heuristic_action(rules[0], tables[0]))


def play_worlds(position: Position, number: int, seed: int) -> dict[int, Array]:
    """The points (number,) of each legal action in drawn deals, the same for all actions."""
    view = position.view()
    rng = random.Random(seed)
    points = {action: np.empty(number) for action in view.legal}
    for k in range(number):
        hands = sample_deal(view, rng.random)
        turn_ups = None if view.turn_up == NONE else [view.turn_up]
        table = Table(position.rules, 0, position.dealer, [hands], turn_ups)
        for action in position.actions():
            table.push(action)
        for action in view.legal:
            row = table.tables_array.copy()
            play_on(view.rules_array, row, action)
            points[action][k] = row["points"][0, view.seat]
    return points
