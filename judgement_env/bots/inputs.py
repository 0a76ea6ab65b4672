"""What the policy network reads: an observation in canonical suits, and counts spelt out.

Which suit is called clubs means nothing to the game, so the network sees suits in a canonical
order: trump first, then by the length and the ranks of the hand as dealt. After the values of the
observation come derived ones, each 0 or 1 and worked out from nothing else (`DERIVED`): which own
cards are the highest left or would take the trick, and small numbers (bids still to make, cards,
suit lengths) one input a value, because a network finds "exactly none" hard to read off a size.
"""

from __future__ import annotations

import numpy as np

from judgement_env._jit import njit
from judgement_env.cards import NONE, NUM_ACTIONS, NUM_CARDS
from judgement_env.observation import (
    AT_BID_MADE,
    AT_BID_SUM,
    AT_CARDS,
    AT_FORBIDDEN,
    AT_GONE,
    AT_HAND,
    AT_LED,
    AT_LOST,
    AT_NEED,
    AT_PHASE,
    AT_RULES,
    AT_SEATED,
    AT_STRENGTH,
    AT_TRICK_RANK,
    AT_TRICK_SUIT,
    AT_TRICKS_LEFT,
    AT_TRUMP,
    AT_TURN_UP,
    AT_WINNING,
    BLOCKS,
    OFFSET,
    ORACLE_SIZE,
    SCALE,
    SIZE,
    SLICES,
)
from judgement_env.state import MAX_SEATS, Array

# More values than these are never non-zero in one observation, own oracle cards included.
MAX_NONZERO = 544

# Values of an observation that name suits by number are of no use in canonical order.
UNUSED_BLOCKS = ("trick_suit", "coming_trump")
# How far apart the values of two suits lie, in blocks that hold one value per card or per suit.
_SUIT_STRIDE = {"hand": 13, "strength": 13, "table": 13, "gone": 13, "void": 1, "led": 1}


def input_columns() -> tuple[Array, Array, Array]:
    """Return, for each observation value, the input it feeds, its suit and the suits' stride.

    The input is that of suit 0 in canonical order, -1 where the value is not used; the suit is
    -1 where the value belongs to none. All (SIZE,) int32.
    """
    column = np.full(SIZE, -1, np.int32)
    suit = np.full(SIZE, -1, np.int32)
    stride = np.zeros(SIZE, np.int32)
    next_column = 0
    for block in BLOCKS:
        if block.name in UNUSED_BLOCKS:
            continue
        where = SLICES[block.name]
        inside = np.arange(block.size, dtype=np.int32)
        step = _SUIT_STRIDE.get(block.name, 0)
        if step:
            suit[where] = inside // step % 4
            stride[where] = step
            inside = inside - suit[where] * step
        column[where] = next_column + inside
        next_column += block.size
    return column, suit, stride


INPUT_COLUMN, INPUT_SUIT, INPUT_STRIDE = input_columns()
# Inputs that are values of the observation; the derived ones follow.
PLAIN_SIZE = SIZE - sum(block.size for block in BLOCKS if block.name in UNUSED_BLOCKS)
RAW_ZERO = OFFSET.astype(np.uint8)  # (SIZE,), the raw value that reads 0
_TRUMP_COLUMN = int(INPUT_COLUMN[AT_TRUMP])

# Numbers are spelt out up to here; greater ones read as this.
MOST = 13
# Differences are spelt out from -WIDE to WIDE.
WIDE = 7
SUIT_MOST = 7
UNSEEN_MOST = 9
# Of another seat: bid lost, or 0, 1, 2, 3 and more tricks needed.
NEEDS = 5

