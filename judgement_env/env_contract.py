"""What the environments keep to, as sentences that are checked: `AEC_CHECKS`, `BATCH_CHECKS`.

An environment under check is asked through its own methods; what is true is read from the match
inside it (`env.unwrapped.table`) and from a `Table` that plays along. So a wrapper is checked for
what it passes on. `judgement_env.testing.check_env` is the way in.
"""

from __future__ import annotations

import copy
import json
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from judgement_env.batch import BatchEnv
from judgement_env.batch_contract import BATCH_CHECKS, BatchSubject
from judgement_env.cards import NUM_ACTIONS
from judgement_env.contract import (
    Check,
    Subject,
    World,
    actions_text,
    broken,
    frozen,
    other_world,
    random_legal,
    said,
    world_of,
)
from judgement_env.gym_contract import GYM_CHECKS, GymSubject
from judgement_env.gym_env import JudgementEnv
from judgement_env.judgement_v0 import raw_env
from judgement_env.scoring import shown
from judgement_env.state import Array
from judgement_env.table import IllegalActionError, Table

# Positions whose hidden cards are dealt anew.
WORLDS = 12
TOLERANCE = 1e-4


def checks_of(env: Any, seed: int) -> tuple[Sequence[Check], Subject]:
    """The checks that concern an environment; ValueError for what is none of this package."""
    inner = getattr(env, "unwrapped", env)
    if isinstance(inner, raw_env):
        return AEC_CHECKS, AECSubject(env, seed)
    if isinstance(inner, BatchEnv):
        return BATCH_CHECKS, BatchSubject(env, inner, seed)
    if isinstance(inner, JudgementEnv):
        return GYM_CHECKS, GymSubject(env, inner, seed)
    raise ValueError(
        f"env: {shown(env)} (allowed: judgement_v0.env() or raw_env(), a BatchEnv, a JudgementEnv,"
        " or a wrapper whose `unwrapped` is one)"
    )


class AECSubject(Subject):
    """An AEC environment, what is inside it, and where the check is."""

    def __init__(self, env: Any, seed: int) -> None:
        self.env = env
        self.inner: raw_env = env.unwrapped
        self.seed = seed
        self.agents = [f"player_{seat}" for seat in range(self.inner.rules.num_players)]

    def options(self, seed: int) -> dict[str, Any]:
        """Reset options that fix which round an episode of one round plays."""
        if self.inner.episode == "match":
            return {}
        return {"round": 1 + seed % self.inner.rules.num_rounds}

    def reset(self, seed: int, world: World | None = None, options: Any = None) -> Table:
        """Begin an episode, in a given world or not; the match inside."""
        given = dict(options or self.options(seed))
        self.place = f"seed {seed}, options {given}, reset"
        self.table = None
        if world is not None:
            given |= {"dealer": world.dealer, "deals": world.deals}
            if world.turn_ups is not None:
                given["turn_ups"] = world.turn_ups
        self.env.reset(seed=seed, options=given)
        self.table = self.inner.table
        return self.table

    def play(
        self, seed: int, after: Callable[[], None] | None = None
    ) -> Iterator[tuple[Table, int]]:
        """Play an episode; before each action the match and the legal action about to be taken.

        `after` is called after each.
        """
        rng = random.Random(f"play {seed}")
        table = self.reset(seed)
        while not table.is_over:
            action = random_legal(table, rng)
            self.place = f"seed {seed}, options {self.options(seed)}, decision {table.decisions}"
            yield table, action
            decisions = table.decisions
            self.env.step(action)
            if table.actions[decisions:] != (action,):
                made = actions_text(table.actions[decisions:])
                broken(f"after step({action}) the match has seen: {made}")
            if after is not None:
                after()

    def look(self) -> dict[str, Any]:
        """All that the environment shows, as values that compare."""
        env = self.env
        return {
            "observations": {agent: frozen(env.observe(agent)) for agent in self.agents},
            "agents": list(env.agents),
            "agent_selection": env.agent_selection,
            "rewards": frozen(dict(env.rewards)),
            "terminations": dict(env.terminations),
            "truncations": dict(env.truncations),
            "infos": frozen(dict(env.infos)),
            "record": self.inner.record(),
        }

    def masks(self, agent: str) -> dict[str, Array]:
        """The masks that an agent is shown, by where they stand."""
        found = {}
        observation = self.env.observe(agent)
        if isinstance(observation, dict) and "action_mask" in observation:
            found["observe()"] = observation["action_mask"]
        info = self.env.infos.get(agent, {})
        if "action_mask" in info:
            found["infos"] = info["action_mask"]
        return found

    def fixed(self) -> list[int]:
        """Seeds of the episodes that a check plays."""
        return [self.seed, self.seed + 1, self.seed + 2]


