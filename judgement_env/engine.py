"""The rulebook as compiled kernels: deal, bid, play, settle, in the order a round is played.

Every kernel takes a rules record `r` and a table record `t` and changes that table only. `step`
does all that one action sets off: a finished trick is awarded, a finished round settled, a blind
round revealed and played, the next round dealt. Kernels trust their input; whoever calls them
checks it (`is_legal`). The deals of a round follow from (seed, table, match, round) alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from judgement_env._jit import inside, njit, stack_bytes
from judgement_env._lanes import put_lanes, spread, spread_half
from judgement_env.cards import BID_OFFSET, NONE, NUM_ACTIONS, NUM_CARDS
from judgement_env.state import (
    BIDDING,
    MAX_PACK,
    OVER,
    PLAYING,
    SETTLED,
    Array,
    Bits,
    RulesRecord,
    TableRecord,
)

# Words are unsigned, and one of them with a signed number makes a float: numbers made of words are
# signed at once.
signed: Any = np.int64
ZERO = np.uint64(0)
ONE = np.uint64(1)
SUIT_BITS = np.uint64((1 << 13) - 1)
LOW_HALF = np.uint64((1 << 32) - 1)
HALF = np.uint64(32)
# Where the last 32 actions of a mask begin.
LAST_PART = NUM_ACTIONS - 32

# --- bits -------------------------------------------------------------------------------------


@njit
def popcount(bits: Bits) -> int:
    """Return the number of bits set, by the usual parallel sums (one instruction once compiled)."""
    x = bits - ((bits >> ONE) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    number: int = signed((x * np.uint64(0x0101010101010101)) >> np.uint64(56))
    return number


@njit
def lowest(bits: Bits) -> int:
    """Return the index of the lowest bit set; `bits` must not be zero."""
    return popcount((bits & (~bits + ONE)) - ONE)


@njit
def card_bit(card: int) -> Bits:
    """Return the word with only the bit of `card` set."""
    return ONE << np.uint64(card)


@njit
def suit_of(card: int) -> int:
    """Return ``card // 13`` for -1..51, by a product that is exact there."""
    return (card * 79) >> 10


@njit
def suit_mask(suit: int) -> Bits:
    """Return the word with the thirteen bits of `suit` set."""
    return SUIT_BITS << np.uint64(13 * suit)


# --- deal -------------------------------------------------------------------------------------


