"""Tables at which one seat learns: the kernels that play all others and add up what it is given.

A learner's action and all that follows from it, to its next turn, is one call of `proceed`; where
a bot that is not compiled is to act, the table waits, and a later call goes on with its action.
Every draw (seat, opponents, random moves, replacements) follows from the table's key, the match
and the moment alone, so row i never depends on row j.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from judgement_env._jit import njit, row_of
from judgement_env.batch_play import begin_episode, only_action, write_scaled
from judgement_env.bots.rule_player import heuristic_action
from judgement_env.cards import NONE, NUM_ACTIONS
from judgement_env.engine import (
    LOW_HALF,
    apply_action,
    draw_below,
    is_legal,
    next_round,
    next_seat,
    stream,
    table_key,
    write_mask,
)
from judgement_env.judgement_v0 import REPLACEMENT_STREAM
from judgement_env.observation import encode
from judgement_env.state import MAX_SEATS, OVER, TABLE_RECORD, Array, RulesRecord, TableRecord

SeatRecord = Any
PlanRecord = Any

# Streams of a match's key, after those of the deals, the round drawn and replaced actions.
SEAT_STREAM = REPLACEMENT_STREAM + 1
POOL_STREAM = SEAT_STREAM + 1
RANDOM_STREAM = POOL_STREAM + 1

# Values of `status` below 0; from 0 on it is the bot that is to be asked.
LEARNER, ENDED, FRESH = -1, -2, -3
# Values of `kinds`: played in compiled code, asked by rows, asked by views.
RANDOM, HEURISTIC, BY_ROWS, BY_VIEWS = range(4)
# Values of `reward` and `illegal_action` of a plan, in the order of judgement_v0's names.
POINTS, RELATIVE, WIN = range(3)
RAISE, REPLACE, END = range(3)

# The learner's place at one table.
SEAT_RECORD = np.dtype(
    (
        np.record,
        np.dtype(
            [
                # who is to act, or what has become of the episode
                ("status", "i4"),
                # the learner's seat
                ("seat", "i4"),
                # decisions of all seats in this episode, a blind round's cards not counted
                ("decisions", "i4"),
                # 1 once the learner has decided something in this episode
                ("has_acted", "i4"),
                # what the learner was given since its last action
                ("gain", "f8"),
                # by seat: the bot that sits there, -1 at the learner's; and in the episode before
                ("bot", "i4", (MAX_SEATS,)),
                ("bot_before", "i4", (MAX_SEATS,)),
            ],
            align=True,
        ),
    )
)

# How a batch of such tables is played.
PLAN_RECORD = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("reward", "i4"),
                ("is_round", "i4"),
                ("illegal_action", "i4"),
                # 1 = the next episode is dealt in the step that ends one
                ("is_same_step", "i4"),
                # 1 = the learner's decisions without a choice are played, its first one excepted
                ("is_skipping", "i4"),
                # the learner's seat, -1 = drawn
                ("seat", "i4"),
                ("illegal_reward", "f8"),
            ],
            align=True,
        ),
    )
)

# --- an episode begins ------------------------------------------------------------------------


@njit
def take_seats(
    plan: PlanRecord, r: RulesRecord, t: TableRecord, s: SeatRecord, choices: Array, odds: Array
) -> None:
    """Seat the learner and the bots of this match.

    `choices` holds a bot for each other seat in order of play after the learner; with `odds`
    (rising to 1, one for each of `choices`) each other seat draws its own.
    """
    match_key = stream(t.key, t.match)
    seat = plan.seat
    if seat == NONE:
        seat = draw_below(stream(match_key, SEAT_STREAM), 0, r.num_players)
    s.seat = seat
    s.bot_before[:] = s.bot[:]
    s.bot[:] = NONE
    for place in range(r.num_players - 1):
        seat = next_seat(r, t, seat)
        index = place
        if odds.shape[0]:
            bits = stream(stream(match_key, POOL_STREAM), place) & LOW_HALF
            point = float(bits) / float(1 << 32)
            index = 0
            while odds[index] <= point:
                index += 1
        s.bot[seat] = choices[index]


@njit
def open_episode(
    plan: PlanRecord,
    r: RulesRecord,
    t: TableRecord,
    s: SeatRecord,
    chances: Array,
    choices: Array,
    odds: Array,
) -> None:
    """Deal the first round of the table's match and seat everybody."""
    begin_episode(r, t, plan.is_round == 1, chances)
    take_seats(plan, r, t, s, choices, odds)
    s.decisions = 0
    s.has_acted = 0
    s.gain = 0.0