def difference(one: dict[str, Any], other: dict[str, Any]) -> str | None:
    """Which part of two looks differs, None where none does."""
    for name, value in one.items():
        if value == other[name]:
            continue
        if isinstance(value, dict):
            keys = [key for key in value if value[key] != other[name].get(key)]
            return f"{name} of {keys[0]}" if keys else name
        return name
    return None


# --- agents, spaces, masks --------------------------------------------------------------------


def check_agents(subject: AECSubject) -> None:
    """Compare agents and selection with the match."""
    env = subject.env
    for table, _ in subject.play(subject.seed):
        if list(env.possible_agents) != subject.agents or list(env.agents) != subject.agents:
            broken(f"possible_agents {env.possible_agents}, agents {env.agents}")
        if env.agent_selection != f"player_{table.seat}":
            broken(f"{env.agent_selection} is selected, seat {table.seat} is to act")


def check_spaces(subject: AECSubject) -> None:
    """Find what is shown or legal outside its space."""
    env = subject.env
    for _, action in subject.play(subject.seed):
        for agent in subject.agents:
            space, observation = env.observation_space(agent), env.observe(agent)
            if not space.contains(observation):
                broken(f"observe({agent!r}) is not in {shown(space)}")
            if env.observation_space(agent) is not space:
                broken(f"observation_space({agent!r}) is another object at each call")
        if not env.action_space(env.agent_selection).contains(action):
            broken(f"action {action} is legal, but not in {env.action_space(env.agent_selection)}")


def check_masks(subject: AECSubject) -> None:
    """Compare every mask with the match."""
    for seed in subject.fixed():
        for table, _ in subject.play(seed):
            for seat, agent in enumerate(subject.agents):
                _check_mask(subject, table, seat, agent)


def _check_mask(subject: AECSubject, table: Table, seat: int, agent: str) -> None:
    legal = table.legal() if seat == table.seat else []
    masks = subject.masks(agent)
    if not masks:
        broken(f"{agent} has no action_mask, neither in observe() nor in infos")
    for where, mask in masks.items():
        if np.shape(mask) != (NUM_ACTIONS,):
            broken(f"the mask of {agent} in {where} has shape {np.shape(mask)} (allowed: (79,))")
        shown_legal = np.flatnonzero(mask).tolist()
        if shown_legal != legal or not set(np.unique(mask).tolist()) <= {0, 1}:
            broken(
                f"the mask of {agent} in {where} allows {actions_text(shown_legal)}, the rules"
                f" {actions_text(legal)}"
            )


# --- looking ----------------------------------------------------------------------------------


def check_pure(subject: AECSubject) -> None:
    """Look twice; compare looks and match."""
    for table, _ in subject.play(subject.seed):
        before = table.tables_array.tobytes()
        first = subject.look()
        subject.env.last()
        subject.env.state()
        second = subject.look()
        if table.tables_array.tobytes() != before or table is not subject.inner.table:
            broken("observe(), last() or state() changed the match")
        if name := difference(first, second):
            broken(f"{name} reads differently when looked at a second time")


def check_kept(subject: AECSubject) -> None:
    """Compare what was handed out with what it was."""
    given: list[tuple[Any, Any, str]] = []
    for _, _ in subject.play(subject.seed):
        for value, was, place in given:
            if frozen(value) != was:
                broken(f"what was handed out at {place} reads differently now")
        agent = subject.env.agent_selection
        value = (subject.env.observe(agent), subject.env.infos[agent])
        given = [*given[-8:], (value, frozen(value), subject.place)]


