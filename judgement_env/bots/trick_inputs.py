"""What `heuristic+` weighs before a bid or a card, as numbers: the inputs of its two estimates.

A decision has inputs that all its choices share and a few of each choice: chances of the cards as
the rule player's formulas give them, how many tricks these come to (Poisson-binomial), what the
other seats still want. Written from what the seat to act may know, and nothing else.
"""

from __future__ import annotations

from judgement_env._jit import njit
from judgement_env.bots.rule_player import (
    AT_UNKNOWN_BID,
    BEFORE,
    CARDS,
    DUCKED,
    LACKED,
    LOST,
    MADE,
    ROW,
    VALUES,
    WANTED,
    WEIGHTS,
    cards_above,
    chance_now,
    count,
    fold_outlooks,
    gamble,
    one_card_chance,
    size,
    standing,
    write_chances,
    write_later,
    write_powers,
)
from judgement_env.cards import NO_TRUMP, NONE
from judgement_env.engine import card_bit, next_seat, suit_mask, suit_of
from judgement_env.observation import knows_bid, unseen_words
from judgement_env.state import Array, Bits, RulesRecord, TableRecord

# Inputs of a card to play and of a bid: those all choices share, and those of each.
PLAY_SHARED, PLAY_OWN = 40, 30
BID_SHARED, BID_OWN = 26, 16
# Chances that count as a sure trick and as none.
NEARLY_SURE, NEARLY_NONE = 0.9, 0.1
# Rows of the room that the fold leaves free for tricks won by chance: bids, and one for the play.
TALLY = 30 * ROW


@njit
def flag(is_so: bool) -> float:
    """Return 1 where something is so, else 0."""
    return 1.0 if is_so else 0.0


# --- shared by bids and cards -----------------------------------------------------------------


@njit
def write_hand(
    r: RulesRecord, t: TableRecord, num_cards: int, room: Array, x: Array, at: int
) -> int:
    """Write what the hand is like, as far as its chances in `room` tell; return the next place."""
    wanted = 0.0
    ducked = 0.0
    sure = 0
    none = 0
    for i in range(num_cards):
        wanted += room[WANTED + i]
        ducked += room[DUCKED + i]
        sure += room[WANTED + i] > NEARLY_SURE
        none += room[DUCKED + i] < NEARLY_NONE
    seat = int(t.seat)
    once, twice = unseen_words(r, t, seat)
    left = int(t.cards - t.trick)
    others = r.num_players - 1
    unseen = max(1, size(once) + size(twice))
    voids = 0
    for suit in range(4):
        if r.deck & suit_mask(suit) and not t.hand[seat, 0] & suit_mask(suit):
            voids += 1
    in_play = min(1.0, others * left / unseen)
    x[at] = wanted / left
    x[at + 1] = ducked / left
    x[at + 2] = sure / left
    x[at + 3] = none / left
    x[at + 4] = left / 13.0
    x[at + 5] = 1.0 / left
    x[at + 6] = others / 9.0
    x[at + 7] = in_play
    x[at + 8] = voids / 3.0
    x[at + 9] = 0.0
    x[at + 10] = 0.0
    x[at + 11] = 0.0
    if t.trump == NO_TRUMP:
        x[at + 9] = 1.0
    else:
        trumps = suit_mask(t.trump)
        x[at + 10] = count(t.hand[seat, 0], t.hand[seat, 1], trumps) / left
        x[at + 11] = count(once, twice, trumps) * in_play / others * 0.5
    x[at + 12] = float(r.packs - 1)
    x[at + 13] = room[WANTED + num_cards - 1]
    x[at + 14] = room[WANTED]
    x[at + 15] = room[DUCKED]
    return at + 16


# --- cards ------------------------------------------------------------------------------------


@njit
def begin_play(r: RulesRecord, t: TableRecord, need: int, room: Array) -> int:
    """Write the chances of the cards held and of making the bid after each; return how many.

    ``room[VALUES + i]`` is the chance after card i where it loses its trick, a row further on where
    it wins.
    """
    seat = int(t.seat)
    num_cards = write_chances(r, t, seat, WEIGHTS, room)
    left = int(t.cards - t.trick)
    for more in range(need + 2):
        room[BEFORE + more] = 1.0 if more == need else 0.0
    fold_outlooks(num_cards, need + 1, room)
    once, twice = unseen_words(r, t, seat)
    lacks = max(0.0, 1.0 - left / max(size(once) + size(twice), 1))
    write_powers(room, LACKED, lacks, 13 * int(r.packs))
    write_later(r, t, left, WEIGHTS, room)
    return num_cards


