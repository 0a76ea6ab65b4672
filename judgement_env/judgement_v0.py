"""Judgement as a PettingZoo AEC environment: `env()` for use, `raw_env` for speed.

Agents `player_0` to `player_{n-1}` act one at a time; the mask says which of the 79 actions are
legal. The match is a `Table`'s; this adds PettingZoo's spaces, rewards and book-keeping.

    >>> env = raw_env("kachuful", reward="relative")
    >>> env.reset(seed=7, options={"dealer": 0})
    >>> env.agent_selection, env.observe("player_1")["action_mask"].sum()
    ('player_1', 8)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from gymnasium import logger, spaces
from pettingzoo import AECEnv
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from judgement_env._jit import njit
from judgement_env.arguments import choice, finite, refuse
from judgement_env.batch import EPISODES, check_seed, round_chances
from judgement_env.batch_play import ROUND_STREAM, draw_round, write_scaled
from judgement_env.cards import NUM_ACTIONS, action_text, whole_number
from judgement_env.engine import draw_below, stream, table_key, write_mask
from judgement_env.observation import (
    ORACLE_SIZE,
    SIZE,
    Block,
    as_float,
    encode,
    encode_oracle,
    relative,
)
from judgement_env.record import Record
from judgement_env.render import render
from judgement_env.rules import Rules, make_rules
from judgement_env.scoring import shown
from judgement_env.state import MAX_SEATS, Array
from judgement_env.table import IllegalActionError, Table

REWARDS = ("points", "relative", "win")
ILLEGAL_ACTIONS = ("raise", "random", "end")
RENDER_MODES = ("human", "ansi")
# The stream of a match's key that replaces illegal actions.
REPLACEMENT_STREAM = ROUND_STREAM + 1

# What `state()` holds; seats in order of play from player_0.
STATE_BLOCKS: tuple[Block, ...] = (
    Block("public", (SIZE,), 1, 0, "the observation of player_0"),
    Block("hands", (MAX_SEATS, 52), 1, 0, "copies of each card each seat holds, face down or not"),
    Block("bids", (MAX_SEATS,), 7, 0, "the bid of each seat + 1, hidden or not; 0 = none yet"),
    Block("to_act", (MAX_SEATS,), 1, 0, "1 = this seat is to act; all 0 at the end"),
)
STATE_SIZE = sum(block.size for block in STATE_BLOCKS)
AT_BIDS = SIZE + ORACLE_SIZE
AT_TO_ACT = AT_BIDS + MAX_SEATS


# --- kernels ----------------------------------------------------------------------------------


@njit
def see_row(
    rules: Array, tables: Array, viewer: int, raw: Array, scaled: Array, mask: Array
) -> None:
    """Write what `viewer` sees of row 0 into `scaled`, by way of `raw`, and its legal actions.

    `mask` must be zero; it stays so when `viewer` is not to act.
    """
    r = rules[0]
    t = tables[0]
    encode(r, t, viewer, raw)
    write_scaled(raw, scaled)
    if t.seat == viewer:
        write_mask(r, t, mask)


@njit
def see_turn(rules: Array, tables: Array, mask: Array) -> int:
    """Write the legal actions of row 0 into `mask`; return the seat to act."""
    t = tables[0]
    write_mask(rules[0], t, mask)
    return int(t.seat)


@njit
def write_state(rules: Array, tables: Array, raw: Array, out: Array) -> None:
    """Write everything about row 0 into `out` (STATE_SIZE,) float32."""
    r = rules[0]
    t = tables[0]
    encode(r, t, 0, raw)
    write_scaled(raw, out[:SIZE])
    encode_oracle(r, t, 0, out[SIZE:AT_BIDS])
    for seat in range(r.num_players):
        place = relative(r, 0, seat)
        out[AT_BIDS + place] = np.float32(t.bid[seat] + 1) / np.float32(7)
        out[AT_TO_ACT + place] = t.seat == seat


@njit
def round_of_episode(seed: np.uint64, match: int, chances: Array) -> int:
    """Return the round (from 0) of an episode of one round, as row 0 of a batch draws it."""
    return draw_round(stream(table_key(seed, 0), match), chances)


@njit
def draw_replacement(tables: Array, decisions: int, num_legal: int) -> int:
    """Return which of the legal actions replaces an illegal one after so many decisions."""
    match_key = stream(tables[0].key, tables[0].match)
    return draw_below(stream(match_key, REPLACEMENT_STREAM), decisions, num_legal)


# --- the environment --------------------------------------------------------------------------


def env(*args: Any, **kwargs: Any) -> OrderEnforcingWrapper[str, dict[str, Array], int]:
    """Make the environment for general use: `raw_env` behind a check of the order of calls."""
    return OrderEnforcingWrapper(raw_env(*args, **kwargs))


class raw_env(AECEnv[str, dict[str, Array], int]):
    """The environment itself; it checks the bounds and the legality of actions.

    Observations are {"observation": float32 (894,), "action_mask": int8 (79,)}. What they hold is
    the agent's own; the arrays are new at each call.
    """

    metadata: dict[str, Any] = {
        "name": "judgement_v0",
        "render_modes": list(RENDER_MODES),
        "render_fps": 1,
        "is_parallelizable": False,
    }

    def __init__(
        self,
        rules: str | os.PathLike[str] | Rules | Mapping[str, Any] = "kachuful",
        num_players: int | None = None,
        render_mode: str | None = None,
        reward: str = "points",
        episode: str = "match",
        illegal_action: str = "raise",
        illegal_reward: float = -10,
    ) -> None:
        """Make the environment; nothing is dealt before `reset`.

        rules: a preset's name, Rules, a dict, or the path of a YAML file.
        num_players: None = the rules' own, 4 for a preset's name.
        render_mode: None, "human" (prints at each reset and step) or "ansi" (text).
        reward: "points" of each round, "relative" (own minus the mean of the others'), or "win"
            (a share of the win, at the end of the episode).
        episode: "match", or "round": one round of the schedule, drawn anew each time.
        illegal_action: "raise" IllegalActionError, take a "random" legal one instead, or "end"
            the episode for all, the offender being given `illegal_reward`.
        Raises ValueError naming the argument, its value and what is allowed.
        """
        super().__init__()
        self.rules = make_rules(rules, num_players)
        if render_mode is not None:
            choice("render_mode", render_mode, RENDER_MODES)
        self.render_mode = render_mode
        self.reward = choice("reward", reward, REWARDS)
        self.episode = choice("episode", episode, EPISODES)
        self.illegal_action = choice("illegal_action", illegal_action, ILLEGAL_ACTIONS)
        self.illegal_reward = finite("illegal_reward", illegal_reward)
        self.possible_agents = [f"player_{seat}" for seat in range(self.rules.num_players)]
        self.agents: list[str] = []
        self._seats = {agent: seat for seat, agent in enumerate(self.possible_agents)}
        self.observation_spaces = {agent: _observation_space() for agent in self.possible_agents}
        self.action_spaces: dict[str, spaces.Space[Any]] = {
            agent: spaces.Discrete(NUM_ACTIONS) for agent in self.possible_agents
        }
        high = np.concatenate([np.full(b.size, 255 / b.scale) for b in STATE_BLOCKS[1:]])
        low = np.concatenate([_bound(0), np.zeros(STATE_SIZE - SIZE, np.float32)])
        high = np.concatenate([_bound(255), high.astype(np.float32)])
        self.state_space = spaces.Box(low, high, dtype=np.float32)
        self._raw = np.zeros(SIZE, np.uint8)
        self._round_rules: dict[int, Rules] = {}
        self._seed: int | None = None
        self._match = 0
        self._table: Table | None = None
        self._is_closed = False

    # Episodes.

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Begin an episode: the first of the seed, or without one the next of the seed in use.

        `options` may hold `dealer`, `deals` and `turn_ups` as `Table` takes them and, in round
        episodes, `round` from 1; other keys are ignored. Raises ValueError naming what is wrong,
        with the episode in progress left as it was. A closed environment is open again.
        """
        if options is not None and not isinstance(options, Mapping):
            refuse("options", options, "a dict, or None")
        given = dict(options or {})
        if seed is None and self._seed is not None:
            seed, match = self._seed, self._match + 1
        else:
            seed, match = check_seed(seed), 0
        rules = self._rules_of_episode(seed, match, given.get("round"))
        dealing = [given.get(name) for name in ("dealer", "deals", "turn_ups")]
        self._table = Table(rules, seed, *dealing, match=match)
        self._seed, self._match = seed, match
        self._is_closed = False
        self._begin()
        self._show_people()

    def _rules_of_episode(self, seed: int, match: int, number: Any) -> Rules:
        if self.episode == "match":
            if number is not None:
                raise ValueError(f"round: {number!r} (allowed: in episodes of one round only)")
            return self.rules
        if number is None:
            chances = round_chances(self.rules)
            return self._only(int(round_of_episode(np.uint64(seed), match, chances)))
        index = whole_number(number)
        if index is None or not 1 <= index <= self.rules.num_rounds:
            raise ValueError(
                f"round: {number!r} (allowed: a whole number from 1 to {self.rules.num_rounds})"
            )
        return self._only(index - 1)

    def _only(self, index: int) -> Rules:
        """The rules of a match of one round of the schedule."""
        if index not in self._round_rules:
            self._round_rules[index] = round_rules(self.rules, index)
        return self._round_rules[index]

    def _begin(self) -> None:
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: self._info() for agent in self.agents}
        self._skip_agent_selection = None
        self._has_rewards = False
        self._is_ended = False
        self._select()

    def _info(self, is_illegal: bool = False) -> dict[str, Any]:
        info: dict[str, Any] = {"action_mask": np.zeros(NUM_ACTIONS, np.int8)}
        if self.illegal_action != "raise":
            info["illegal_action"] = int(is_illegal)
        return info

    def _select(self) -> None:
        """Select the agent whose seat is to act, and give it its mask."""
        table = self._played
        mask = np.empty(NUM_ACTIONS, np.int8)
        seat = see_turn(table.rules_array, table.tables_array, mask)
        self.agent_selection = agent = self.possible_agents[seat]
        # A new dict, for one given out before must not change.
        self.infos[agent] = {**self.infos[agent], "action_mask": mask}

    @property
    def _played(self) -> Table:
        if self._table is None:
            raise RuntimeError("no match has begun: call reset() first")
        return self._table

    @property
    def table(self) -> Table:
        """The match itself, everything hidden included; to look at, not to change."""
        return self._played

    # Steps.

    def step(self, action: Any) -> None:
        """Take the action of `agent_selection`: an integer, or None once its episode has ended.

        Raises IllegalActionError, with nothing changed, where illegal actions are to raise, and
        in any case where the action is no integer; RuntimeError before `reset` and after `close`.
        """
        table = self._played
        if self._is_closed:
            raise RuntimeError("step: the environment is closed, call reset() to open it again")
        if not self.agents:
            raise RuntimeError("step: every agent is gone, call reset()")
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        number = action if type(action) is int else whole_number(action)
        if number is None:
            self._refuse(action)
        is_illegal = False
        try:
            is_settled = table.push(number)
        except IllegalActionError:
            if self.illegal_action == "raise":
                raise
            is_illegal = True
            if self.illegal_action == "end":
                self._end_by_illegal(agent)
                self._show_people()
                return
            is_settled = table.push(self._replacement(table))
        self._cumulative_rewards[agent] = 0.0
        if self._has_rewards:
            self._clear_rewards()
            self._has_rewards = False
        self.infos[agent] = self._info(is_illegal)
        if is_settled:
            self._settle(table)
        if not self._is_ended:
            self._select()
        if self.render_mode == "human":
            self.render()

    def _show_people(self) -> None:
        if self.render_mode == "human":
            self.render()

    def _refuse(self, action: Any) -> NoReturn:
        """Refuse what is no integer: None for a live agent, a float, text."""
        seat, legal = self._played.seat, self._played.legal()
        words = ", ".join(action_text(number) for number in legal)
        raise IllegalActionError(
            f"seat {seat} cannot do that: action: {shown(action)} (allowed: a whole number from 0"
            f" to {NUM_ACTIONS - 1}) (legal: {words})",
            seat,
            action,
            legal,
        )

    def _clear_rewards(self) -> None:
        for agent in self.rewards:
            self.rewards[agent] = 0.0

    def _replacement(self, table: Table) -> int:
        """A legal action instead of an illegal one, as the seed and the moment have it."""
        legal = table.legal()
        return legal[draw_replacement(table.tables_array, table.decisions, len(legal))]

    def _settle(self, table: Table) -> None:
        points = table.last_points or []
        if self.reward == "win":
            winners = table.winners
            given = [1 / len(winners) if seat in winners else 0.0 for seat in self._seats.values()]
        elif self.reward == "relative":
            others = len(points) - 1
            given = [own - (sum(points) - own) / others for own in points]
        else:
            given = [float(own) for own in points]
        self._give(given)
        if table.is_over:
            self._end()

    def _give(self, rewards: list[float]) -> None:
        for agent, reward in zip(self.possible_agents, rewards, strict=True):
            self.rewards[agent] = reward
        self._has_rewards = True
        self._accumulate_rewards()

    def _end_by_illegal(self, offender: str) -> None:
        self._cumulative_rewards[offender] = 0.0
        self._clear_rewards()
        self.infos[offender] = self._info(is_illegal=True)
        self._give(
            [self.illegal_reward if agent == offender else 0.0 for agent in self.possible_agents]
        )
        self._end()

    def _end(self) -> None:
        self._is_ended = True
        self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = self.agents[0]

    # What can be seen.

    def observe(self, agent: str) -> dict[str, Array]:
        """What this agent sees, at any time after reset; its mask is zero when it is not to act.

        Changes nothing. Raises ValueError for an agent that is not of this environment.
        """
        table = self._played
        scaled = np.empty(SIZE, np.float32)
        mask = np.zeros(NUM_ACTIONS, np.int8)
        viewer = self._seat_of(agent)
        see_row(table.rules_array, table.tables_array, viewer, self._raw, scaled, mask)
        if self._is_ended:
            mask[:] = 0
        return {"observation": scaled, "action_mask": mask}

    def _seat_of(self, agent: str) -> int:
        try:
            return self._seats[agent]
        except (KeyError, TypeError):
            pass
        refuse("agent", agent, ", ".join(self.possible_agents))

    def state(self) -> Array:
        """Everything about the position, hidden cards included, as `STATE_BLOCKS` lays it out.

        It is for critics during training, and works after the end too.
        """
        table = self._played
        state = np.zeros(STATE_SIZE, np.float32)
        write_state(table.rules_array, table.tables_array, self._raw, state)
        if self._is_ended:
            state[AT_TO_ACT:] = 0
        return state

    def record(self) -> Record:
        """The match so far as a `judgement-record/1`, hidden cards and seed included."""
        return self._played.record()

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The space of an agent's observations, the same object each time."""
        self._seat_of(agent)
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """The space of an agent's actions, the same object each time."""
        self._seat_of(agent)
        return self.action_spaces[agent]

    def render(self, agent: str | None = None) -> str | None:
        """Show the view of an agent, of the one to act if none is named: print it or return it.

        No card is shown that this agent may not see.
        """
        table = self._played
        if self.render_mode is None:
            logger.warn("render: the environment was made without a render_mode")
            return None
        seat = self._seat_of(self.agent_selection if agent is None else agent)
        if self.render_mode == "ansi":
            return render(table.view(seat), color=False, symbols=True)
        print(render(table.view(seat)))
        return None

    def close(self) -> None:
        """End the play; what was shown can still be read, and `reset` opens the environment again.

        It holds no window, file or process. A second call does nothing.
        """
        self._is_closed = True


def round_rules(rules: Rules, index: int) -> Rules:
    """Return the rules of an episode of one round: `Rules.only_round`, the dealer drawn."""
    return rules.only_round(index).replace(first_dealer=None)


def _bound(raw: int) -> Array:
    return as_float(np.full(SIZE, raw, np.uint8))


def _observation_space() -> spaces.Space[Any]:
    return spaces.Dict(
        {
            "observation": spaces.Box(_bound(0), _bound(255), dtype=np.float32),
            "action_mask": spaces.Box(0, 1, (NUM_ACTIONS,), np.int8),
        }
    )


def _register() -> None:
    """Enter the environment into PettingZoo's registry, which it has from 1.27 on."""
    try:
        from pettingzoo import aec_registry, register
    except ImportError:
        return
    if "judgement/judgement-v0" not in aec_registry:
        register("aec", "judgement/judgement-v0", entry_point="judgement_env.judgement_v0:env")


_register()
