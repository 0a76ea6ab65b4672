"""TorchRL: N tables as one `EnvBase`, advantages by seat, and a trained actor as a bot.

At each table one seat acts: its observation and mask are what the actor reads, and the reward has
a column for every seat, so that no seat's points are lost. The tables are a `BatchEnv`'s.

    >>> env = JudgementEnv("kachuful", num_tables=3)
    >>> env.rollout(5)["next", "reward"].shape
    torch.Size([3, 5, 4])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

try:
    import torch
    from tensordict import TensorDict, TensorDictBase
    from tensordict.nn import TensorDictModule
    from torch import Tensor, nn
    from torchrl.data import Binary, Bounded, Categorical, Composite, Unbounded
    from torchrl.envs import EnvBase
    from torchrl.envs.utils import ExplorationType, set_exploration_type
    from torchrl.modules import MaskedCategorical, ProbabilisticActor
except ImportError as error:
    raise ImportError(
        "judgement_env.integrations.torchrl needs torchrl; pip install 'judgement-env[torchrl]'"
    ) from error

from judgement_env.batch import BatchEnv, RulesLike, check_seed
from judgement_env.bots.neural import PolicyBot
from judgement_env.cards import NONE, NUM_ACTIONS
from judgement_env.observation import OFFSET, ORACLE_SIZE, SCALE, SIZE, as_float
from judgement_env.state import Array

# --- the environment --------------------------------------------------------------------------


# To a type checker the library's classes are of no known type.
class JudgementEnv(EnvBase):  # type: ignore[misc]
    """N tables, stepped together; ``batch_size`` is [N].

    observation: Tensor  # (N, 894) float32 or uint8, what the seat to act sees
    action_mask: Tensor  # (N, 79) bool, True = legal for it
    seat: Tensor         # (N,) int64, the seat to act, -1 once the episode is over
    oracle: Tensor       # (N, 520) as observation, all hands; only if asked for
    reward: Tensor       # (N, P) float32, points the step gave to each seat
    done, terminated: Tensor  # (N, 1) bool

    Of a finished episode nobody sees the end: its last observation is all 0, its mask all True.
    """

    def __init__(
        self,
        rules: RulesLike | Sequence[RulesLike] = "kachuful",
        num_tables: int = 1,
        seed: int | None = 0,
        *,
        device: Any = "cpu",
        **options: Any,
    ) -> None:
        """Make the tables; `rules`, `num_tables`, `seed` and `options` are those of `BatchEnv`.

        options: episode, dtype, skip_forced, oracle, round_weights. device: where tensors go.
        Raises ValueError naming the argument, its value and what is allowed.
        """
        if "copy" in options:
            raise ValueError(
                f"copy: {options['copy']!r} (allowed: leave it out, tensors are never reused)"
            )
        batch = BatchEnv(rules, num_tables, seed, **options)
        super().__init__(device=device, batch_size=[batch.num_tables])
        self.batch = batch
        self._has_oracle = bool(options.get("oracle", False))
        self._seed = batch.seed
        self._has_begun = False
        self._is_open = False
        # (N,) bool: the episode is over, and the next one lies dealt in the batch.
        self._is_over: Array = np.zeros(batch.num_tables, np.bool_)
        self._make_specs()

    def _make_specs(self) -> None:
        n, players = self.batch.num_tables, self.batch.num_players
        self.observation_spec = Composite(
            observation=self._values_spec(SIZE),
            action_mask=Binary(NUM_ACTIONS, (n, NUM_ACTIONS), dtype=torch.bool),
            seat=Bounded(NONE, players - 1, (n,), dtype=torch.int64),
            shape=(n,),
        ).to(self.device)
        if self._has_oracle:
            self.observation_spec["oracle"] = self._values_spec(ORACLE_SIZE).to(self.device)
        self.action_spec = Categorical(NUM_ACTIONS, (n,), dtype=torch.int64, device=self.device)
        self.reward_spec = Unbounded((n, players), dtype=torch.float32, device=self.device)
        flag = Categorical(2, (n, 1), dtype=torch.bool, device=self.device)
        self.done_spec = Composite(done=flag, terminated=flag.clone(), shape=(n,))

    def _values_spec(self, size: int) -> Any:
        """The spec of (N, size) values: all that a byte can say."""
        shape = (self.batch.num_tables, size)
        if self.batch.dtype == np.uint8:
            return Bounded(0, 255, shape, dtype=torch.uint8)
        if size != SIZE:
            return Bounded(0.0, 255.0, shape, dtype=torch.float32)
        low, high = (torch.from_numpy((raw - OFFSET) / SCALE).expand(shape) for raw in (0, 255))
        return Bounded(low, high, shape, dtype=torch.float32)

    def _set_seed(self, seed: int | None) -> None:
        """Name the deals; the next reset starts every table with match 0 of the seed."""
        self._seed = check_seed(seed)
        self._has_begun = False

    def close(self, *, raise_if_closed: bool = True) -> None:
        """End the play; a reset opens the tables again. A second call does nothing."""
        super().close(raise_if_closed=raise_if_closed)
        self._is_open = False

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        """Begin an episode at the tables whose "_reset" is True, at all of them without one."""
        self._is_open = True
        if not self._has_begun:
            self.batch.reset(seed=self._seed)
            self._has_begun = True
            self._is_over[:] = False
            return self._shown()
        wanted = None if tensordict is None else tensordict.get("_reset", None)
        rows = np.ones(self.batch.num_tables, np.bool_)
        if wanted is not None:
            rows = wanted.reshape(self.batch.num_tables).cpu().numpy()
        # Where an episode is over the next one lies dealt; others are given up for it.
        self._begin_next(rows & ~self._is_over)
        self._is_over &= ~rows
        return self._shown()

    def _begin_next(self, rows: Array) -> None:
        if rows.any():
            before = self.batch.tables.copy()
            self.batch.reset()
            self.batch.tables[~rows] = before[~rows]
            self.batch.refresh()

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Take an action at every table, or at those whose "_step" is True.

        Raises IllegalActionError for an illegal action, RuntimeError where the episode is over,
        before the first reset and after `close`.
        """
        if not self._is_open:
            raise RuntimeError("step: call reset() first")
        wanted = tensordict.get("_step", None)
        rows = np.ones(self.batch.num_tables, np.bool_)
        if wanted is not None:
            rows = wanted.reshape(self.batch.num_tables).cpu().numpy()
        if (rows & self._is_over).any():
            i = int(np.flatnonzero(rows & self._is_over)[0])
            raise RuntimeError(f"step: the episode of table {i} is over, reset it first")
        actions = tensordict["action"].cpu().numpy()
        if rows.all():
            self.batch.step(actions)
            self._is_over = self.batch.done.copy()
            reward = self.batch.reward
        else:
            reward = self._step_some(actions, rows)
        out = self._shown()
        out["reward"] = self._tensor(reward)
        return out

    def _step_some(self, actions: Array, rows: Array) -> Array:
        """Step the tables of `rows` alone: play something at the others and take it back."""
        before = self.batch.tables.copy()
        any_legal = self.batch.action_mask.argmax(axis=1)
        self.batch.step(np.where(rows, actions, any_legal))
        reward, done = self.batch.reward, self.batch.done
        self.batch.tables[~rows] = before[~rows]
        self.batch.refresh()
        self._is_over |= done & rows
        return np.where(rows[:, None], reward, np.float32(0))

    def _shown(self) -> TensorDictBase:
        """What the seats to act see; of a table whose episode is over, nothing."""
        batch, is_over = self.batch, self._is_over
        values = {
            "observation": batch.observation,
            "action_mask": batch.action_mask.view(np.bool_),
            "seat": batch.seat.astype(np.int64),
        }
        if self._has_oracle:
            values["oracle"] = batch.oracle
        if is_over.any():
            # The batch needs its own arrays for what comes next.
            values = {name: value.copy() for name, value in values.items()}
            for value in values.values():
                value[is_over] = 0
            values["action_mask"][is_over] = True
            values["seat"][is_over] = NONE
        shown = {name: self._tensor(value) for name, value in values.items()}
        # Whatever draws from the spec, random policies above all, draws legal actions.
        self.input_spec["full_action_spec", "action"].update_mask(shown["action_mask"])
        done = self._tensor(is_over[:, None].copy())
        shown.update(done=done, terminated=done.clone())
        return TensorDict(shown, batch_size=self.batch_size, device=self.device)

    def _tensor(self, values: Array) -> Tensor:
        return torch.from_numpy(values).to(self.device)