@njit
def write_play(
    r: RulesRecord, t: TableRecord, need: int, num_cards: int, room: Array, x: Array
) -> None:
    """Write the inputs that all cards of a decision share, (PLAY_SHARED,)."""
    left = int(t.cards - t.trick)
    others = r.num_players - 1
    at = write_hand(r, t, num_cards, room, x, 0)
    for k in range(at, PLAY_SHARED):
        x[k] = 0.0
    x[at] = need / left
    x[at + 1] = min(need, 4) * 0.25
    x[at + 2] = flag(need == 0)
    x[at + 3] = flag(need == left)
    later = others - int(t.turn)
    x[at + 4] = later / others
    x[at + 5] = flag(t.turn == 0)
    at += 6
    demand = 0.0
    seat = int(t.seat)
    for k in range(others):
        seat = next_seat(r, t, seat)
        mood = standing(t, seat, left)
        wants = float(t.bid[seat] - t.won[seat])
        if mood != MADE and mood != LOST:
            demand += wants
        x[at + mood] += 1.0 / others
        if k < later:
            x[at + 4 + mood] += 1.0 / others
        if k < 3:
            x[at + 8 + k] = min(max(wants, -1.0), 3.0) / 3.0
    x[at + 11] = (demand + need) / left - 1.0
    if t.turn > 0:
        x[at + 12 + standing(t, int(t.winner), left)] = 1.0
    if t.led != NONE and t.led == t.trump:
        x[at + 16] = 1.0


@njit
def write_card(
    r: RulesRecord,
    t: TableRecord,
    need: int,
    i: int,
    num_cards: int,
    once: Bits,
    twice: Bits,
    room: Array,
    x: Array,
    at: int,
) -> None:
    """Write the inputs of card i of the room, (PLAY_OWN,), from ``x[at]`` on."""
    seat = int(t.seat)
    left = int(t.cards - t.trick)
    others = r.num_players - 1
    card = int(room[CARDS + i])
    suit = suit_of(card)
    now = chance_now(r, t, card, once, twice, room)
    lost, won = room[VALUES + i], room[VALUES + ROW + i]
    wanted = 0.0
    ducked = 0.0
    spread = 0.0
    sure = 0
    none = 0
    most = 0.0
    least = 1.0
    for j in range(num_cards):
        if j != i:
            p, q = room[WANTED + j], room[DUCKED + j]
            wanted += p
            ducked += q
            spread += p * (1.0 - p)
            sure += p > NEARLY_SURE
            none += q < NEARLY_NONE
            most = max(most, p)
            least = min(least, q)
    rest = max(1, left - 1)
    in_play = min(1.0, others * left / max(1, size(once) + size(twice)))
    mask = suit_mask(suit)
    above = count(once, twice, cards_above(card))
    in_suit = count(once, twice, mask)
    own = count(t.hand[seat, 0], t.hand[seat, 1], mask) - 1
    x[at] = now
    x[at + 1] = lost
    x[at + 2] = won
    x[at + 3] = now * won + (1.0 - now) * lost
    x[at + 4] = room[WANTED + i]
    x[at + 5] = room[DUCKED + i]
    x[at + 6] = (wanted - need) * 0.5
    x[at + 7] = (ducked - need) * 0.5
    x[at + 8] = (wanted + now - need) * 0.5
    x[at + 9] = (ducked + now - need) * 0.5
    x[at + 10] = spread * 0.5
    x[at + 11] = sure / rest
    x[at + 12] = none / rest
    x[at + 13] = (sure - need) * 0.5
    x[at + 14] = most
    x[at + 15] = least
    x[at + 16] = flag(t.trump == suit)
    x[at + 17] = flag(t.led != NONE and t.led != suit)
    x[at + 18] = above * in_play * 0.25
    x[at + 19] = (in_suit - above) * in_play * 0.25
    x[at + 20] = in_suit * in_play / others * 0.5
    x[at + 21] = own / rest
    x[at + 22] = flag(own == 0)
    x[at + 23] = count(t.hand[seat, 0], t.hand[seat, 1], cards_above(card)) / rest
    x[at + 24] = flag(now == 1.0)
    x[at + 25] = flag(now == 0.0)
    x[at + 26] = now * flag(need == 0)
    x[at + 27] = now * flag(need == left)
    x[at + 28] = (card % 13) / 12.0
    x[at + 29] = now * (1.0 - now)


# --- bids -------------------------------------------------------------------------------------