@njit
def mix(x: Bits) -> Bits:
    """Scramble 64 bits: the finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit
def stream(key: Bits, index: int) -> Bits:
    """Return the key of stream `index` of `key`."""
    return mix(key + np.uint64(0x9E3779B97F4A7C15) * np.uint64(index + 1))


@njit
def table_key(seed: Bits, table: int) -> Bits:
    """Return the generator key of one table of a batch."""
    return stream(mix(seed), table)


@njit
def scaled_down(word: Bits, bound: int) -> int:
    """Return a number of 0..bound-1 from the lower half of a random word."""
    number: int = signed(((word & LOW_HALF) * np.uint64(bound)) >> HALF)
    return number


@njit
def draw_below(key: Bits, counter: int, bound: int) -> int:
    """Return draw `counter` of the stream `key`, uniform on 0..bound-1 to within 2^-25."""
    return scaled_down(stream(key, counter), bound)


@njit
def next_seat(r: RulesRecord, t: TableRecord, seat: int) -> int:
    """Return the seat after `seat` in the direction of play."""
    following = seat + r.step
    return int(following - r.num_players if following >= r.num_players else following)


@njit
def begin_match(r: RulesRecord, t: TableRecord, first: int, last: int, dealer: int) -> None:
    """Start a match over rounds `first`..`last` of the schedule (from 0) and deal the first one.

    `dealer` NONE takes the dealer of the rules, drawn where they name none.
    """
    if dealer == NONE:
        dealer = r.first_dealer
    if dealer == NONE:
        match_key = stream(t.key, t.match)
        dealer = draw_below(match_key, 0, r.num_players)
    t.first_round = first
    t.last_round = last
    t["round"] = first
    t.dealer = dealer
    for seat in range(r.num_players):
        t.total[seat] = 0
        t.points[seat] = 0
    begin_round(r, t)


@njit
def begin_round(r: RulesRecord, t: TableRecord) -> None:
    """Deal the round in play and ask the seat next to the dealer for its bid."""
    t.cards = r.cards[t["round"]]
    t.trump = r.trump[t["round"]]
    t.is_blind = r.is_blind[t["round"]]
    open_bidding(r, t)
    t.plays[:, :] = NONE
    t.leaders[:] = NONE
    deal_cards(r, t)


@njit
def open_bidding(r: RulesRecord, t: TableRecord) -> None:
    """Ask the seat next to the dealer for its bid; no bid is made, no trick is taken."""
    t.phase = BIDDING
    t.num_bids = 0
    t.bid_sum = 0
    t.trick = 0
    t.leader = next_seat(r, t, t.dealer)
    t.seat = t.leader
    clear_trick(t)
    for seat in range(r.num_players):
        t.bid[seat] = NONE
        t.won[seat] = 0
        t.voids[seat] = 0


@njit
def deal_cards(r: RulesRecord, t: TableRecord) -> None:
    """Deal `t.cards` to every seat, and the turn-up where the rules have one.

    A shuffle of Fisher and Yates that stops when enough cards are drawn; each word of the stream
    gives two draws, so every deal is as likely as every other to within 2^-25 a card.
    """
    pack = stack_bytes()
    pack[:MAX_PACK] = r.pack
    key = stream(stream(t.key, t.match), t["round"] + 1)
    size = int(r.pack_size)
    num_drawn = 0
    word = ZERO
    t.hand[:, :] = 0
    for seat in range(r.num_players):
        once = ZERO
        twice = ZERO
        for _ in range(t.cards):
            if num_drawn & 1:
                word >>= HALF
            else:
                word = stream(key, num_drawn)
            place = num_drawn + scaled_down(word, size - num_drawn)
            bit = card_bit(pack[place])
            pack[place] = pack[num_drawn]
            num_drawn += 1
            twice |= once & bit
            once |= bit
        t.hand[seat, 0] = once
        t.hand[seat, 1] = twice
    t.dealt[:, :] = t.hand[:, :]
    t.turn_up = NONE
    if r.is_turn_up:
        card = int(pack[num_drawn + scaled_down(stream(key, num_drawn + 1), size - num_drawn)])
        t.turn_up = card
        t.trump = card // 13


@inside
def remove_card(t: TableRecord, seat: int, card: int) -> None:
    """Take one copy of `card` out of a hand that holds it."""
    hand = t.hand[np.uintp(seat)]
    bit = card_bit(card)
    second = hand[1] & bit
    hand[1] ^= second
    hand[0] ^= bit ^ second


# --- legality ---------------------------------------------------------------------------------


@njit
def legal_cards(t: TableRecord) -> Bits:
    """Return the cards the seat to act may play, one bit a card: follow suit if it can."""
    # Fields are read before a choice between values, or it becomes a branch, guessed wrong often.
    hand = t.hand[np.uintp(t.seat), 0]
    led = int(t.led)
    following = hand & suit_mask(max(0, led))
    return following if (led != NONE) & (following != ZERO) else hand


@njit
def forbidden_bid(r: RulesRecord, t: TableRecord) -> int:
    """Return the bid the hook takes from the seat to act, NONE where it takes none."""
    is_last = t.num_bids == r.num_players - 1
    left = int(t.cards) - int(t.bid_sum)
    return left if (r.has_hook == 1) & is_last & (left >= 0) else NONE


@njit
def is_legal(r: RulesRecord, t: TableRecord, action: int) -> bool:
    """Return whether the seat to act may take `action`."""
    if action < 0 or action >= NUM_ACTIONS:
        return False
    if t.phase == BIDDING:
        bid = action - BID_OFFSET
        return 0 <= bid <= t.cards and bid != forbidden_bid(r, t)
    if t.phase == PLAYING and action < NUM_CARDS:
        return bool(legal_cards(t) & card_bit(action))
    return False


@inside
def legal_actions(r: RulesRecord, t: TableRecord) -> tuple[Bits, Bits]:
    """Return the cards and the bids that the seat to act may take, bit b for a bid of b."""
    cards = ZERO
    bids = ZERO
    if t.seat != NONE:
        is_bidding = t.phase == BIDDING
        forbidden = forbidden_bid(r, t)
        bids = (ONE << np.uint64(t.cards + 1)) - ONE
        bids &= ~(ONE << np.uint64(max(0, forbidden))) if forbidden != NONE else ~ZERO
        cards = legal_cards(t)
        bids = bids if is_bidding else ZERO
        cards = ZERO if is_bidding else cards
    return cards, bids


@inside
def put_mask(cards: Bits, bids: Bits, mask: Array) -> None:
    """Write legal cards and bids into `mask` (79,): 64 actions, and the last 32 over their end."""
    put_lanes(mask, 0, spread(cards | bids << np.uint64(BID_OFFSET)))
    last = cards >> np.uint64(LAST_PART) | bids << np.uint64(BID_OFFSET - LAST_PART)
    put_lanes(mask, LAST_PART, spread_half(last))


@njit
def write_mask(r: RulesRecord, t: TableRecord, mask: Array) -> int:
    """Write the legal actions of the seat to act into `mask` (79,); return how many there are."""
    cards, bids = legal_actions(r, t)
    put_mask(cards, bids, mask)
    return popcount(cards | bids)


# --- bid --------------------------------------------------------------------------------------


@inside
def apply_bid(r: RulesRecord, t: TableRecord, bid: int) -> None:
    """Enter the bid of the seat to act; after the last bid the seat next to the dealer leads."""
    t.bid[t.seat] = bid
    t.bid_sum += bid
    t.num_bids += 1
    t.seat = next_seat(r, t, t.seat)
    if t.num_bids == r.num_players:
        t.phase = PLAYING
        t.leaders[0] = t.leader
        if t.is_blind:
            play_blind(r, t)


@inside
def play_blind(r: RulesRecord, t: TableRecord) -> None:
    """Play the single trick of a blind round: every seat's only card, in turn."""
    for _ in range(r.num_players):
        apply_play(r, t, lowest(t.hand[t.seat, 0]))


