"""Judgement for Gymnasium: one seat learns, bots play the others; one table, or N as a VectorEnv.

An observation is one flat Box, the learner's own view; which of the 79 actions are legal stands in
``info["action_mask"]`` and in `action_masks()`. All play is a `SeatBatch`'s; this adds the spaces,
seeds and infos that Gymnasium asks for.

    >>> env = gymnasium.make("judgement_env:Judgement-v0", rules="kachuful", opponents="heuristic")
    >>> observation, info = env.reset(seed=7)
    >>> observation.shape, int(info["action_mask"].sum())
    ((894,), 8)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import logger, spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from judgement_env.arguments import choice, refuse, whole
from judgement_env.batch import RulesLike, check_seed
from judgement_env.cards import NUM_ACTIONS
from judgement_env.judgement_v0 import RENDER_MODES
from judgement_env.observation import SIZE, as_float
from judgement_env.record import Record
from judgement_env.render import render
from judgement_env.scoring import shown
from judgement_env.seat_batch import USUAL_OPPONENTS, BotLike, SeatBatch
from judgement_env.state import Array
from judgement_env.view import View

# Gymnasium's names of its modes, and the batch's.
MODES = {
    AutoresetMode.SAME_STEP: "same_step",
    AutoresetMode.NEXT_STEP: "next_step",
    AutoresetMode.DISABLED: "disabled",
}
# What `reset` of judgement_v0 takes, and a seat among bots cannot be given.
DEALING = ("dealer", "deals", "turn_ups", "round")


def observation_space(dtype: Any) -> spaces.Box:
    """Return the space (SIZE,) of observations as "float32", or raw as "uint8"."""
    low, high = np.zeros(SIZE, np.uint8), np.full(SIZE, 255, np.uint8)
    if np.dtype(dtype) == np.uint8:
        return spaces.Box(low, high, dtype=np.uint8)
    return spaces.Box(as_float(low), as_float(high), dtype=np.float32)


class JudgementEnv(gymnasium.Env[Array, np.int64]):
    """One learner at one table.

    Observations are (894,) arrays, new at each call. An info holds "action_mask" (79,) int8,
    "seat", the learner's, unless illegal actions raise "illegal_action", 1 after one, and at the
    end "totals" (P,) int32.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 1}

    def __init__(
        self,
        rules: RulesLike = "kachuful",
        seat: int | None = None,
        opponents: BotLike | Sequence[BotLike] = USUAL_OPPONENTS,
        *,
        render_mode: str | None = None,
        illegal_action: str = "random",
        info_record: bool = False,
        **options: Any,
    ) -> None:
        """Make the environment; nothing is dealt before `reset`.

        rules, seat, opponents, illegal_action and all other `options` (num_players, opponent_pool,
            reward, episode, dtype, skip_forced ...) are SeatBatch's.
        illegal_action: "random" here, for the tools around Gymnasium draw actions without a mask.
        render_mode: None, "human" (prints at each reset and step) or "ansi" (text).
        info_record: the last info of an episode holds "record", the match as JSON text.
        Raises ValueError naming the argument, its value and what is allowed.
        """
        self.render_mode = _render_mode(render_mode)
        self.info_record = bool(info_record)
        self.batch = SeatBatch(
            rules,
            seat=seat,
            opponents=opponents,
            illegal_action=illegal_action,
            autoreset="disabled",
            records=True,
            **options,
        )
        self.observation_space = observation_space(self.batch.dtype)
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self._has_seed = False

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode: the first of the seed, or without one the next of the seed in use.

        The deals are those of judgement_v0 after the same resets. Raises ValueError for options
        that deal by hand, which only judgement_v0 and Table do; other options are ignored. A
        closed environment is open again.
        """
        super().reset(seed=seed)
        _refuse_dealing(options)
        if seed is None and not self._has_seed:
            seed = int(self.np_random.integers(1 << 53))
        self.batch.reset(None if seed is None else [seed])
        self._has_seed = True
        self._show_people()
        return self.batch.observation[0], self._info()

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Take the learner's action and play on to its next turn, or to the end of the episode.

        The reward is all that the seat was given in between. Raises RuntimeError before `reset`,
        after the end and after `close`, TypeError for what is no integer, ValueError for an array
        that is not one action, IllegalActionError where illegal actions are to raise; nothing has
        changed then.
        """
        given = np.asarray(action)
        if given.dtype.kind not in "iu":
            raise TypeError(f"action: {shown(action)} (allowed: a whole number of any dtype)")
        if given.shape != ():
            raise ValueError(f"action: shape {given.shape} (allowed: a whole number, no array)")
        self.batch.step(given[None])
        is_over = bool(self.batch.done[0])
        info = self._info()
        if is_over:
            info["totals"] = self.batch.totals[0]
            if self.info_record:
                info["record"] = json.dumps(self.record())
        self._show_people()
        return self.batch.observation[0], float(self.batch.reward[0]), is_over, False, info

    def _show_people(self) -> None:
        if self.render_mode == "human":
            self.render()

    def _info(self) -> dict[str, Any]:
        info = {"action_mask": self.batch.action_mask[0], "seat": int(self.batch.seat[0])}
        if self.batch.illegal_action != "raise":
            info["illegal_action"] = int(self.batch.illegal[0])
        return info

    def action_masks(self) -> Array:
        """The legal actions as (79,) bool, by the name that sb3-contrib calls.

        Wrappers hide it: ``env.get_wrapper_attr("action_masks")()``.
        """
        masks: Array = self.batch.action_masks()[0]
        return masks

    def record(self) -> Record:
        """The match so far, or the one just over, as a `judgement-record/1`: hidden cards too."""
        return self.batch.record(0)

    def view(self) -> View:
        """What the learner may know, for a person or a bot."""
        return self.batch.view(0)

    def set_opponents(self, opponents: BotLike | Sequence[BotLike]) -> None:
        """Seat these bots from the next episode on, as the argument `opponents` does."""
        self.batch.set_opponents(opponents)

    def set_opponent_pool(self, pool: Sequence[BotLike], weights: Any = None) -> None:
        """Draw opponents from these bots from the next episode on."""
        self.batch.set_opponent_pool(pool, weights)

    def render(self) -> str | None:
        """Show the learner's view, printed or as text; no card is shown that it may not see."""
        return _shown(self.batch.view(0), self.render_mode)

    def close(self) -> None:
        """Close the bots that were made from texts; a second call does nothing.

        What was shown can still be read, and `reset` opens the environment again.
        """
        self.batch.close()


