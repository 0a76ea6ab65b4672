"""N tables with one learning seat at each and bots in the others: arrays in, arrays out.

A step takes the learner's action at every table and plays on to its next turn; its reward is all
that it was given in between. Learners of one seat (Gymnasium, Stable-Baselines3) build on this.

    >>> batch = SeatBatch("kachuful", num_tables=3, opponents=["random", "heuristic", "random"])
    >>> batch.reset()
    >>> batch.step(batch.action_mask.argmax(axis=1))
    >>> batch.observation.shape, batch.reward.shape
    ((3, 894), (3,))
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from judgement_env.arguments import choice, dtype_name, finite, refuse, summed_chances, whole
from judgement_env.batch import (
    DTYPES,
    EPISODES,
    RulesLike,
    check_seed,
    refusal,
    round_chances,
)
from judgement_env.bots import Bot, make_bot
from judgement_env.bots.process import ProcessBot
from judgement_env.bots.simple import HeuristicBot, RandomBot
from judgement_env.cards import NONE, NUM_ACTIONS, whole_number
from judgement_env.judgement_v0 import ILLEGAL_ACTIONS, REWARDS, round_rules
from judgement_env.observation import SIZE
from judgement_env.record import Record
from judgement_env.rules import Rules, make_rules
from judgement_env.scoring import counted, shown
from judgement_env.seat_play import (
    BY_ROWS,
    BY_VIEWS,
    ENDED,
    HEURISTIC,
    PLAN_RECORD,
    RANDOM,
    SEAT_RECORD,
    first_refused,
    first_wrong,
    new_rounds,
    proceed,
    renew_tables,
)
from judgement_env.state import OVER, Array, new_tables
from judgement_env.table import IllegalActionError
from judgement_env.view import View, match_sheet, packed

BotLike = str | os.PathLike[str] | Bot


class _Unsaid(str):
    """A text that nobody gave: a default that can be told apart from the same text given."""


# Who plays where neither `opponents` nor `opponent_pool` is given.
USUAL_OPPONENTS = _Unsaid("heuristic")
ONE_BOT = "a text for make_bot, or a Bot"
AUTORESETS = ("same_step", "next_step", "disabled")


class SeatBatch:
    """N tables that are stepped together; what the learners see is read from the attributes.

    observation: Array           # (N, D) float32 or uint8, what the learner sees at its turn
    action_mask: Array           # (N, 79) int8, 1 = legal for it; all 0 where an episode is over
    seat: Array                  # (N,) int32, the learner's seat
    reward: Array                # (N,) float32, all it was given since its last action
    done: Array                  # (N,) bool, the last step ended an episode
    illegal: Array               # (N,) bool, its last action was illegal
    terminal_observation: Array  # (N, D), what it saw at the end where done, else 0
    terminal_seat: Array         # (N,) int32, its seat in the episode that ended, else -1
    totals: Array                # (N, P) int32, the totals of the episode that ended, else 0
    tables: Array                # (N,) TABLE_RECORD, the position itself, hidden cards included
    """

    def __init__(
        self,
        rules: RulesLike = "kachuful",
        num_tables: int = 1,
        seed: int | None = 0,
        *,
        num_players: int | None = None,
        seat: int | None = None,
        opponents: BotLike | Sequence[BotLike] = USUAL_OPPONENTS,
        opponent_pool: Sequence[BotLike] | None = None,
        pool_weights: Any = None,
        reward: str = "points",
        episode: str = "match",
        round_weights: Any = None,
        illegal_action: str = "raise",
        illegal_reward: float = -10,
        autoreset: str = "same_step",
        dtype: str = "float32",
        skip_forced: bool = False,
        records: bool = False,
        copy: bool = True,
    ) -> None:
        """Make the tables; nothing is dealt before `reset`.

        rules, num_players, reward, episode, illegal_action, illegal_reward: as in judgement_v0;
            "end" ends the episode at that table only. seed, round_weights, dtype: as in BatchEnv.
        seat: the learner's, or None: drawn anew for each episode, by the table's key.
        opponents: one bot (a text for `make_bot`, or a Bot) for all other seats, or one for each
            of them, in order of play after the learner.
        opponent_pool: bots of which each other seat draws one for each episode, by the table's
            key, as likely as `pool_weights` say; instead of `opponents`.
        autoreset: "same_step" deals the next episode in the step that ends one, "next_step" in
            the step after it, which ignores the action there, "disabled" only in `reset_tables`.
        skip_forced: play the learner's decisions that leave no choice, but its first one in an
            episode, inside the step that leads to them.
        records: keep what `record` and `terminal_record` need.
        copy: each step makes new arrays; False writes into the same ones again and again.
        Raises ValueError naming the argument, its value and what is allowed.
        """
        self.rules: Rules = make_rules(rules, num_players)
        self.num_tables = whole("num_tables", num_tables, 1)
        self.num_players = self.rules.num_players
        self.seed = check_seed(seed)
        self.dtype = np.dtype(dtype_name(dtype, DTYPES))
        self.episode = choice("episode", episode, EPISODES)
        self.autoreset = choice("autoreset", autoreset, AUTORESETS)
        self.illegal_action = choice("illegal_action", illegal_action, ILLEGAL_ACTIONS)
        self.copy = bool(copy)
        self.records = bool(records)
        self._plan = np.zeros(1, PLAN_RECORD)
        plan = self._plan[0]
        plan["reward"] = REWARDS.index(choice("reward", reward, REWARDS))
        plan["is_round"] = episode == "round"
        plan["illegal_action"] = ILLEGAL_ACTIONS.index(illegal_action)
        plan["illegal_reward"] = finite("illegal_reward", illegal_reward)
        plan["is_same_step"] = autoreset == "same_step"
        plan["is_skipping"] = bool(skip_forced)
        plan["seat"] = NONE if seat is None else whole("seat", seat, 0, self.num_players - 1)
        if round_weights is not None and episode != "round":
            raise ValueError("round_weights: given with episode 'match' (allowed: with 'round')")
        self._chances = round_chances(self.rules, round_weights)
        self._packed = packed(self.rules)
        self._set_up_tables()
        self._bots: list[Bot] = []
        self._made: dict[str, Bot] = {}
        if opponent_pool is None:
            if pool_weights is not None:
                raise ValueError("pool_weights: given without opponent_pool (allowed: with it)")
            self.set_opponents(opponents)
        elif not isinstance(opponents, _Unsaid):
            raise ValueError(
                f"opponents: {shown(opponents)} with opponent_pool {shown(opponent_pool)}"
                " (allowed: one of the two)"
            )
        else:
            self.set_opponent_pool(opponent_pool, pool_weights)

    def _set_up_tables(self) -> None:
        n = self.num_tables
        self.tables = new_tables(n)
        self._seats = np.zeros(n, SEAT_RECORD)
        self._seats["bot"] = NONE
        self._rows = np.arange(n)
        self._seeds = np.zeros(n, np.uint64)
        self._numbers = np.zeros(n, np.int64)
        self._is_seeded = False
        self._has_begun = False
        self._is_closed = False
        self._players = tuple(f"player_{k}" for k in range(self.num_players))
        self._round_rules: dict[int, Rules] = {}
        self._keep_rounds(self.records)
        is_raw = self.dtype == np.uint8
        self._room: Array = np.zeros((1, SIZE), np.uint8)
        self._no_floats: Array | None = np.zeros((0, SIZE), np.float32) if is_raw else None
        self.observation: Array = np.zeros((n, SIZE), self.dtype)
        self.action_mask: Array = np.zeros((n, NUM_ACTIONS), np.int8)
        self.seat: Array = np.full(n, NONE, np.int32)
        self._lay_out_results()

    def _keep_rounds(self, is_kept: bool) -> None:
        """Make room for the settled rounds of every table and its position at the end."""
        size = self.rules.num_rounds if self.episode == "match" else 1
        self._rounds = new_rounds(self.num_tables if is_kept else 0, size)
        self._last = new_tables(self.num_tables if is_kept else 0)

    def _lay_out_results(self) -> None:
        n = self.num_tables
        self.reward: Array = np.zeros(n, np.float32)
        self.done: Array = np.zeros(n, np.bool_)
        self.illegal: Array = np.zeros(n, np.bool_)
        self.terminal_observation: Array = np.zeros((n, SIZE), self.dtype)
        self.terminal_seat: Array = np.full(n, NONE, np.int32)
        self.totals: Array = np.zeros((n, self.num_players), np.int32)

    def _make_room(self) -> None:
        """Ready the arrays for a step at every table: new ones, or the old ones cleared."""
        if self.copy:
            self.observation = np.empty_like(self.observation)
            self.action_mask = np.empty_like(self.action_mask)
            self.seat = np.empty_like(self.seat)
            self._lay_out_results()
            return
        if self.done.any():
            self.terminal_observation[self.done] = 0
            self.totals[self.done] = 0
        self.reward[:] = 0
        self.done[:] = False
        self.illegal[:] = False
        self.terminal_seat[:] = NONE

    # Opponents.

    @property
    def opponents(self) -> tuple[Bot, ...]:
        """The bots that sit at some table or may sit down at the next episode."""
        return tuple(self._bots)

    def set_opponents(self, opponents: BotLike | Sequence[BotLike]) -> None:
        """Seat these bots, as the argument of the same name does, from each next episode on."""
        others = self.num_players - 1
        allowed = f"one bot for all other seats, or {others}, one for each; a bot is {ONE_BOT}"
        if isinstance(opponents, str | os.PathLike | Bot):
            given = [opponents] * others
        else:
            given = _listed("opponents", opponents, allowed)
        if len(given) != others:
            raise ValueError(f"opponents: {counted(len(given), 'bot')} (allowed: {allowed})")
        self._use("opponents", given, np.zeros(0))

    def set_opponent_pool(self, pool: Sequence[BotLike], weights: Any = None) -> None:
        """Draw opponents from these bots from each next episode on.

        `weights` says how likely each is, one number from 0 for each; all alike if None.
        """
        given = _listed("opponent_pool", pool, f"a sequence of bots; a bot is {ONE_BOT}")
        if not given:
            raise ValueError("opponent_pool: no bot (allowed: one or more)")
        odds = summed_chances("pool_weights", weights, len(given), "one a bot")
        self._use("opponent_pool", given, odds)

    def _use(self, name: str, given: list[Any], odds: Array) -> None:
        """Keep the bots that sit somewhere, and seat `given` in episodes to come."""
        chosen = [self._loaded(name, one) for one in given]
        used = np.unique(self._seats["bot"]).tolist()
        bots = [self._bots[k] for k in used if k != NONE]
        places = {id(bot): place for place, bot in enumerate(bots)}
        moved = np.full(len(self._bots) + 1, NONE, np.int32)
        for k in used:
            if k != NONE:
                moved[k] = places[id(self._bots[k])]
        for bot in chosen:
            if id(bot) not in places:
                places[id(bot)] = len(bots)
                bots.append(bot)
        # NONE, the last place, stays NONE.
        self._seats["bot"] = moved[self._seats["bot"]]
        self._bots = bots
        self._kinds: Array = np.array([_kind(bot) for bot in bots], np.int64)
        self._choices: Array = np.array([places[id(bot)] for bot in chosen], np.int64)
        self._odds = odds
        self._seating = (name, given, odds)
        if not len(self._rounds) and (self._kinds == BY_VIEWS).any():
            self._keep_rounds(True)

    def _loaded(self, name: str, given: Any) -> Bot:
        if isinstance(given, Bot):
            return given
        if not isinstance(given, str | os.PathLike):
            refuse(name, given, ONE_BOT)
        text = os.fspath(given)
        if text not in self._made:
            try:
                self._made[text] = make_bot(text)
            except (OSError, ValueError) as error:
                raise ValueError(f"{name}: {error}") from error
        return self._made[text]

    # Episodes.

    def reset(self, seed: int | Sequence[int | None] | None = None) -> None:
        """Begin an episode at every table, and clear `reward` and `done`.

        An int is the seed of all tables, as in BatchEnv; of N seeds, the i-th is that of table i
        alone, which then deals as judgement_v0 does after reset(seed=...). None, or one of N: the
        next match of the seed in use; at the first reset the constructor's, or a drawn one.
        Closed tables are open again, bots that are texts made anew.
        """
        self._open()
        if seed is None and not self._is_seeded:
            seed = self.seed
        is_seeded = np.zeros(self.num_tables, np.bool_)
        if seed is None or isinstance(seed, Sequence | np.ndarray):
            self._take_seeds(self._rows, seed, is_seeded)
        else:
            self.seed = check_seed(seed)
            self._seeds[:] = self.seed
            self._numbers[:] = self._rows
            is_seeded[:] = True
        self._is_seeded = True
        self._has_begun = True
        self._make_room()
        self._renew(self._rows, is_seeded)

    def reset_tables(self, mask: Any, seeds: Sequence[int | None] | None = None) -> None:
        """Begin an episode where `mask` (N,) bool says so, and clear `reward` and `done` there.

        `seeds` are as the sequence that `reset` takes; those of other tables are not used.
        """
        self._need_open("reset_tables")
        chosen = np.asarray(mask)
        if chosen.dtype != np.bool_ or chosen.shape != (self.num_tables,):
            raise ValueError(
                f"mask: {chosen.dtype} of shape {chosen.shape}"
                f" (allowed: bool of shape ({self.num_tables},))"
            )
        rows = np.flatnonzero(chosen)
        is_seeded = np.zeros(self.num_tables, np.bool_)
        self._take_seeds(rows, seeds, is_seeded)
        if self.copy:
            for name in _ARRAYS:
                setattr(self, name, getattr(self, name).copy())
        for name in _RESULTS:
            getattr(self, name)[rows] = 0
        self.terminal_seat[rows] = NONE
        self._renew(rows, is_seeded)

    def _take_seeds(self, rows: Array, seeds: Any, is_seeded: Array) -> None:
        """Note the seeds of `rows`; a table that never had one draws it."""
        given = [None] * self.num_tables if seeds is None else list(seeds)
        if len(given) != self.num_tables:
            raise ValueError(f"seed: {len(given)} seeds (allowed: {self.num_tables}, one a table)")
        checked = [None if one is None else check_seed(one) for one in given]
        for i in rows.tolist() if seeds is not None else ():
            one = checked[i]
            if one is None and self._is_seeded:
                continue
            self._seeds[i] = check_seed(one)
            self._numbers[i] = 0
            is_seeded[i] = True

    def _renew(self, rows: Array, is_seeded: Array) -> None:
        renew_tables(self.tables, self._seats, rows, is_seeded, self._seeds, self._numbers)
        self._play(rows, rows)

    def step(self, actions: Any) -> None:
        """Take the learner's action at every table; `actions` (N,) of any integer dtype.

        Raises IllegalActionError where illegal actions are to raise, TypeError or ValueError for
        another dtype or shape, RuntimeError before the first reset, after `close`, and at a table
        that is over (autoreset "disabled"); nothing has changed then. Where a bot breaks down or
        answers what is not legal its error is raised, and only `reset` goes on.
        """
        self._need_open("step")
        chosen = self._checked(actions)
        over = np.zeros(0, np.int64)
        if self.autoreset != "same_step":
            over = np.flatnonzero(self._seats["status"] == ENDED)
        if len(over) and self.autoreset == "disabled":
            tables = ", ".join(map(str, over[:5])) + (", ..." if len(over) > 5 else "")
            raise RuntimeError(f"step: the episode is over at table {tables}; reset it first")
        if self.illegal_action == "raise":
            i = int(first_refused(self._packed, self.tables, self._seats, chosen))
            if i != NONE:
                self._refuse(i, int(chosen[i]))
        self._make_room()
        if len(over):
            none = np.zeros(self.num_tables, np.bool_)
            renew_tables(self.tables, self._seats, over, none, self._seeds, self._numbers)
        self._play(self._rows, chosen)

    def _play(self, rows: Array, actions: Array) -> None:
        """Take an action at each of `rows`, and play on to the learner's turn at all of them."""
        try:
            while self._proceed(rows, actions):
                rows = rows[self._seats["status"][rows] >= 0]
                actions = self._answers(rows)
            if (self._kinds == BY_VIEWS).any():
                self._tell()
        except BaseException:
            # Some tables are between two turns of the learner.
            self._has_begun = False
            raise

    def _proceed(self, rows: Array, actions: Array) -> int:
        if self._no_floats is None:
            shown = (self._room, self.observation, self._room, self.terminal_observation)
        else:
            none = self._no_floats
            shown = (self.observation, none, self.terminal_observation, none)
        board = (self._plan, self._packed, self.tables, self._seats, rows, actions)
        seating = (self._chances, self._kinds, self._choices, self._odds, self._rounds, self._last)
        results = (self.action_mask, self.seat, self.reward, self.done, self.illegal)
        return int(proceed(*board, *seating, *shown, *results, self.terminal_seat, self.totals))

    # Bots that are asked.

    def _answers(self, rows: Array) -> Array:
        """The legal actions of the bots that `rows` wait for, each bot asked once if it can."""
        status = self._seats["status"][rows]
        actions = np.empty(len(rows), np.int64)
        for index in np.unique(status).tolist():
            mine = np.flatnonzero(status == index)
            ask = self._by_rows if self._kinds[index] == BY_ROWS else self._by_views
            actions[mine] = ask(self._bots[index], rows[mine])
        j = int(first_wrong(self._packed, self.tables, rows, actions))
        if j != NONE:
            i, bot = int(rows[j]), self._bots[int(status[j])]
            view = self._view(i, int(self.tables["seat"][i]))
            raise ValueError(f"opponent {bot.name!r}: {refusal(i, view, int(actions[j]))}")
        return actions

    def _by_rows(self, bot: Bot, rows: Array) -> Array:
        chosen = np.asarray(bot.act_rows(self._packed, self.tables, rows))
        if chosen.shape != (len(rows),) or chosen.dtype.kind not in "iu":
            raise ValueError(
                f"opponent {bot.name!r}: act_rows gave {chosen.dtype} of shape {chosen.shape}"
                f" (allowed: whole numbers of shape ({len(rows)},))"
            )
        return chosen

    def _by_views(self, bot: Bot, rows: Array) -> Array:
        actions = np.empty(len(rows), np.int64)
        for j, i in enumerate(rows.tolist()):
            answer = bot.act(self._view(i, int(self.tables["seat"][i])))
            action = whole_number(answer)
            if action is None:
                raise ValueError(f"opponent {bot.name!r}: {shown(answer)} (allowed: an action id)")
            actions[j] = action
        return actions

    def _tell(self) -> None:
        """Show a match that is over, without its seed, to the bots in it that are asked by views.

        A program that serves several tables at once is not told: it knows one match at a time.
        """
        is_same = self.autoreset == "same_step"
        seated = self._seats["bot_before" if is_same else "bot"]
        for i in np.flatnonzero(self.done).tolist():
            for index in np.unique(seated[i]).tolist():
                if index == NONE or self._kinds[index] != BY_VIEWS:
                    continue
                bot = self._bots[index]
                if self.num_tables == 1 or not isinstance(bot, ProcessBot):
                    bot.match_over({**self._sheet(self._last[i : i + 1], i), "seed": None})

    # What can be seen.

    def action_masks(self) -> Array:
        """What `action_mask` says, as (N, 79) bool."""
        return self.action_mask.astype(np.bool_)

    def view(self, i: int) -> View:
        """What the learner at table i may know; of earlier rounds only with `records`."""
        self._need_begun("view")
        return self._view(self._table("view", i), int(self._seats["seat"][i]))

    def record(self, i: int) -> Record:
        """The match in play at table i as a `judgement-record/1`, hidden cards included."""
        self._need_begun("record")
        self._need_records("record")
        i = self._table("record", i)
        return self._sheet(self.tables[i : i + 1], i)

    def terminal_record(self, i: int) -> Record:
        """The record of the episode that the last step ended at table i; ValueError if none."""
        self._need_begun("terminal_record")
        self._need_records("terminal_record")
        i = self._table("terminal_record", i)
        if not self.done[i]:
            raise ValueError(f"terminal_record: {i} (allowed: a table where done is True)")
        return self._sheet(self._last[i : i + 1], i)

    def _sheet(self, row: Array, i: int) -> Record:
        rules, row = self._alone(row)
        seed, number = int(self._seeds[i]), int(self._numbers[i])
        return match_sheet(rules, seed, number, self._players, self._settled(i, row), row)

    def _view(self, i: int, seat: int) -> View:
        rules, row = self._alone(self.tables[i : i + 1])
        settled = self._settled(i, row)
        return View(rules, seat, row, settled, self._players, int(self._numbers[i]))

    def _settled(self, i: int, row: Array) -> tuple[bytes, ...]:
        """The settled rounds of the match in `row`, as bytes."""
        if not len(self._rounds):
            return ()
        count = int(row["round"][0] - row["first_round"][0]) + int(row["phase"][0] == OVER)
        return tuple(self._rounds[i, k].tobytes() for k in range(count))

    def _alone(self, row: Array) -> tuple[Rules, Array]:
        """The rules of a row (1,) and the row; an episode of one round as a match of that alone."""
        if self.episode == "match":
            return self.rules, row
        index = int(row["round"][0])
        if index not in self._round_rules:
            self._round_rules[index] = round_rules(self.rules, index)
        row = row.copy()
        for field in ("round", "first_round", "last_round"):
            row[field] = 0
        return self._round_rules[index], row

    def close(self) -> None:
        """Close the bots that were made from texts; a second call does nothing.

        What is shown can still be read, `reset` opens the tables again.
        """
        self._is_closed = True
        for bot in self._made.values():
            bot.close()
        self._made = {}

    def _open(self) -> None:
        """Seat the bots anew, those made from texts as new ones, where the tables are closed."""
        if self._is_closed:
            self._seats["bot"] = NONE
            self._use(*self._seating)
            self._is_closed = False

    # Checks.

    def _need_open(self, method: str) -> None:
        self._need_begun(method)
        if self._is_closed:
            raise RuntimeError(f"{method}: these tables are closed, reset() opens them again")

    def _need_begun(self, method: str) -> None:
        if not self._has_begun:
            raise RuntimeError(f"{method}: call reset() first")

    def _need_records(self, method: str) -> None:
        if not self.records:
            raise RuntimeError(f"{method}: these tables were made with records=False")

    def _table(self, method: str, i: Any) -> int:
        return whole(f"{method}: table", i, 0, self.num_tables - 1)

    def _checked(self, actions: Any) -> Array:
        given = np.asarray(actions)
        if given.dtype.kind not in "iu":
            raise TypeError(f"actions: dtype {given.dtype} (allowed: any integer dtype)")
        if given.shape != (self.num_tables,):
            raise ValueError(f"actions: shape {given.shape} (allowed: ({self.num_tables},))")
        return given.astype(np.int64)

    def _refuse(self, i: int, action: int) -> NoReturn:
        view = self._view(i, int(self._seats["seat"][i]))
        raise IllegalActionError(refusal(i, view, action), view.seat, action, list(view.legal))


# The arrays that users read, and those of them that are 0 where nothing ended or was given.
_RESULTS = ("reward", "done", "illegal", "terminal_observation", "totals")
_ARRAYS = (*_RESULTS, "terminal_seat", "observation", "action_mask", "seat")


def _listed(name: str, given: Any, allowed: str) -> list[Any]:
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        refuse(name, given, allowed)
    return list(given)


def _kind(bot: Bot) -> int:
    """How a bot is asked; the two bots whose play is compiled are not asked at all."""
    if type(bot) is RandomBot:
        return RANDOM
    if type(bot) is HeuristicBot:
        return HEURISTIC
    return BY_ROWS if bot.has_rows else BY_VIEWS