# --- advantages -------------------------------------------------------------------------------


def seat_advantage(
    data: TensorDictBase,
    gamma: float = 1.0,
    lmbda: float = 0.95,
    *,
    value_key: str = "state_value",
    reward_key: str = "reward",
) -> TensorDictBase:
    """Write "advantage", "value_target" (N, T, 1) and "has_outcome" (N, T, 1) bool into `data`.

    Generalised advantage estimation (arXiv 1506.02438) along each seat's own decisions: what a
    seat is given until it decides again is the reward of its decision, what it expects then the
    next value. `gamma` counts own decisions.

    data: (N, T) steps of a `JudgementEnv` in order of time, with the values (N, T, 1).
    The last decision of a seat whose episode was not played out in `data` has no outcome: its
    advantage is 0, and `data[data["has_outcome"].squeeze(-1)]` leaves it out.
    Raises ValueError for another shape, or a `gamma` or `lmbda` outside 0 to 1.
    """
    for name, number in (("gamma", gamma), ("lmbda", lmbda)):
        if not 0 <= number <= 1:
            raise ValueError(f"{name}: {number!r} (allowed: 0 to 1)")
    if data.ndim != 2:
        raise ValueError(f"data: shape {tuple(data.shape)} (allowed: (N, T), tables by steps)")
    value = data[value_key].squeeze(-1)
    seat, done = data["seat"], data["next", "done"]
    reward = data["next", reward_key]
    n, num_steps, players = reward.shape
    # By seat, of its next decision; and what it was given before that.
    next_value, next_advantage, given = (reward.new_zeros(n, players) for _ in range(3))
    is_known = torch.zeros_like(given, dtype=torch.bool)
    advantage = torch.zeros_like(value)
    has_outcome = torch.zeros_like(value, dtype=torch.bool)
    for t in reversed(range(num_steps)):
        going = ~done[:, t]
        next_value, next_advantage, given = (x * going for x in (next_value, next_advantage, given))
        is_known = is_known | ~going
        given = given + reward[:, t]
        own = seat[:, t, None]
        delta = (given + gamma * next_value).gather(1, own).squeeze(1) - value[:, t]
        estimate = delta + gamma * lmbda * next_advantage.gather(1, own).squeeze(1)
        has_outcome[:, t] = is_known.gather(1, own).squeeze(1)
        advantage[:, t] = estimate * has_outcome[:, t]
        next_value = next_value.scatter(1, own, value[:, t, None])
        next_advantage = next_advantage.scatter(1, own, advantage[:, t, None])
        given = given.scatter(1, own, 0.0)
        is_known = is_known.scatter(1, own, True)
    data["advantage"] = advantage.unsqueeze(-1)
    data["value_target"] = (advantage + value).unsqueeze(-1)
    data["has_outcome"] = has_outcome.unsqueeze(-1)
    return data