# --- play -------------------------------------------------------------------------------------


@inside
def beats(card: int, best: int, trump: int) -> bool:
    """Return whether `card` beats the best card of the trick; of two alike the later one wins."""
    suit = suit_of(card)
    is_same = suit == suit_of(best)
    return bool((is_same & (card >= best)) | (~is_same & ((suit == trump) | (best == NONE))))


@inside
def apply_play(r: RulesRecord, t: TableRecord, card: int) -> None:
    """Play a card of the seat to act; award the trick, and settle the round, when complete."""
    # Choices that cards make at random are values here, not branches: a branch guessed wrong costs
    # as much as all the rest.
    seat = int(t.seat)
    suit = suit_of(card)
    turn = int(t.turn)
    best = int(t.best)
    winner = int(t.winner)
    led = int(t.led)
    led = suit if turn == 0 else led
    remove_card(t, seat, card)
    t.plays[np.uintp(t.trick), np.uintp(turn)] = card
    t.led = led
    t.voids[np.uintp(seat)] |= int(suit != led) << led
    is_best = beats(card, best, int(t.trump))
    t.best = card if is_best else best
    t.winner = seat if is_best else winner
    turn += 1
    if turn == r.num_players:
        award_trick(r, t)
    else:
        t.turn = turn
        t.seat = next_seat(r, t, seat)


@inside
def clear_trick(t: TableRecord) -> None:
    """Make the table ready for the next lead."""
    t.turn = 0
    t.led = NONE
    t.best = NONE
    t.winner = NONE


@inside
def award_trick(r: RulesRecord, t: TableRecord) -> None:
    """Give the trick to its winner, who leads the next one; settle after the last."""
    winner = int(t.winner)
    trick = int(t.trick) + 1
    t.won[np.uintp(winner)] += 1
    t.trick = trick
    t.leader = winner
    t.seat = winner
    clear_trick(t)
    if trick == t.cards:
        settle_round(r, t)
    else:
        t.leaders[np.uintp(trick)] = winner


# --- settle -----------------------------------------------------------------------------------


@njit
def settle_round(r: RulesRecord, t: TableRecord) -> None:
    """Give every seat the points of its bid and tricks."""
    for seat in range(r.num_players):
        t.points[seat] = r.points[t.cards, t.bid[seat], t.won[seat]]
        t.total[seat] += t.points[seat]
    t.phase = SETTLED
    t.seat = NONE


@inside
def apply_action(r: RulesRecord, t: TableRecord, action: int) -> bool:
    """Apply a legal action; return whether it settled the round, which then still lies open."""
    if action >= BID_OFFSET:
        apply_bid(r, t, action - BID_OFFSET)
    else:
        apply_play(r, t, action)
    return bool(t.phase == SETTLED)


@njit
def next_round(r: RulesRecord, t: TableRecord) -> bool:
    """Deal the round after a settled one; return whether the match was over instead."""
    if t["round"] == t.last_round:
        t.phase = OVER
        return True
    t["round"] += 1
    t.dealer = next_seat(r, t, t.dealer)
    begin_round(r, t)
    return False


@njit
def step(r: RulesRecord, t: TableRecord, action: int) -> bool:
    """Apply a legal action and deal the next round where it ends one; return whether it did.

    `t.points` holds the points of the round settled last, until the next one settles.
    """
    if not apply_action(r, t, action):
        return False
    next_round(r, t)
    return True