@njit
def begin_bid(r: RulesRecord, t: TableRecord, room: Array) -> None:
    """Write the chances of the hand, and the chance to make each bid, ``room[VALUES + bid]``.

    From TALLY on stand the chances of 0, 1, … tricks by the chances while wanted; a row further on
    those while ducking.
    """
    num_cards = int(t.cards)
    if num_cards == 1:
        room[WANTED] = one_card_chance(r, t, int(t.seat), WEIGHTS)
        room[DUCKED] = room[WANTED]
    else:
        write_chances(r, t, int(t.seat), WEIGHTS, room)
    for more in range(num_cards + 1):
        for bid in range(num_cards + 1):
            room[VALUES + more * ROW + bid] = 1.0 if more == bid else 0.0
    for i in range(num_cards):
        wanted, ducked = room[WANTED + i], room[DUCKED + i]
        for more in range(num_cards - i):
            at = VALUES + more * ROW
            for bid in range(num_cards + 1):
                room[at + bid] = gamble(room[at + bid], room[at + ROW + bid], wanted, ducked)
    # The rows of more tricks have served.
    for row, chances in ((TALLY, WANTED), (TALLY + ROW, DUCKED)):
        room[row : row + ROW] = 0.0
        room[row + 1] = 1.0
        # Tricks are counted from place 1 on, so that each has one before it.
        for i in range(num_cards):
            chance = room[chances + i]
            for k in range(i + 2, 0, -1):
                room[row + k] = room[row + k] * (1.0 - chance) + room[row + k - 1] * chance


@njit
def write_bid(r: RulesRecord, t: TableRecord, room: Array, x: Array) -> None:
    """Write the inputs that all bids of a decision share, (BID_SHARED,)."""
    num_cards = int(t.cards)
    at = write_hand(r, t, num_cards, room, x, 0)
    for k in range(at, BID_SHARED):
        x[k] = 0.0
    others = r.num_players - 1
    seat = int(t.seat)
    known = 0
    total = 0
    zeros = 0
    for _ in range(others):
        seat = next_seat(r, t, seat)
        if knows_bid(r, t, int(t.seat), seat):
            known += 1
            total += int(t.bid[seat])
            zeros += t.bid[seat] == 0
    unknown = others - known
    x[at] = flag(t.leader == t.seat)
    x[at + 1] = known / others
    x[at + 2] = total / num_cards
    x[at + 3] = (total - known * num_cards / r.num_players) / num_cards
    x[at + 4] = zeros / others
    x[at + 5] = flag(unknown == 0)
    x[at + 6] = (total + unknown * WEIGHTS[AT_UNKNOWN_BID] * num_cards / r.num_players) / num_cards
    x[at + 7] = flag(num_cards == 1)
    x[at + 8] = float(r.has_hook)
    x[at + 9] = float(r.is_simultaneous)


@njit
def write_choice(r: RulesRecord, t: TableRecord, bid: int, room: Array, x: Array, at: int) -> None:
    """Write the inputs of a bid, (BID_OWN,), from ``x[at]`` on, after those all share."""
    num_cards = int(t.cards)
    wanted = x[0] * num_cards
    ducked = x[1] * num_cards
    x[at] = bid / num_cards
    x[at + 1] = flag(bid == 0)
    x[at + 2] = flag(bid == num_cards)
    x[at + 3] = (bid - wanted) * 0.5
    x[at + 4] = (bid - ducked) * 0.5
    x[at + 5] = room[VALUES + bid]
    x[at + 6] = room[VALUES + bid - 1] if bid > 0 else 0.0
    x[at + 7] = room[VALUES + bid + 1] if bid < num_cards else 0.0
    for row in range(2):
        tally = TALLY + row * ROW + 1 + bid
        x[at + 8 + 3 * row] = room[tally]
        x[at + 9 + 3 * row] = room[tally - 1]
        x[at + 10 + 3 * row] = room[tally + 1] if bid < num_cards else 0.0
    x[at + 14] = x[22] + bid / num_cards - 1.0
    x[at + 15] = abs(bid - wanted) * 0.5


# --- what is certain --------------------------------------------------------------------------


@njit
def sure_tricks(r: RulesRecord, t: TableRecord) -> int:
    """Return how many tricks the hand cannot fail to win, at least, while bidding.

    Those are the trumps that no unseen card beats; for whoever leads without trump, the cards of a
    suit that are led one after the other and that none beats.
    """
    seat = int(t.seat)
    once, twice = unseen_words(r, t, seat)
    if t.trump != NO_TRUMP:
        return run_of(t.trump, t.hand[seat, 0], t.hand[seat, 1], once, twice)
    if t.leader != seat:
        return 0
    sure = 0
    for suit in range(4):
        sure += run_of(suit, t.hand[seat, 0], t.hand[seat, 1], once, twice)
    return sure


@njit
def run_of(suit: int, word_0: Bits, word_1: Bits, once: Bits, twice: Bits) -> int:
    """Return how many cards of a suit in hand no unseen card beats."""
    number = 0
    for card in range(suit * 13 + 12, suit * 13 - 1, -1):
        bit = card_bit(card)
        if (once | twice) & bit:
            break
        if word_0 & bit:
            number += 2 if word_1 & bit else 1
    return number
