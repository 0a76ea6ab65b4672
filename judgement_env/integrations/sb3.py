"""Stable-Baselines3 and sb3-contrib: one learner at each of N tables as a VecEnv; models as bots.

All play is a `SeatBatch`'s, in compiled code; `action_masks` is where MaskablePPO looks for it.
With ``canonical=True`` a model sees what the project's own networks see, and `policy_network`
makes an equal one of it that plays without torch.

    >>> env = JudgementVecEnv("kachuful", num_envs=64, opponents="heuristic")
    >>> model = MaskablePPO("MlpPolicy", env, gamma=1.0).learn(100_000)
    >>> bot = Sb3Bot(model)
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np

try:
    import torch
    from gymnasium import spaces
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.policies import BasePolicy
    from stable_baselines3.common.torch_layers import FlattenExtractor
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    raise ImportError(
        "judgement_env.integrations.sb3 needs stable-baselines3 and sb3-contrib;"
        " pip install 'judgement-env[sb3]'"
    ) from error

from judgement_env.arguments import choice, finite, whole
from judgement_env.batch import RulesLike
from judgement_env.bots.base import one_hot
from judgement_env.bots.inputs import (
    INPUT_COLUMN,
    INPUT_SIZE,
    INPUT_STRIDE,
    INPUT_SUIT,
    PLAIN_SIZE,
    canonical_inputs,
    in_plain_suits,
)
from judgement_env.bots.neural import PolicyBot
from judgement_env.bots.policy import (
    PolicyNetwork,
    dense_inputs,
    masked_softmax,
)
from judgement_env.cards import NUM_ACTIONS, NUM_CARDS
from judgement_env.gym_env import observation_space
from judgement_env.judgement_v0 import RENDER_MODES
from judgement_env.observation import SIZE, as_float
from judgement_env.render import render
from judgement_env.seat_batch import BotLike, SeatBatch
from judgement_env.state import Array
from judgement_env.view import View

__all__ = [
    "JudgementVecEnv",
    "MaskablePPO",
    "Sb3Bot",
    "canonical_space",
    "policy_network",
    "policy_weights",
]

# What `env_method` calls for one table; all else that can be changed is a method of the whole.
TABLE_METHODS = ("action_masks", "record", "render", "terminal_record", "view")

# --- canonical suits --------------------------------------------------------------------------


def canonical_space() -> spaces.Box:
    """Return the space (INPUT_SIZE,) of what the project's own networks read, see `inputs`."""
    plain = observation_space(np.float32)
    used = INPUT_COLUMN >= 0
    column = (INPUT_COLUMN + np.maximum(INPUT_SUIT, 0) * INPUT_STRIDE)[used]
    low, high = np.zeros(INPUT_SIZE, np.float32), np.zeros(INPUT_SIZE, np.float32)
    low[column], high[column] = plain.low[used], plain.high[used]
    high[PLAIN_SIZE:] = 1
    return spaces.Box(low, high, dtype=np.float32)


def in_canonical_suits(raw: Array, masks: Array) -> tuple[Array, Array, Array]:
    """Return inputs (B, INPUT_SIZE) float32, masks (B, 79) int8 and places (B, 4) of the suits.

    raw: observations (B, SIZE) uint8; masks (B, 79) in the order of the action ids.
    """
    sparse, canonical, places = canonical_inputs(raw, masks)
    inputs = np.zeros((len(raw), INPUT_SIZE), np.float32)
    dense_inputs(*sparse, np.arange(len(raw)), inputs)
    return inputs, canonical, places


