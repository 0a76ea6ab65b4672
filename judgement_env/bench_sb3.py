"""MaskablePPO end to end, collecting and learning: our VecEnv, and PettingZoo's way of wrapping.

Both loops train the same network with the same hyperparameters; only the environment differs. The
rates are learner's decisions a second on one thread, after a batch that warms up.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np

from judgement_env import judgement_v0
from judgement_env.cards import NUM_ACTIONS
from judgement_env.gym_env import observation_space
from judgement_env.state import Array

# Decisions of a batch, whatever the number of tables it is made at.
BATCH = 4096
TABLES = 256
HYPERPARAMETERS: dict[str, Any] = {"batch_size": 1024, "n_epochs": 3, "gamma": 1.0, "seed": 1}


class EverySeatInTurn(gymnasium.Env[Array, np.int64]):
    """One AEC table as a Gymnasium env whose step is one decision of whoever is to act.

    The way in PettingZoo's tutorial for Stable-Baselines3: one policy plays all seats, each step
    shows the next seat's observation and pays the points of the seat that acted.
    """

    def __init__(self, rules: Any = "kachuful") -> None:
        """Make the table."""
        self.table = judgement_v0.env(rules)
        self.observation_space = observation_space(np.float32)
        self.action_space = gymnasium.spaces.Discrete(NUM_ACTIONS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        self.table.reset(seed=seed, options=options)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        table, agent = self.table, self.table.agent_selection
        table.step(int(action))
        over = bool(table.terminations[agent])
        return self._seen(), float(table.rewards[agent]), over, False, {}

    def _seen(self) -> Array:
        seen: Array = self.table.observe(self.table.agent_selection)["observation"]
        return seen

    def action_masks(self) -> Array:
        """The legal actions (79,) int8 of the seat to act."""
        mask: Array = self.table.observe(self.table.agent_selection)["action_mask"]
        return mask


def sb3_native_rate(seconds: float, tables: int = TABLES, **changes: Any) -> float:
    """Return learner's decisions a second of MaskablePPO on a `JudgementVecEnv`.

    Heuristic bots play the other seats. `changes` are hyperparameters that differ.
    """
    from judgement_env.integrations.sb3 import JudgementVecEnv

    return _rate(JudgementVecEnv("kachuful", tables, seed=1), tables, seconds, changes)


def sb3_wrapper_rate(seconds: float, **changes: Any) -> float:
    """Return decisions a second of MaskablePPO on one table wrapped as in PettingZoo's tutorial."""
    from sb3_contrib.common.wrappers import ActionMasker

    table = EverySeatInTurn()
    env = ActionMasker(table, lambda wrapped: table.action_masks())
    return _rate(env, 1, seconds, changes)


def _rate(env: Any, tables: int, seconds: float, changes: dict[str, Any]) -> float:
    """Learn in batches of BATCH decisions until the time is over; return decisions a second."""
    import torch

    from judgement_env.integrations.sb3 import MaskablePPO

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        hyperparameters = {**HYPERPARAMETERS, "n_steps": BATCH // tables, **changes}
        model: Any = MaskablePPO("MlpPolicy", env, **hyperparameters, device="cpu")
        model.learn(1, log_interval=None)
        first, started = model.num_timesteps, time.perf_counter()
        while time.perf_counter() - started < seconds:
            model.learn(1, log_interval=None, reset_num_timesteps=False)
        return float(model.num_timesteps - first) / (time.perf_counter() - started)
    finally:
        torch.set_num_threads(before)
        env.close()