# --- actors and bots --------------------------------------------------------------------------


def masked_actor(network: nn.Module) -> ProbabilisticActor:
    """Return an actor that draws legal actions from `network`, observation (…, 894) to logits.

    It writes "action" and, as the losses of TorchRL want it, the logarithm of its probability.
    """
    module = TensorDictModule(network, in_keys=["observation"], out_keys=["logits"])
    return ProbabilisticActor(
        module,
        in_keys={"logits": "logits", "mask": "action_mask"},
        out_keys=["action"],
        distribution_class=MaskedCategorical,
        return_log_prob=True,
    )


class ActorBot(PolicyBot):
    """Plays a TorchRL actor that reads "observation" (float32) and "action_mask".

    `greedy` takes its likeliest action, otherwise it draws; a value-based actor has but the best.
    """

    def __init__(
        self, actor: Any, name: str = "torchrl", *, greedy: bool = True, seed: int | None = 0
    ) -> None:
        """Play `actor`, on the device it is on; it is not copied, so training it changes the bot.

        Raises TypeError for something that does not read an observation and write an action.
        """
        keys = (getattr(actor, "in_keys", ()), getattr(actor, "out_keys", ()))
        if "observation" not in keys[0] or "action" not in keys[1]:
            raise TypeError(
                f"actor: {type(actor).__name__} reads {list(keys[0])} and writes {list(keys[1])}"
                " (allowed: what reads 'observation' and writes 'action')"
            )
        self.name = name
        self.actor = actor
        self.greedy = greedy
        self.generator = np.random.default_rng(seed)

    def chances(self, raw: Array, masks: Array) -> Array:
        device = next((weight.device for weight in self.actor.parameters()), None)
        seen = TensorDict(
            {
                "observation": torch.from_numpy(as_float(raw)),
                "action_mask": torch.from_numpy(masks.view(np.bool_)),
            },
            batch_size=[len(raw)],
        ).to(device)
        with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
            if hasattr(self.actor, "get_dist"):
                chances = self.actor.get_dist(seen).probs
            else:
                chances = nn.functional.one_hot(self.actor(seen)["action"], NUM_ACTIONS)
        found: Array = chances.double().cpu().numpy()
        return found