@njit
def renew_tables(
    tables: Array, seats: Array, rows: Array, is_seeded: Array, seeds: Array, numbers: Array
) -> None:
    """Have the next `proceed` deal an episode at each of `rows` (J,): the one after that in play.

    Where `is_seeded` (N,) it is match 0 of table `numbers[i]` of seed `seeds[i]`.
    """
    for i in rows:
        t = tables[i]
        t.match += 1
        if is_seeded[i]:
            t.key = table_key(seeds[i], numbers[i])
            t.match = 0
        seats[i].status = FRESH


# --- moves ------------------------------------------------------------------------------------


@njit
def credit(plan: PlanRecord, r: RulesRecord, t: TableRecord, s: SeatRecord, is_over: bool) -> None:
    """Add to the learner's gain what the round just settled, and the match just over, give it."""
    if plan.reward == WIN:
        if not is_over:
            return
        best = t.total[0]
        num_best = 0
        for seat in range(r.num_players):
            if t.total[seat] > best:
                best = t.total[seat]
                num_best = 0
            num_best += t.total[seat] == best
        if t.total[s.seat] == best:
            s.gain += 1.0 / num_best
        return
    own = t.points[s.seat]
    s.gain += own
    if plan.reward == RELATIVE:
        others = -own
        for seat in range(r.num_players):
            others += t.points[seat]
        s.gain -= others / (r.num_players - 1)


@njit
def move(
    plan: PlanRecord,
    r: RulesRecord,
    t: TableRecord,
    s: SeatRecord,
    action: int,
    rounds: Array,
    i: int,
) -> None:
    """Apply a legal action and deal the next round where it settles one.

    `rounds` (N, R) keeps the settled rounds of row i without the key; of no rows it keeps none.
    """
    s.decisions += 1
    if not apply_action(r, t, action):
        return
    if rounds.shape[0]:
        index = t["round"] - t.first_round
        rounds[i, index] = t
        rounds[i, index].key = 0
    credit(plan, r, t, s, next_round(r, t))


@njit
def draw_legal(match_key: np.uint64, name: int, counter: int, mask: Array, num_legal: int) -> int:
    """Return a legal action of `mask`, each as likely: draw `counter` of stream `name`."""
    skip = draw_below(stream(match_key, name), counter, num_legal)
    action = only_action(mask)
    while skip:
        action += 1
        skip -= mask[action]
    return action


@njit
def play_to_learner(
    plan: PlanRecord,
    r: RulesRecord,
    t: TableRecord,
    s: SeatRecord,
    kinds: Array,
    rounds: Array,
    i: int,
    mask: Array,
) -> int:
    """Play the other seats until the learner is to act; return the status this leaves.

    That is LEARNER, ENDED, or the bot to be asked; `mask` (79,) is room to work in. Bots are not
    asked where they have no choice.
    """
    while t.phase != OVER:
        if t.seat == s.seat:
            if not plan.is_skipping or not s.has_acted or write_mask(r, t, mask) > 1:
                return LEARNER
            action = only_action(mask)
        else:
            bot = int(s.bot[t.seat])
            kind = kinds[bot]
            if kind == HEURISTIC:
                action = int(heuristic_action(r, t))
            else:
                num_legal = write_mask(r, t, mask)
                if num_legal == 1:
                    action = only_action(mask)
                elif kind == RANDOM:
                    match_key = stream(t.key, t.match)
                    action = draw_legal(match_key, RANDOM_STREAM, s.decisions, mask, num_legal)
                else:
                    return bot
        move(plan, r, t, s, action, rounds, i)
    return ENDED