def check_hidden(subject: AECSubject) -> None:
    """Show each agent two worlds that it cannot tell apart."""
    rng = random.Random(f"worlds {subject.seed}")
    for k in range(WORLDS):
        seed = subject.seed + k
        decisions = _length(subject, seed)
        stop = rng.randrange(decisions)
        table = next(t for t, _ in subject.play(seed) if t.decisions == stop).clone()
        for seat, agent in enumerate(subject.agents):
            worlds = [world_of(table), other_world(table, seat, rng)]
            seen = [_seen_in(subject, seed, world, agent, j) for j, world in enumerate(worlds)]
            if seen[0] != seen[1]:
                name = difference(*seen)
                broken(f"hidden cards were dealt anew, and {agent} was shown another {name}")


def _length(subject: AECSubject, seed: int) -> int:
    """Decisions of an episode, those of a random match being as many."""
    for _ in subject.play(seed):
        pass
    return subject.inner.table.decisions


def _seen_in(
    subject: AECSubject, seed: int, world: World, agent: str, shift: int
) -> dict[str, Any]:
    """What an agent is shown at the end of a world's actions; `shift` changes the later deals."""
    table = subject.reset(seed + shift, world, subject.options(seed))
    if (now := world_of(table)).deals != world.deals[:1] or now.dealer != world.dealer:
        broken("reset did not deal what options['deals'] and ['dealer'] say")
    for action in world.actions:
        subject.env.step(action)
    env = subject.env
    return {
        "observation": frozen(env.observe(agent)),
        "info": frozen(env.infos[agent]),
        "agent_selection": env.agent_selection,
        "reward": frozen(dict(env.rewards)),
    }


# --- rewards and the end ----------------------------------------------------------------------


def due(subject: AECSubject, points: Sequence[int], winners: Sequence[int]) -> list[float]:
    """What points, of a round or a match, come to as rewards by seat, in the env's mode."""
    if subject.inner.reward == "win":
        return [(seat in winners) / max(1, len(winners)) for seat in range(len(points))]
    if subject.inner.reward == "relative":
        return [own - (sum(points) - own) / (len(points) - 1) for own in points]
    return [float(own) for own in points]


def check_rewards(subject: AECSubject) -> None:
    """Add up, and compare with the match."""
    env, agents = subject.env, subject.agents
    for seed in subject.fixed():
        given, handed = dict.fromkeys(agents, 0.0), dict.fromkeys(agents, 0.0)

        def add(given: dict[str, float] = given) -> None:
            for agent in agents:
                given[agent] += float(env.rewards[agent])

        for _ in subject.play(seed, add):
            handed[env.agent_selection] += float(env.last()[1])
        _hand_out_the_rest(subject, handed)
        expected = due(subject, subject.inner.table.totals, subject.inner.table.winners)
        for name, sums in (("env.rewards", given), ("last()", handed)):
            got = [sums[agent] for agent in agents]
            if not np.allclose(got, expected, rtol=0, atol=TOLERANCE):
                broken(f"{name} gave {_numbers(got)}, the match {_numbers(expected)}, by seat")


def _numbers(values: Sequence[float]) -> list[float]:
    return [round(float(value), 4) for value in values]


def _hand_out_the_rest(subject: AECSubject, handed: dict[str, float]) -> None:
    """Step every agent out of a finished episode, adding up what last() hands out."""
    env = subject.env
    subject.place += ", the end"
    for _ in subject.agents:
        if not env.agents:
            break
        agent = env.agent_selection
        _, reward, terminated, truncated, _ = env.last()
        if not terminated and not truncated:
            broken(f"the match is over, and last() says that {agent} is not")
        handed[agent] += float(reward)
        env.step(None)