class JudgementVectorEnv(VectorEnv[Array, Array, Array]):
    """One learner at each of N tables, stepped together in compiled code.

    It behaves as Gymnasium's SyncVectorEnv of N `JudgementEnv` does, rewards, infos with their
    `_key` companions and the three autoreset modes included; `infos["action_mask"]` is (N, 79).
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 1}

    def __init__(
        self,
        num_envs: int = 1,
        rules: RulesLike = "kachuful",
        seat: int | None = None,
        opponents: BotLike | Sequence[BotLike] = USUAL_OPPONENTS,
        *,
        render_mode: str | None = None,
        illegal_action: str = "random",
        info_record: bool = False,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        **options: Any,
    ) -> None:
        """Make the tables; nothing is dealt before `reset`.

        num_envs: N. copy: False writes observations, masks and other results into the same arrays
            at each step, which Gymnasium's checks forbid. autoreset_mode: Gymnasium's, or its name.
            All else as in `JudgementEnv`.
        Raises ValueError naming the argument, its value and what is allowed.
        """
        super().__init__()
        self.render_mode = _render_mode(render_mode)
        self.info_record = bool(info_record)
        try:
            self.autoreset_mode = AutoresetMode(autoreset_mode)
        except ValueError:
            refuse("autoreset_mode", autoreset_mode, ", ".join(mode.value for mode in MODES))
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.batch = SeatBatch(
            rules,
            whole("num_envs", num_envs, 1),
            seat=seat,
            opponents=opponents,
            illegal_action=illegal_action,
            autoreset=MODES[self.autoreset_mode],
            records=self.info_record or self.render_mode is not None,
            copy=copy,
            **options,
        )
        self.num_envs = self.batch.num_tables
        self.single_observation_space = observation_space(self.batch.dtype)
        self.single_action_space = spaces.Discrete(NUM_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode at every table, or where `options["reset_mask"]` (N,) bool says so.

        A seed gives seed + i to table i, N seeds one to each; None goes on with the next match.
        """
        _refuse_dealing(options)
        seeds = self._seeds(seed)
        where = _reset_mask(options, self.num_envs)
        if where is None:
            self.closed = False
            self.batch.reset([None] * self.num_envs if seeds is None else seeds)
            where = np.ones(self.num_envs, np.bool_)
        else:
            self.batch.reset_tables(where, seeds)
        infos: dict[str, Any] = {}
        self._add_state(infos, where)
        self._show_people()
        return self.batch.observation, infos

    def _seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None] | None:
        if seed is None or (isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str)):
            return seed
        first = check_seed(seed)
        return [first + i for i in range(self.num_envs)]

    def step(self, actions: Any) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Take the learner's action at every table; `actions` (N,) of any integer dtype.

        Returns observations (N, 894), rewards (N,) float64, terminations and truncations (N,) bool
        and infos. Raises as `SeatBatch.step` does.
        """
        batch = self.batch
        batch.step(actions)
        is_same_step = self.autoreset_mode == AutoresetMode.SAME_STEP
        done = batch.done
        infos: dict[str, Any] = {}
        if done.any():
            final: dict[str, Any] = infos
            if is_same_step:
                final = {}
                self._add_state(final, done, is_final=True)
                infos["final_obs"] = self._final_observations()
                infos["_final_obs"] = done.copy()
                infos["final_info"] = final
                infos["_final_info"] = done.copy()
            self._add(final, "totals", batch.totals.copy(), done)
            if self.info_record:
                self._add(final, "record", self._final_records(), done)
        self._add_state(infos, np.ones(self.num_envs, np.bool_), is_same_step=is_same_step)
        self._show_people()
        reward = batch.reward.astype(np.float64)
        return batch.observation, reward, done.copy(), np.zeros_like(done), infos

    def _show_people(self) -> None:
        if self.render_mode == "human":
            self.render()

    def _add_state(
        self,
        infos: dict[str, Any],
        where: Array,
        is_final: bool = False,
        is_same_step: bool = False,
    ) -> None:
        """Add mask, seat and illegal action of the tables `where` (N,), 0 elsewhere.

        `is_final` takes those of the episodes that ended, `is_same_step` leaves their illegal
        actions out.
        """
        batch = self.batch
        mask = np.zeros_like(batch.action_mask) if is_final else batch.action_mask
        seat = batch.terminal_seat if is_final else batch.seat
        if not where.all():
            mask, seat = mask * where[:, None], seat * where
        self._add(infos, "action_mask", mask, where)
        self._add(infos, "seat", seat.astype(np.int64), where)
        if batch.illegal_action != "raise":
            illegal = batch.illegal & where
            if is_same_step:
                illegal &= ~batch.done
            self._add(infos, "illegal_action", illegal.astype(np.int64), where)

    def _add(self, infos: dict[str, Any], name: str, values: Array, where: Array) -> None:
        infos[name] = values
        infos[f"_{name}"] = where.copy()

    def _final_observations(self) -> Array:
        final = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(self.batch.done).tolist():
            row = self.batch.terminal_observation[i]
            final[i] = row if self.batch.copy else row.copy()
        return final

    def _final_records(self) -> Array:
        records = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(self.batch.done).tolist():
            records[i] = json.dumps(self.batch.terminal_record(i))
        return records

    def action_masks(self) -> Array:
        """The legal actions at every table as (N, 79) bool."""
        return self.batch.action_masks()

    def set_opponents(self, opponents: BotLike | Sequence[BotLike]) -> None:
        """Seat these bots from each next episode on, as the argument `opponents` does."""
        self.batch.set_opponents(opponents)

    def set_opponent_pool(self, pool: Sequence[BotLike], weights: Any = None) -> None:
        """Draw opponents from these bots from each next episode on."""
        self.batch.set_opponent_pool(pool, weights)

    def render(self) -> tuple[Any, ...]:
        """Show every learner's view, printed or as text; never a card that it may not see."""
        views = map(self.batch.view, range(self.num_envs))
        return tuple(_shown(view, self.render_mode) for view in views)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the bots that were made from texts; `reset` of all tables opens them again."""
        # Gymnasium before 1.3 also closes what could not be made.
        if hasattr(self, "batch"):
            self.batch.close()


def _render_mode(mode: str | None) -> str | None:
    return None if mode is None else choice("render_mode", mode, RENDER_MODES)


def _shown(view: View, mode: str | None) -> str | None:
    """The view as text in mode "ansi"; it is printed in mode "human"."""
    if mode is None:
        logger.warn("render: the environment was made without a render_mode")
        return None
    if mode == "ansi":
        return render(view, color=False, symbols=True)
    print(render(view))
    return None


def _refuse_dealing(options: Mapping[str, Any] | None) -> None:
    if options is not None and not isinstance(options, Mapping):
        refuse("options", options, "a dict, or None")
    for name in DEALING:
        if options and options.get(name) is not None:
            raise ValueError(
                f"options: {name!r} (allowed: not here; judgement_v0 and Table deal by hand)"
            )


def _reset_mask(options: Mapping[str, Any] | None, num_envs: int) -> Array | None:
    """The mask of tables to reset, None for all; TypeError or ValueError as SyncVectorEnv's."""
    if not options or "reset_mask" not in options:
        return None
    mask = options["reset_mask"]
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        what = mask.dtype if isinstance(mask, np.ndarray) else type(mask).__name__
        raise TypeError(f"reset_mask: {what} (allowed: a numpy array of dtype bool)")
    if mask.shape != (num_envs,) or not mask.any():
        raise ValueError(
            f"reset_mask: shape {mask.shape}, {int(mask.sum())} True"
            f" (allowed: shape ({num_envs},), one or more True)"
        )
    return mask