@njit
def act_as_learner(
    plan: PlanRecord,
    r: RulesRecord,
    t: TableRecord,
    s: SeatRecord,
    action: int,
    rounds: Array,
    i: int,
    mask: Array,
    illegal: Array,
) -> bool:
    """Apply the learner's action; return whether it was illegal and so ends the episode."""
    s.gain = 0.0
    s.has_acted = 1
    if not is_legal(r, t, action):
        illegal[i] = True
        if plan.illegal_action == END:
            s.gain = plan.illegal_reward
            return True
        num_legal = write_mask(r, t, mask)
        match_key = stream(t.key, t.match)
        action = draw_legal(match_key, REPLACEMENT_STREAM, s.decisions, mask, num_legal)
    move(plan, r, t, s, action, rounds, i)
    return False


# --- what is shown ----------------------------------------------------------------------------


@njit
def see(r: RulesRecord, t: TableRecord, viewer: int, raw: Array, scaled: Array, i: int) -> None:
    """Write what `viewer` sees into row i of `scaled`, or of `raw` where that has no rows."""
    row = row_of(raw, i % raw.shape[0])
    encode(r, t, viewer, row)
    if scaled.shape[0]:
        write_scaled(row, row_of(scaled, i))


@njit
def first_refused(rules: Array, tables: Array, seats: Array, actions: Array) -> int:
    """Return the first table where the learner is to act and its action is illegal, else NONE."""
    for i in range(tables.shape[0]):
        if seats[i].status == LEARNER and not is_legal(rules[0], tables[i], actions[i]):
            return i
    return NONE


@njit
def first_wrong(rules: Array, tables: Array, rows: Array, actions: Array) -> int:
    """Return the first place j where `actions[j]` is illegal at ``tables[rows[j]]``, else NONE."""
    for j in range(rows.shape[0]):
        if not is_legal(rules[0], tables[rows[j]], actions[j]):
            return j
    return NONE


@njit
def proceed(
    plans: Array,
    rules: Array,
    tables: Array,
    seats: Array,
    rows: Array,
    actions: Array,
    chances: Array,
    kinds: Array,
    choices: Array,
    odds: Array,
    rounds: Array,
    last: Array,
    raw: Array,
    scaled: Array,
    final_raw: Array,
    final_scaled: Array,
    mask: Array,
    seat: Array,
    reward: Array,
    done: Array,
    illegal: Array,
    final_seat: Array,
    totals: Array,
) -> int:
    """Play on at each of `rows` and write what follows; return at how many a bot is to be asked.

    `actions[j]` is the learner's, or the bot's that was asked; a fresh table is dealt instead.
    Tables where a bot is to be asked show nothing new yet.
    """
    plan = plans[0]
    r = rules[0]
    room = np.empty(NUM_ACTIONS, np.int8)
    num_waiting = 0
    for j in range(rows.shape[0]):
        i = rows[j]
        t = tables[i]
        s = seats[i]
        is_cut = False
        if s.status == FRESH:
            open_episode(plan, r, t, s, chances, choices, odds)
        elif s.status == LEARNER:
            is_cut = act_as_learner(plan, r, t, s, actions[j], rounds, i, room, illegal)
        else:
            move(plan, r, t, s, actions[j], rounds, i)
        status = ENDED if is_cut else play_to_learner(plan, r, t, s, kinds, rounds, i, room)
        if status == ENDED:
            done[i] = True
            reward[i] = s.gain
            final_seat[i] = s.seat
            for k in range(r.num_players):
                totals[i, k] = t.total[k]
            if last.shape[0]:
                last[i] = t
            see(r, t, s.seat, final_raw, final_scaled, i)
            if plan.is_same_step:
                t.match += 1
                open_episode(plan, r, t, s, chances, choices, odds)
                status = play_to_learner(plan, r, t, s, kinds, rounds, i, room)
        s.status = status
        if status >= 0:
            num_waiting += 1
            continue
        seat[i] = s.seat
        see(r, t, s.seat, raw, scaled, i)
        if status == LEARNER:
            write_mask(r, t, row_of(mask, i))
        else:
            mask[i, :] = 0
        if not done[i]:
            reward[i] = s.gain
    return num_waiting


def new_rounds(num_tables: int, num_rounds: int) -> Array:
    """Return room (N, R) of TABLE_RECORD for the settled rounds of every table."""
    return np.zeros((num_tables, num_rounds), TABLE_RECORD)
