"""Tianshou: one learning seat at each of N tables as a vector env, masks and all; policies as bots.

Observations are a `Batch` of `obs` and `mask`, which the DQN family reads as it is; `MaskedLogits`
makes PPO, A2C and their like read it too. The tables are a `SeatBatch`'s: a transition leads from
one decision of the learner to its next, with all it was given in between.

    >>> env = SeatVectorEnv("kachuful", num_tables=3, opponents="random")
    >>> shown, infos = env.reset()
    >>> shown.obs.shape, shown.mask.shape
    ((3, 894), (3, 79))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

try:
    import torch
    from gymnasium import spaces
    from tianshou.algorithm.algorithm_base import Algorithm
    from tianshou.data import Batch
    from tianshou.env import BaseVectorEnv
    from torch import Tensor, nn
except ImportError as error:
    raise ImportError(
        "judgement_env.integrations.tianshou needs tianshou; pip install 'judgement-env[tianshou]'"
    ) from error

from judgement_env.batch import RulesLike, check_seed
from judgement_env.bots import neural
from judgement_env.bots.base import BotError
from judgement_env.cards import NUM_ACTIONS, action_text
from judgement_env.observation import OFFSET, SCALE, SIZE, as_float
from judgement_env.render import render
from judgement_env.seat_batch import SeatBatch
from judgement_env.state import Array

METADATA: dict[str, Any] = {"name": "judgement_v0", "render_modes": ["ansi"]}

# --- the environment --------------------------------------------------------------------------


class LegalActions(spaces.Discrete):
    """The 79 actions; a sample is one that is legal at a table right now.

    A copy, such as a policy's that is copied, is a plain `Discrete` and holds no table.
    """

    def __init__(self, batch: SeatBatch, table: int) -> None:
        """Draw from what the learner at this table may do."""
        super().__init__(NUM_ACTIONS)
        self._batch = batch
        self._table = table

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        if mask is None and probability is None:
            mask = self._batch.action_mask[self._table]
        return super().sample(mask, probability)

    def __reduce__(self) -> tuple[Any, ...]:
        return spaces.Discrete, (NUM_ACTIONS,)


class SeatVectorEnv(BaseVectorEnv):
    """N tables, one learner at each, for Tianshou's collectors.

    A step gives `Batch(obs=(n, 894), mask=(n, 79) bool)`, rewards (n,), terminated, truncated and
    infos, of the tables named. At the end of an episode `obs` is what the learner saw then, and
    `mask` is all False. The tables are stepped together: one that a step leaves out must be reset
    before it is named again, as `Collector.collect` does.
    """

    def __init__(
        self,
        rules: RulesLike = "kachuful",
        num_tables: int = 1,
        seed: int | None = 0,
        **options: Any,
    ) -> None:
        """Make the tables; `rules`, `num_tables`, `seed` and `options` are those of `SeatBatch`.

        options: num_players, seat, opponents, opponent_pool, pool_weights, reward, episode,
        round_weights, illegal_action, illegal_reward, dtype, skip_forced, records.
        Raises ValueError naming the argument, its value and what is allowed.
        """
        for name, why in (
            ("autoreset", "the collector resets"),
            ("copy", "Tianshou keeps the arrays"),
        ):
            if name in options:
                raise ValueError(f"{name}: {options[name]!r} (allowed: leave it out, {why})")
        # No super().__init__(): it makes one worker for each table.
        self.batch = SeatBatch(rules, num_tables, seed, **options)
        self.env_num = self.batch.num_tables
        self.is_async = False
        self.is_closed = False
        self._seed: int | Sequence[int | None] | None = None
        self._has_begun = False
        # (N,) bool: the episode ended in the last step, which dealt the next one.
        self._is_over: Array = np.zeros(self.env_num, np.bool_)
        # (N,) bool: played on without the collector.
        self._is_left_out: Array = np.zeros(self.env_num, np.bool_)
        low, high = ((raw - OFFSET) / SCALE for raw in (0, 255))
        values: spaces.Space[Any] = spaces.Box(low, high, dtype=np.float32)
        if self.batch.dtype == np.uint8:
            values = spaces.Box(0, 255, (SIZE,), np.uint8)
        self._space = spaces.Dict({"obs": values, "mask": spaces.MultiBinary(NUM_ACTIONS)})

    def seed(self, seed: int | Sequence[int | None] | None = None) -> list[Any]:
        """Name the deals from the next reset of all tables on, as `SeatBatch.reset` takes them.

        Table i deals as table i of one seed, and of a list as judgement_v0 after reset(seed=...)
        with its i-th. Returns the seed of each table.
        """
        if isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str):
            seeds = [None if one is None else check_seed(one) for one in seed]
            if len(seeds) != self.env_num:
                raise ValueError(
                    f"seed: {len(seeds)} seeds (allowed: one, or {self.env_num}, one a table)"
                )
            self._seed = seeds
            return list(seeds)
        self._seed = check_seed(seed)
        return [self._seed] * self.env_num

    def reset(self, env_id: Any = None, **kwargs: Any) -> tuple[Any, Array]:
        """Begin an episode at every table, or at those named; return what is seen and the infos.

        seed: as in `seed`, for a reset of all tables only. options: taken and not used. A reset of
        all tables opens them again after `close`.
        """
        rows = self._rows("reset", env_id)
        if kwargs.get("seed") is not None:
            if env_id is not None:
                raise ValueError(
                    f"seed: {kwargs['seed']!r} for some tables (allowed: for all of them;"
                    " seed() names the deals of a training run)"
                )
            self.seed(kwargs["seed"])
        is_anew = self._seed is not None or self.is_closed
        if not self._has_begun or (is_anew and env_id is None):
            self.batch.reset(self._seed)
            self._seed = None
            self._has_begun = True
            self.is_closed = False
        else:
            wanted = np.zeros(self.env_num, np.bool_)
            # The step that ended an episode has dealt the next one.
            wanted[rows] = ~self._is_over[rows]
            if wanted.any():
                self.batch.reset_tables(wanted)
        if env_id is None:
            rows = np.arange(self.env_num)
        self._is_over[rows] = False
        self._is_left_out[rows] = False
        return self._seen(rows), self._infos(rows)

    def step(self, action: Any, id: Any = None) -> Any:
        """Take the learners' actions at all tables, or at those named.

        Raises IllegalActionError for an illegal action, RuntimeError at a table to be reset first.
        """
        rows = self._rows("step", id)
        actions = np.asarray(action)
        if actions.shape != rows.shape:
            raise ValueError(f"action: shape {actions.shape} (allowed: {rows.shape})")
        for flags, why in (
            (self._is_over, "is over"),
            (self._is_left_out, "was left out of the step before"),
        ):
            if flags[rows].any():
                i = int(rows[flags[rows]][0])
                raise RuntimeError(f"step: table {i} {why}, reset it first")
        if len(rows) == self.env_num and id is None:
            chosen = actions
        else:
            chosen = self.batch.action_mask.argmax(axis=1)
            chosen[rows] = actions
        self.batch.step(chosen)
        is_named = np.zeros(self.env_num, np.bool_)
        is_named[rows] = True
        self._is_left_out |= ~is_named
        self._is_over = self.batch.done & is_named
        done = self.batch.done[rows]
        return (
            self._seen(rows),
            self.batch.reward[rows],
            done,
            np.zeros_like(done),
            self._infos(rows),
        )

    def _rows(self, method: str, named: Any) -> Array:
        rows = np.arange(self.env_num) if named is None else np.atleast_1d(np.asarray(named))
        is_allowed = rows.dtype.kind in "iu" and len(set(rows.tolist())) == len(rows)
        if not is_allowed or (rows < 0).any() or (rows >= self.env_num).any():
            raise ValueError(
                f"{method}: tables {rows.tolist()} (allowed: 0 to {self.env_num - 1}, each once)"
            )
        return rows

    def _seen(self, rows: Array) -> Any:
        batch, is_over = self.batch, self._is_over[rows]
        observation, mask = batch.observation[rows], batch.action_mask[rows].view(np.bool_)
        if is_over.any():
            observation[is_over] = batch.terminal_observation[rows[is_over]]
            mask[is_over] = False
        return Batch(obs=observation, mask=mask)

    def _infos(self, rows: Array) -> Array:
        infos: Array = np.empty(len(rows), object)
        infos[:] = [{"env_id": i} for i in rows.tolist()]
        return infos

    # What Tianshou asks of the environments by name.

    def get_env_attr(self, key: str, id: Any = None) -> list[Any]:
        """Return `action_space`, `observation_space` or `metadata` of the tables named."""
        rows = self._rows("get_env_attr", id).tolist()
        if key == "action_space":
            return [LegalActions(self.batch, i) for i in rows]
        known = {"observation_space": self._space, "metadata": METADATA, "spec": None}
        if key not in known:
            raise AttributeError(
                f"get_env_attr: {key!r} (allowed: action_space, {', '.join(known)})"
            )
        return [known[key] for _ in rows]

    def set_env_attr(self, key: str, value: Any, id: Any = None) -> None:
        """Refuse: there are no separate environments to change."""
        raise AttributeError(
            f"set_env_attr: {key!r} (allowed: nothing, one batch plays all tables)"
        )

    def render(self, **kwargs: Any) -> list[str]:
        """Return what each learner sees as text."""
        return [render(self.batch.view(i), color=False) for i in range(self.env_num)]

    def close(self) -> None:
        """Close the bots that were made from texts; a second call does nothing."""
        self.batch.close()
        self.is_closed = True


# --- networks that read the mask --------------------------------------------------------------


def _tensor(values: Any, network: nn.Module) -> Tensor:
    device = next((weight.device for weight in network.parameters()), None)
    return torch.as_tensor(values, dtype=torch.float32, device=device)


class MaskedLogits(nn.Module):
    """The actor of a policy-gradient algorithm: logits of `network`, illegal actions ruled out."""

    def __init__(self, network: nn.Module) -> None:
        """Take a network from observations (B, 894) to logits (B, 79)."""
        super().__init__()
        self.network = network

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[Tensor, Any]:
        """Return logits (B, 79), the lowest number there is where `obs.mask` is False."""
        logits = self.network(_tensor(obs.obs, self.network))
        mask = torch.as_tensor(np.asarray(obs.mask, np.bool_), device=logits.device)
        return logits.masked_fill(~mask, torch.finfo(logits.dtype).min), state


class Values(nn.Module):
    """The critic beside `MaskedLogits`: what `network` says of the observation."""

    def __init__(self, network: nn.Module) -> None:
        """Take a network from observations (B, 894) to values (B, 1)."""
        super().__init__()
        self.network = network

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> Tensor:
        """Return values (B, 1)."""
        values: Tensor = self.network(_tensor(obs.obs, self.network))
        return values


# --- bots -------------------------------------------------------------------------------------


class PolicyBot(neural.PolicyBot):
    """Plays a Tianshou policy: its best action, or one drawn where it draws (``greedy=False``)."""

    def __init__(
        self, policy: Any, name: str = "tianshou", *, greedy: bool = True, seed: int | None = 0
    ) -> None:
        """Play a policy, or an algorithm's; it is not copied, so training it changes the bot.

        Raises TypeError for anything else.
        """
        policy = policy.policy if isinstance(policy, Algorithm) else policy
        if not isinstance(policy, nn.Module):
            raise TypeError(
                f"policy: {type(policy).__name__} (allowed: a Tianshou policy or algorithm)"
            )
        self.name = name
        self.network = policy
        self.greedy = greedy
        self.generator = np.random.default_rng(seed)

    def chances(self, raw: Array, masks: Array) -> Array:
        seen = Batch(obs=as_float(raw), mask=masks.view(np.bool_))
        with torch.no_grad():
            answer = self.network(Batch(obs=seen, info=Batch()))
        if answer.get("dist") is not None:
            chances = answer.dist.probs
        else:
            chances = nn.functional.one_hot(torch.as_tensor(answer.act).long(), NUM_ACTIONS)
        found: Array = chances.double().cpu().numpy()
        illegal = np.where(masks == 0, found, 0)
        if illegal.any():
            action = int(illegal.max(axis=0).argmax())
            raise BotError(
                f"bot {self.name!r}: {action_text(action)} is not legal; its network does not read"
                " the mask (allowed: the DQN family, or MaskedLogits)"
            )
        return found