def check_when_rewarded(subject: AECSubject) -> None:
    """Compare the rewards after each step."""
    expected: list[float] = []

    def compare() -> None:
        got = [float(subject.env.rewards[agent]) for agent in subject.agents]
        if not np.allclose(got, expected, rtol=0, atol=TOLERANCE):
            broken(f"rewards {_numbers(got)}, due were {_numbers(expected)}, by seat")

    for table, action in subject.play(subject.seed, compare):
        twin = table.clone()
        is_settled = twin.push(action)
        points = twin.last_points or []
        is_due = is_settled and (twin.is_over or subject.inner.reward != "win")
        expected[:] = due(subject, points, twin.winners) if is_due else [0.0] * len(subject.agents)


def check_end(subject: AECSubject) -> None:
    """Play to the end and out."""
    env = subject.env
    for _ in subject.play(subject.seed):
        if any(env.terminations.values()) or any(env.truncations.values()):
            broken("an agent is terminated or truncated before the episode is over")
    subject.place += ", the end"
    if not all(env.terminations[agent] for agent in subject.agents):
        broken(f"terminations {env.terminations}")
    if any(env.truncations.values()):
        broken(f"truncations {env.truncations}")
    for agent in subject.agents:
        for where, mask in subject.masks(agent).items():
            if np.any(mask):
                broken(f"the mask of {agent} in {where} is not empty")
    for _ in subject.agents:
        env.step(None)
    if env.agents:
        broken(f"after a step(None) for each, {env.agents} are left")
    if not subject.inner.record()["winners"]:
        broken("the record names no winner")


# --- the same again ---------------------------------------------------------------------------


def _looks(subject: AECSubject, seed: int) -> list[dict[str, Any]]:
    return [subject.look() for _ in subject.play(seed)]


def check_seeded(subject: AECSubject) -> None:
    """Play again."""
    first = _looks(subject, subject.seed)
    record = subject.inner.record()
    subject.env.reset(options=subject.options(subject.seed))
    following = subject.inner.record()
    if (following["seed"], following["match"]) != (record["seed"], record["match"] + 1):
        broken("reset() without a seed did not go on with the next match of the seed in use")
    again = _looks(subject, subject.seed)
    for k, (one, other) in enumerate(zip(first, again, strict=True)):
        if name := difference(one, other):
            subject.place = f"seed {subject.seed}, decision {k}"
            broken(f"the second time {name} was another")
    deals = [json.dumps(world_of(subject.reset(seed)).deals[0]) for seed in subject.fixed()]
    if len(set(deals)) == 1:
        broken(f"seeds {subject.fixed()} deal the same cards")
    if subject.inner.record()["seed"] != subject.fixed()[-1]:
        broken(f"the record names seed {subject.inner.record()['seed']}")


def _check_copy(subject: AECSubject, duplicate: Any, name: str) -> None:
    for table, _ in subject.play(subject.seed):
        if table.decisions == len(subject.agents) + 1:
            break
    place = subject.place
    twin = AECSubject(duplicate(subject.env), subject.seed)
    if twin.inner is subject.inner:
        broken(f"{name} shares the match with the one it was made from")
    rng = random.Random(f"copy {subject.seed}")
    while not table.is_over:
        if part := difference(subject.look(), twin.look()):
            broken(f"{name} made at {place} goes on with another {part}")
        action = random_legal(table, rng)
        # The one after the other, so that a shared part would show.
        subject.env.step(action)
        twin.env.step(action)
    if part := difference(subject.look(), twin.look()):
        broken(f"{name} made at {place} ends with another {part}")


def check_deepcopy(subject: AECSubject) -> None:
    """Play on with both."""
    _check_copy(subject, copy.deepcopy, "a deepcopy")


def check_pickle(subject: AECSubject) -> None:
    """Play on with both."""
    _check_copy(subject, lambda env: pickle.loads(pickle.dumps(env)), "a pickle")


def check_illegal(subject: AECSubject) -> None:
    """Try actions that are not legal."""
    rng = random.Random(f"illegal {subject.seed}")
    for _ in range(4):
        stop = rng.randrange(_length(subject, subject.seed))
        table = next(t for t, _ in subject.play(subject.seed) if t.decisions == stop)
        illegal = rng.choice(sorted(set(range(NUM_ACTIONS)) - set(table.legal())))
        subject.place += f", step({illegal}), legal {actions_text(table.legal())}"
        ILLEGAL[subject.inner.illegal_action](subject, table, illegal)


