"""Words for tests of the PettingZoo environment: cases, random play, all that is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from judgement_env import PRESETS

BID = 52
CASES: dict[str, dict[str, Any]] = {
    **{name: {"rules": name} for name in PRESETS},
    "ten players": {"rules": "up-and-down", "num_players": 10},
    "fingers, two packs": {
        "rules": {"preset": "kachuful", "bidding": "simultaneous", "packs": 2, "num_players": 3}
    },
    "rounds": {"rules": "blind-eight", "episode": "round", "reward": "relative"},
    "win": {"rules": "oh-hell", "reward": "win", "illegal_action": "random"},
}


def random_action(env: Any, rng: np.random.Generator) -> int:
    return int(rng.choice(np.flatnonzero(env.observe(env.agent_selection)["action_mask"])))


def steps_to_end(env: Any, rng: np.random.Generator) -> Iterator[str]:
    """Take random legal steps until the episode ends; the agent that took each."""
    while not any(env.terminations.values()):
        agent = env.agent_selection
        env.step(random_action(env, rng))
        yield agent


def seen(env: Any) -> dict[str, Any]:
    """All that an environment shows, as comparable values."""
    agents = env.unwrapped.possible_agents
    return {
        "observations": [
            {key: value.tobytes() for key, value in env.observe(agent).items()} for agent in agents
        ],
        "agents": list(env.agents),
        "selection": env.agent_selection,
        "rewards": dict(env.rewards),
        "cumulative": dict(env._cumulative_rewards),
        "terminations": dict(env.terminations),
        "truncations": dict(env.truncations),
        "infos": {
            agent: {key: np.asarray(value).tolist() for key, value in info.items()}
            for agent, info in env.infos.items()
        },
        "state": env.state().tobytes(),
        "record": env.unwrapped.record(),
    }