# The derived inputs: name, size, meaning. Those of cards and suits are in canonical order.
DERIVED: tuple[tuple[str, int, str], ...] = (
    ("boss", NUM_CARDS, "1 = the card is held and no unseen card of its suit is higher"),
    ("second", NUM_CARDS, "1 = held, one unseen card of its suit is higher"),
    ("third", NUM_CARDS, "1 = held, two are higher"),
    ("beats", NUM_CARDS, "1 = legal, and takes the lead in the trick in progress"),
    ("sure", NUM_CARDS, "1 = legal, and no unseen card that may follow beats it"),
    ("duck", NUM_CARDS, "1 = the highest legal card of its suit that does not take the lead"),
    ("cheap", NUM_CARDS, "1 = the lowest legal card of its suit that does"),
    ("lowest", NUM_CARDS, "1 = the lowest legal card of its suit"),
    ("highest", NUM_CARDS, "1 = the highest legal card of its suit"),
    ("own_need", MOST + 1, "tricks the seat still needs, its bid not lost"),
    ("own_spare", MOST + 1, "tricks left beyond those, its bid not lost"),
    ("other_need", (MAX_SEATS - 1) * NEEDS, "of each other seat: lost, or 0, 1, 2, 3+ needed"),
    ("cards", MOST + 1, "cards dealt to each seat"),
    ("tricks_left", MOST + 1, "tricks not finished yet"),
    ("unbid", 2 * WIDE + 1, "cards less the sum of the known bids, from -7 to 7"),
    ("unwanted", 2 * WIDE + 1, "tricks left less those still needed by all seats together"),
    ("forbidden", MOST + 2, "the bid the hook takes from the seat to act"),
    ("after_bid", MAX_SEATS, "seats that bid after this one"),
    ("after_play", MAX_SEATS, "seats that play to the trick after this one"),
    ("length", 4 * (SUIT_MOST + 1), "own cards of each suit"),
    ("unseen", 4 * (UNSEEN_MOST + 1), "unseen cards of each suit"),
    ("bosses", SUIT_MOST + 1, "cards held than which no unseen card of their suit is higher"),
    ("trump_bosses", SUIT_MOST + 1, "of them, trumps"),
)
# Where each begins.
DERIVED_AT: dict[str, int] = {}
_next = PLAIN_SIZE
for _name, _size, _ in DERIVED:
    DERIVED_AT[_name] = _next
    _next += _size
INPUT_SIZE: int = _next
CRITIC_SIZE = INPUT_SIZE + ORACLE_SIZE

_BOSS = DERIVED_AT["boss"]
_BEATS, _SURE, _DUCK = (DERIVED_AT[k] for k in ("beats", "sure", "duck"))
_CHEAP, _LOWEST, _HIGHEST = (DERIVED_AT[k] for k in ("cheap", "lowest", "highest"))
_OWN_NEED, _OWN_SPARE, _OTHER_NEED = (
    DERIVED_AT[k] for k in ("own_need", "own_spare", "other_need")
)
_CARDS, _TRICKS_LEFT = DERIVED_AT["cards"], DERIVED_AT["tricks_left"]
_UNBID, _UNWANTED, _FORBIDDEN = (DERIVED_AT[k] for k in ("unbid", "unwanted", "forbidden"))
_AFTER_BID, _AFTER_PLAY = DERIVED_AT["after_bid"], DERIVED_AT["after_play"]
_LENGTH, _UNSEEN = DERIVED_AT["length"], DERIVED_AT["unseen"]
_BOSSES, _TRUMP_BOSSES = DERIVED_AT["bosses"], DERIVED_AT["trump_bosses"]


# --- canonical suits --------------------------------------------------------------------------


@njit
def suit_places(raw: Array, places: Array) -> None:
    """Write the canonical place of each suit into `places` (4,): 0 for the trump suit.

    The other suits follow by number of own cards as dealt, then by the sum of their ranks, then
    by suit; with no trump all four do.
    """
    keys = np.empty(4, np.int64)
    for suit in range(4):
        keys[suit] = 4 - suit + (1 << 30) * int(raw[AT_TRUMP + suit])
        for rank in range(13):
            card = suit * 13 + rank
            held = int(raw[AT_HAND + card]) + int(raw[AT_GONE + card])
            keys[suit] += held * ((1 << 16) + 8 * rank)
    for suit in range(4):
        places[suit] = 0
        for other in range(4):
            places[suit] += keys[other] > keys[suit]