def plain_actions(actions: Array, places: Array) -> Array:
    """Return the ids (B,) of actions in canonical suits; what is no card stays as it is."""
    suits = np.argsort(places, axis=1)
    is_card = (actions >= 0) & (actions < NUM_CARDS)
    cards = np.where(is_card, actions, 0)
    suit = suits[np.arange(len(actions)), cards // 13]
    return np.where(is_card, suit * 13 + cards % 13, actions)


# --- the environment --------------------------------------------------------------------------


class JudgementVecEnv(VecEnv):
    """N tables, one learner at each, stepped together.

    A transition leads from one decision of the learner to its next, with all it was given in
    between. A table that is over deals its next episode in the same step; its info then holds
    "terminal_observation", "episode" (points "r", decisions "l" and seconds "t", as a Monitor
    writes them), "totals" (P,) and "seat", the learner's. An info of an illegal action that was
    let pass holds "illegal_action", 1. All other infos are empty.
    """

    def __init__(
        self,
        rules: RulesLike = "kachuful",
        num_envs: int = 1,
        seed: int | None = 0,
        *,
        canonical: bool = False,
        reward_scale: float = 1.0,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        """Make the tables; `rules`, `seed` and `options` are those of `SeatBatch`.

        options: num_players, seat, opponents, opponent_pool, pool_weights, reward, episode,
        round_weights, illegal_action, illegal_reward, dtype, skip_forced, records.
        canonical: show what the project's own networks read, suits in the order trump first,
            and take actions in it. reward_scale: rewards are points times this; "episode" is not.
        Raises ValueError naming the argument, its value and what is allowed.
        """
        for name, why in (("autoreset", "it is same_step"), ("copy", "the library keeps arrays")):
            if name in options:
                raise ValueError(f"{name}: {options[name]!r} (allowed: leave it out, {why})")
        if canonical and options.setdefault("dtype", "float32") != "float32":
            raise ValueError(
                f"dtype: {options['dtype']!r} with canonical=True (allowed: 'float32')"
            )
        scale = finite("reward_scale", reward_scale, above=0)
        if render_mode is not None:
            choice("render_mode", render_mode, RENDER_MODES)
            options.setdefault("records", True)
        if canonical:
            # Raw observations are inputs of the encoding here, and nobody else sees them.
            options |= {"dtype": "uint8", "copy": False}
        self.batch = SeatBatch(rules, whole("num_envs", num_envs, 1), seed, **options)
        self.canonical = bool(canonical)
        self.reward_scale = scale
        self.render_mode = render_mode
        space = canonical_space() if canonical else observation_space(self.batch.dtype)
        super().__init__(self.batch.num_tables, space, spaces.Discrete(NUM_ACTIONS))
        self._actions: Any = None
        # (N, 79) int8 and (N, 4) int32: what is legal, and the place of each suit if canonical.
        self._masks: Array = np.zeros((self.num_envs, NUM_ACTIONS), np.int8)
        self._places: Array = np.zeros((self.num_envs, 4), np.int32)
        # One dict for each table, used again as long as nobody writes into it.
        self._empty: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        self._clear_sums()

    def _clear_sums(self) -> None:
        self._points: Array = np.zeros(self.num_envs, np.float64)
        self._lengths: Array = np.zeros(self.num_envs, np.int64)
        self._started = time.time()

    # Stepping.

    def reset(self) -> Array:
        """Begin an episode at every table; return observations (N, D).

        After ``seed(s)`` table i deals as judgement_v0 does after reset(seed=s + i); else the
        seed of the constructor is used at first, and the next match of it later.
        """
        seeds = None if all(seed is None for seed in self._seeds) else self._seeds
        self.batch.reset(seeds)
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = [{} for _ in range(self.num_envs)]
        self._actions = None
        self._clear_sums()
        return self._seen()

    def set_options(self, options: Any = None) -> None:
        """Refuse all options: judgement_v0 and Table deal by hand, these tables do not."""
        if options and any(options if isinstance(options, list) else [options]):
            raise ValueError(f"options: {options!r} (allowed: none)")

    def step_async(self, actions: Array) -> None:
        """Take note of the learners' actions (N,), of any integer dtype."""
        self._actions = actions

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        """Play them; return observations (N, D), rewards (N,) float32, dones (N,) and infos.

        Raises as `SeatBatch.step` does; an IllegalActionError names cards by their own suits.
        """
        if self._actions is None:
            raise RuntimeError("step_wait: call step_async(actions) first")
        actions, self._actions = np.asarray(self._actions), None
        if self.canonical and actions.dtype.kind in "iu" and actions.shape == (self.num_envs,):
            actions = plain_actions(actions, self._places)
        batch = self.batch
        batch.step(actions)
        self._points += batch.reward
        self._lengths += 1
        infos = self._infos()
        reward = batch.reward * np.float32(self.reward_scale)
        return self._seen(), reward, batch.done.copy(), infos

    def _seen(self) -> Array:
        """What the learners see, (N, D), in new arrays; their masks are noted."""
        if not self.canonical:
            self._masks = self.batch.action_mask
            return self.batch.observation
        inputs, self._masks, self._places = in_canonical_suits(
            self.batch.observation, self.batch.action_mask
        )
        return inputs

    def _infos(self) -> list[dict[str, Any]]:
        """The infos of the step just made; work is done only where there is something to say."""
        if any(self._empty):
            self._empty = [{} for _ in range(self.num_envs)]
        infos = self._empty.copy()
        batch = self.batch
        for i in np.flatnonzero(batch.illegal).tolist():
            infos[i] = {"illegal_action": 1}
        rows = np.flatnonzero(batch.done)
        final = batch.terminal_observation[rows]
        if self.canonical and len(rows):
            final = in_canonical_suits(final, np.zeros((len(rows), NUM_ACTIONS), np.int8))[0]
        seconds = round(time.time() - self._started, 6)
        for k, i in enumerate(rows.tolist()):
            infos[i] = {
                **infos[i],
                "terminal_observation": final[k],
                "TimeLimit.truncated": False,
                "episode": {
                    "r": float(self._points[i]),
                    "l": int(self._lengths[i]),
                    "t": seconds,
                },
                "totals": batch.totals[i].copy(),
                "seat": int(batch.terminal_seat[i]),
            }
        self._points[rows] = 0
        self._lengths[rows] = 0
        return infos

    def action_masks(self) -> Array:
        """The legal actions at every table as (N, 79) bool, in canonical suits if shown so."""
        masks: Array = self._masks.astype(np.bool_)
        return masks

    # What can be seen and changed.

    def record(self, i: int) -> dict[str, Any]:
        """The match in play at table i, hidden cards included; needs records=True."""
        return self.batch.record(i)

    def terminal_record(self, i: int) -> dict[str, Any]:
        """The record of the episode that the last step ended at table i; needs records=True."""
        return self.batch.terminal_record(i)

    def view(self, i: int) -> View:
        """What the learner at table i may know."""
        return self.batch.view(i)

    def set_opponents(self, opponents: Any) -> None:
        """Seat these bots from each next episode on, as the argument `opponents` does."""
        self.batch.set_opponents(opponents)

    def set_opponent_pool(self, pool: list[BotLike], weights: Any = None) -> None:
        """Draw opponents from these bots from each next episode on."""
        self.batch.set_opponent_pool(pool, weights)

    def _shown(self, i: int) -> str | None:
        """The learner's view of table i as text, printed in render_mode "human"."""
        if self.render_mode == "human":
            print(render(self.batch.view(i)))
            return None
        return render(self.batch.view(i), color=False, symbols=True)

    def close(self) -> None:
        """Close the bots that were made from texts; a second call does nothing.

        What was shown can still be read, and `reset` opens the tables again.
        """
        self.batch.close()

    # What the library asks of the environments by name.

    def _rows(self, indices: int | Iterable[int] | None) -> list[int]:
        rows = [int(i) for i in self._get_indices(indices)]
        for i in rows:
            if not -self.num_envs <= i < self.num_envs:
                raise IndexError(f"indices: {i} (allowed: 0 to {self.num_envs - 1})")
        return [i % self.num_envs for i in rows]

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of this object once for each table asked for."""
        value = getattr(self, attr_name)
        return [value for _ in self._rows(indices)]

    def has_attr(self, attr_name: str) -> bool:
        """Whether there is such an attribute."""
        return hasattr(self, attr_name)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse: there are no separate environments to change."""
        raise AttributeError(
            f"set_attr: {attr_name!r} (allowed: nothing, one batch plays all tables;"
            " set_opponents and set_opponent_pool change who sits there)"
        )

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call one of TABLE_METHODS for each table asked for; return what each call gives."""
        if method_name not in TABLE_METHODS:
            raise AttributeError(
                f"env_method: {method_name!r} (allowed: {', '.join(TABLE_METHODS)};"
                " other methods are called once, on the JudgementVecEnv)"
            )
        if method_args or method_kwargs:
            raise TypeError(f"env_method: {method_name!r} takes no arguments")
        if method_name == "action_masks":
            masks = self.action_masks()
            return list(masks) if indices is None else list(masks[self._rows(indices)])
        method = self._shown if method_name == "render" else getattr(self, method_name)
        return [method(i) for i in self._rows(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """Say True of a Monitor, for its statistics stand in the infos, and False of all else."""
        is_monitor = isinstance(wrapper_class, type) and issubclass(wrapper_class, Monitor)
        return [is_monitor for _ in self._rows(indices)]


# --- models as bots ---------------------------------------------------------------------------


def _policy_of(model: Any) -> Any:
    """The policy of a model whose observations and actions are ours; TypeError or ValueError."""
    policy = model.policy if isinstance(model, BaseAlgorithm) else model
    if not isinstance(policy, BasePolicy) or not (
        hasattr(policy, "q_net") or hasattr(policy, "get_distribution")
    ):
        raise TypeError(
            f"model: {type(model).__name__} (allowed: MaskablePPO, PPO, A2C, DQN or the policy"
            " of one)"
        )
    shape, actions = policy.observation_space.shape, policy.action_space
    if shape not in ((SIZE,), (INPUT_SIZE,)) or getattr(actions, "n", None) != NUM_ACTIONS:
        raise ValueError(
            f"model: observations of shape {shape}, actions {actions} (allowed: ({SIZE},) or"
            f" ({INPUT_SIZE},) and {NUM_ACTIONS} actions, as a JudgementVecEnv gives them)"
        )
    return policy


class Sb3Bot(PolicyBot):
    """Plays a model of MaskablePPO, PPO, A2C or DQN: its best legal action, or one it draws.

    It needs the library; `policy_network` makes a bot that does not.
    """

    def __init__(
        self, model: Any, name: str = "sb3", *, greedy: bool = True, seed: int | None = 0
    ) -> None:
        """Play a model or its policy, which is not copied: training it changes the bot.

        greedy: False draws from the policy, by `seed`; DQN has none to draw from.
        Raises TypeError or ValueError for a model that was not trained on our observations.
        """
        self.name = name
        self.network = _policy_of(model)
        self.is_canonical = self.network.observation_space.shape == (INPUT_SIZE,)
        if not greedy and hasattr(self.network, "q_net"):
            raise ValueError("greedy: False of a DQN (allowed: True, it has no probabilities)")
        self.greedy = greedy
        self.generator = np.random.default_rng(seed)

    def _scores(self, shown: Array) -> Array:
        """Logits, or the values of a DQN, (B, 79)."""
        self.network.set_training_mode(False)
        seen, _ = self.network.obs_to_tensor(shown)
        with torch.no_grad():
            if hasattr(self.network, "q_net"):
                scores = self.network.q_net(seen)
            else:
                scores = self.network.get_distribution(seen).distribution.logits
        found: Array = scores.cpu().numpy()
        return found

    def chances(self, raw: Array, masks: Array) -> Array:
        if self.is_canonical:
            inputs, masks, places = in_canonical_suits(raw, masks)
        else:
            is_raw = self.network.observation_space.dtype == np.uint8
            inputs = raw if is_raw else as_float(raw)
        scores = self._scores(inputs)
        if hasattr(self.network, "q_net"):
            best = np.where(masks > 0, scores, -np.inf).argmax(axis=1)
            chances = np.stack([one_hot(action) for action in best.tolist()])
        else:
            chances = masked_softmax(scores, masks)
        return in_plain_suits(chances, places) if self.is_canonical else chances


# --- models as the project's own networks -----------------------------------------------------


def policy_weights(model: Any) -> dict[str, Array]:
    """Return copies of a model's policy weights as `PolicyNetwork` takes them.

    The two networks are the same function: equal probabilities but for the order of sums. Raises
    ValueError for what is no rectified multilayer perceptron on canonical observations.
    """
    policy = _policy_of(model)
    if policy.observation_space.shape != (INPUT_SIZE,):
        raise ValueError(
            f"model: it reads {policy.observation_space.shape[0]} values (allowed:"
            f" {INPUT_SIZE}, of a JudgementVecEnv with canonical=True)"
        )
    if not hasattr(policy, "mlp_extractor"):
        raise ValueError(
            f"model: a {type(policy).__name__} (allowed: the MlpPolicy of MaskablePPO, PPO or A2C)"
        )
    if type(policy.pi_features_extractor) is not FlattenExtractor:
        raise ValueError("model: it has a features extractor of its own (allowed: none)")
    layers = [*policy.mlp_extractor.policy_net, policy.action_net]
    for k, layer in enumerate(layers):
        wanted = torch.nn.Linear if k % 2 == 0 else torch.nn.ReLU
        if type(layer) is not wanted:
            raise ValueError(
                f"model: a layer {type(layer).__name__} (allowed: Linear and ReLU in turn;"
                " policy_kwargs={'activation_fn': torch.nn.ReLU})"
            )
    weights: dict[str, Array] = {}
    for k, layer in enumerate(layers[::2]):
        weight, bias = (tensor.detach().cpu().numpy() for tensor in (layer.weight, layer.bias))
        weights[f"layers.{k}.weight"] = np.array(weight.T, np.float32, order="C")
        weights[f"layers.{k}.bias"] = np.array(bias, np.float32)
    return weights


def policy_network(model: Any) -> PolicyNetwork:
    """Return a model's policy as a network that plays without torch; errors as `policy_weights`.

    ``NeuralBot.from_network(policy_network(model))`` is a past self to put into a pool.
    """
    return PolicyNetwork(policy_weights(model))