def _raises(subject: AECSubject, table: Table, illegal: int) -> None:
    before = subject.look()
    try:
        subject.env.step(illegal)
    except IllegalActionError:
        if name := difference(before, subject.look()):
            broken(f"IllegalActionError was raised, and {name} changed")
    except Exception as error:
        broken(f"{said(error)} (due: IllegalActionError)")
    else:
        broken("no error, where illegal_action='raise'")


def _replaces(subject: AECSubject, table: Table, illegal: int) -> None:
    agent, decisions, legal = subject.env.agent_selection, table.decisions, table.legal()
    subject.env.step(illegal)
    made = table.actions[decisions:]
    if len(made) != 1 or made[0] not in legal:
        broken(f"illegal_action='random', and what was done is {actions_text(made)}")
    if subject.env.infos[agent].get("illegal_action") != 1:
        broken(f"infos[{agent!r}]['illegal_action'] is not 1")


def _ends(subject: AECSubject, table: Table, illegal: int) -> None:
    env, agent, decisions = subject.env, subject.env.agent_selection, table.decisions
    env.step(illegal)
    expected = dict.fromkeys(subject.agents, 0.0) | {agent: subject.inner.illegal_reward}
    if table.decisions != decisions or not all(env.terminations.values()):
        broken("illegal_action='end', and the episode goes on")
    if {name: float(env.rewards[name]) for name in subject.agents} != expected:
        broken(f"rewards {env.rewards}, due were {expected}")


ILLEGAL = {"raise": _raises, "random": _replaces, "end": _ends}


def check_record(subject: AECSubject) -> None:
    """Replay the record at several moments."""
    for table, _ in subject.play(subject.seed):
        if table.decisions % 7 == 0:
            _check_replay(subject, table)
    _check_replay(subject, subject.inner.table)
    subject.env.close()


def _check_replay(subject: AECSubject, table: Table) -> None:
    record = subject.inner.record()
    again = Table.from_record(json.loads(json.dumps(record)))
    if again.actions != table.actions or again.record() != record:
        broken("the record, read back and replayed, is another match")


AEC_CHECKS: tuple[Check, ...] = (
    Check(
        "agents",
        "Its agents are player_0 to player_{n-1}, and the one selected is the seat to act.",
        check_agents,
    ),
    Check(
        "spaces",
        "What it shows and takes is in its spaces, and they are the same objects at each call.",
        check_spaces,
    ),
    Check(
        "masks",
        "The mask of the seat to act is its legal actions by the rules, that of any other is zero.",
        check_masks,
    ),
    Check("pure", "Looking changes nothing: observe(), last(), state().", check_pure),
    Check("kept", "What was handed out stays as it was when the match goes on.", check_kept),
    Check(
        "hidden",
        "No agent is shown a card, or a bid, that it may not know: dealt anew, it sees the same.",
        check_hidden,
    ),
    Check(
        "rewards",
        "Rewards add up to what the match gives, for every seat, in env.rewards and by last().",
        check_rewards,
    ),
    Check(
        "when-rewarded",
        "Each round's rewards come to all seats with the step that settles it, and only then.",
        check_when_rewarded,
    ),
    Check(
        "end",
        "All agents terminate together at the end, none before; then masks are zero and a"
        " step(None) for each empties env.agents.",
        check_end,
    ),
    Check(
        "seeded",
        "The same seed gives the same match, another one another; reset() without goes on with it.",
        check_seeded,
    ),
    Check("deepcopy", "A deepcopy goes on with the same match, on its own.", check_deepcopy),
    Check("pickle", "A pickle goes on with the same match, on its own.", check_pickle),
    Check(
        "illegal",
        "An illegal action does what illegal_action says: it raises and changes nothing, or is"
        " replaced, or ends the episode.",
        check_illegal,
    ),
    Check("record", "Its record replays at any time, and it closes.", check_record),
)