@njit
def canonical_action(action: int, places: Array) -> int:
    """Return the number an action has in canonical suits; bids keep theirs."""
    if action >= NUM_CARDS:
        return action
    return int(places[action // 13] * 13 + action % 13)


# --- inputs -----------------------------------------------------------------------------------


@njit
def write_inputs(raw: Array, places: Array, index: Array, value: Array) -> int:
    """Write the non-zero network inputs of one observation; return how many there are."""
    suit_places(raw, places)
    count = 0
    for j in range(SIZE):
        if raw[j] == RAW_ZERO[j]:
            continue
        column = INPUT_COLUMN[j]
        if column < 0:
            continue
        if INPUT_SUIT[j] >= 0:
            column += places[INPUT_SUIT[j]] * INPUT_STRIDE[j]
        elif AT_TRUMP <= j < AT_TRUMP + 4:
            column = _TRUMP_COLUMN
        index[count] = column
        value[count] = (raw[j] - OFFSET[j]) / SCALE[j]
        count += 1
    plain = count
    unseen = unseen_suits(raw)
    count = derive_cards(raw, places, unseen, index, count)
    count = derive_plays(raw, places, unseen, index, count)
    count = derive_needs(raw, index, count)
    count = derive_round(raw, index, count)
    value[plain:count] = 1
    return count


@njit
def derive_cards(raw: Array, places: Array, unseen: Array, index: Array, count: int) -> int:
    """Append how good each card held is, and what each suit has left; return the new count."""
    bosses = trump_bosses = 0
    for suit in range(4):
        place = int(places[suit])
        length = 0
        for rank in range(13):
            card = suit * 13 + rank
            held = int(raw[AT_HAND + card])
            strength = int(raw[AT_STRENGTH + card])
            length += held
            if held > 0 and strength >= 11:
                index[count] = _BOSS + (13 - strength) * NUM_CARDS + place * 13 + rank
                count += 1
                if strength == 13:
                    bosses += held
                    trump_bosses += held * int(raw[AT_TRUMP + suit])
        index[count] = _LENGTH + place * (SUIT_MOST + 1) + min(SUIT_MOST, length)
        index[count + 1] = _UNSEEN + place * (UNSEEN_MOST + 1)
        index[count + 1] += min(UNSEEN_MOST, unseen[suit])
        count += 2
    index[count] = _BOSSES + min(SUIT_MOST, bosses)
    index[count + 1] = _TRUMP_BOSSES + min(SUIT_MOST, trump_bosses)
    return count + 2


@njit
def unseen_suits(raw: Array) -> Array:
    """Return how many cards of each suit the seat has not seen, (4,) int64."""
    left = np.zeros(4, np.int64)
    whole = np.int64(raw[AT_RULES]) * np.int64(raw[AT_RULES + 6])
    for suit in range(4 - np.int64(raw[AT_RULES + 5]), 4):
        left[suit] = whole - np.int64(raw[AT_TRUMP + suit] > 0 and raw[AT_TURN_UP] > 0)
        for rank in range(13):
            left[suit] -= raw[AT_HAND + suit * 13 + rank]
    # Seats are taken from the first on.
    seat = 0
    while seat < MAX_SEATS and raw[AT_SEATED + seat]:
        for card in range(NUM_CARDS):
            left[card // 13] -= raw[AT_GONE + seat * NUM_CARDS + card]
        seat += 1
    for suit in range(4):
        left[suit] = max(0, left[suit])
    return left


@njit
def copies_seen(raw: Array, suit: int, rank: int) -> int:
    """Return how many copies of a card the seat holds or has seen."""
    seen = np.int64(raw[AT_HAND + suit * 13 + rank])
    seen += np.int64(raw[AT_TRUMP + suit] > 0 and raw[AT_TURN_UP] == rank + 1)
    for seat in range(MAX_SEATS):
        seen += raw[AT_GONE + seat * NUM_CARDS + suit * 13 + rank]
    return int(seen)


@njit
def derive_plays(raw: Array, places: Array, unseen: Array, index: Array, count: int) -> int:
    """Append what each legal card would do to the trick in progress; return the new count."""
    if raw[AT_PHASE + 1] == 0:
        return count
    best_rank = best_suit = to_come = 0
    for seat in range(MAX_SEATS):
        if raw[AT_WINNING + seat]:
            best_rank = int(raw[AT_TRICK_RANK + seat])
            best_suit = int(raw[AT_TRICK_SUIT + seat])
        to_come += int(raw[AT_SEATED + seat] > 0 and raw[AT_TRICK_RANK + seat] == 0)
    has_led = follows = False
    unseen_trumps = 0
    for suit in range(4):
        if raw[AT_TRUMP + suit]:
            unseen_trumps = unseen[suit]
        if raw[AT_LED + suit]:
            has_led = True
            for rank in range(13):
                follows = follows or raw[AT_HAND + suit * 13 + rank] > 0
    for suit in range(4):
        if has_led and follows and raw[AT_LED + suit] == 0:
            continue
        is_trump = raw[AT_TRUMP + suit] > 0
        is_safe = is_trump or unseen_trumps == 0
        first = int(places[suit]) * 13
        lowest = highest = duck = cheap = NONE
        for rank in range(13):
            if raw[AT_HAND + suit * 13 + rank] == 0:
                continue
            highest = rank
            lowest = rank if lowest == NONE else lowest
            takes = best_rank == 0
            if suit + 1 == best_suit:
                # Of two equal cards the later one takes the trick.
                takes = rank + 1 >= best_rank
            elif best_rank > 0:
                takes = is_trump
            if best_rank > 0 and takes:
                index[count] = _BEATS + first + rank
                count += 1
                cheap = rank if cheap == NONE else cheap
            elif not takes:
                duck = rank
            is_boss = raw[AT_STRENGTH + suit * 13 + rank] == 13
            if is_boss and raw[AT_RULES] == 2:
                is_boss = copies_seen(raw, suit, rank) == 2
            if takes and (to_come == 1 or (is_boss and is_safe)):
                index[count] = _SURE + first + rank
                count += 1
        for start, rank in ((_DUCK, duck), (_CHEAP, cheap), (_LOWEST, lowest), (_HIGHEST, highest)):
            if rank != NONE:
                index[count] = start + first + rank
                count += 1
    return count


@njit
def derive_needs(raw: Array, index: Array, count: int) -> int:
    """Append what each seat with a known bid still needs; return the new count."""
    left = int(np.int64(raw[AT_TRICKS_LEFT]))
    wanted = 0
    for seat in range(MAX_SEATS):
        if raw[AT_BID_MADE + seat] == 0:
            continue
        need = int(np.int64(raw[AT_NEED + seat]))
        is_lost = raw[AT_LOST + seat] > 0
        wanted += 0 if is_lost else need
        if seat > 0:
            kind = 0 if is_lost else 1 + min(need, NEEDS - 2)
            index[count] = _OTHER_NEED + (seat - 1) * NEEDS + kind
            count += 1
        elif not is_lost:
            index[count] = _OWN_NEED + min(MOST, need)
            index[count + 1] = _OWN_SPARE + min(MOST, max(0, left - need))
            count += 2
    if raw[AT_PHASE + 1]:
        index[count] = _UNWANTED + WIDE + min(WIDE, max(-WIDE, left - wanted))
        count += 1
    return count


@njit
def derive_round(raw: Array, index: Array, count: int) -> int:
    """Append sizes, the hook and how many seats are still to act; return the new count."""
    # Signed: an int of an unsigned byte would stay unsigned here.
    cards, bid_sum = int(np.int64(raw[AT_CARDS])), int(np.int64(raw[AT_BID_SUM]))
    index[count] = _CARDS + min(MOST, cards)
    index[count + 1] = _TRICKS_LEFT + min(MOST, int(raw[AT_TRICKS_LEFT]))
    index[count + 2] = _UNBID + WIDE + min(WIDE, max(-WIDE, cards - bid_sum))
    count += 3
    if raw[AT_FORBIDDEN]:
        index[count] = _FORBIDDEN + min(MOST + 1, int(raw[AT_FORBIDDEN]) - 1)
        count += 1
    seated = bids = plays = 0
    for seat in range(MAX_SEATS):
        seated += int(raw[AT_SEATED + seat])
        bids += int(raw[AT_BID_MADE + seat])
        plays += int(raw[AT_TRICK_RANK + seat] > 0)
    if raw[AT_PHASE]:
        index[count] = _AFTER_BID + max(0, seated - 1 - bids)
        count += 1
    elif raw[AT_PHASE + 1]:
        index[count] = _AFTER_PLAY + max(0, seated - 1 - plays)
        count += 1
    return count


@njit
def add_oracle_inputs(oracle: Array, places: Array, index: Array, value: Array, count: int) -> int:
    """Append every other seat's hand, for a critic; return how many inputs there are now."""
    for j in range(NUM_CARDS, ORACLE_SIZE):
        if oracle[j]:
            card = j % NUM_CARDS
            index[count] = INPUT_SIZE + j - card + places[card // 13] * 13 + card % 13
            value[count] = oracle[j]
            count += 1
    return count


@njit
def write_inputs_of(
    raw: Array, masks: Array, places: Array, index: Array, value: Array, count: Array
) -> None:
    """Fill inputs and canonical suit places of many observations; make `masks` canonical."""
    mask = np.empty(NUM_ACTIONS, masks.dtype)
    for i in range(raw.shape[0]):
        count[i] = write_inputs(raw[i], places[i], index[i], value[i])
        mask[:] = masks[i]
        for action in range(NUM_CARDS):
            masks[i, canonical_action(action, places[i])] = mask[action]


def canonical_inputs(raw: Array, masks: Array) -> tuple[tuple[Array, Array, Array], Array, Array]:
    """Return what the network reads of raw observations (B, SIZE) uint8 and masks (B, 79).

    Its non-zero inputs as index and value (B, MAX_NONZERO) and count (B,), as `first_layer` takes
    them; the masks in canonical suits, int8; the canonical place of each suit, (B, 4) int32.
    """
    size = len(raw)
    places = np.empty((size, 4), np.int32)
    index = np.empty((size, MAX_NONZERO), np.uint16)
    value = np.empty((size, MAX_NONZERO), np.float32)
    count = np.empty(size, np.int32)
    canonical = np.array(masks, np.int8)
    write_inputs_of(np.ascontiguousarray(raw, np.uint8), canonical, places, index, value, count)
    return (index, value, count), canonical, places


def in_plain_suits(chances: Array, places: Array) -> Array:
    """Return values of the actions in canonical suits (B, 79) in the order of the action ids."""
    cards = np.arange(NUM_CARDS)
    back = np.empty(chances.shape, np.int64)
    back[:, :NUM_CARDS] = places[:, cards // 13] * 13 + cards % 13
    back[:, NUM_CARDS:] = np.arange(NUM_CARDS, NUM_ACTIONS)
    return np.take_along_axis(chances, back, axis=1)
