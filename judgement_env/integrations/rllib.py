"""Judgement for RLlib's new API stack: environment, masked policy, PPO, checkpoints as bots.

`MultiAgentJudgement` shows the seat to act only; what a seat is given comes with its next
observation, at the end with a last one for every seat. `MaskedPolicy` plays legal actions only.

    algorithm = ppo_config("kachuful", seed=1).build_algo()
    algorithm.train()
    bot = load_bot(algorithm.save_to_path())
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from judgement_env import ENV_VERSION
from judgement_env.bots.neural import PolicyBot
from judgement_env.cards import NUM_ACTIONS
from judgement_env.judgement_v0 import raw_env
from judgement_env.observation import SIZE, as_float, layout_hash
from judgement_env.record import Record
from judgement_env.rules import Rules, make_rules
from judgement_env.scoring import nearest, shown
from judgement_env.state import Array

try:
    import torch
    from ray.rllib.algorithms.algorithm import Algorithm
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.columns import Columns
    from ray.rllib.core.rl_module.apis import InferenceOnlyAPI, ValueFunctionAPI
    from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
    from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
    from ray.rllib.core.rl_module.torch import TorchRLModule
    from ray.rllib.env.multi_agent_env import MultiAgentEnv
    from ray.tune.registry import register_env as register_with_tune
    from torch import Tensor, nn
except ImportError as error:
    raise ImportError(
        "judgement_env.integrations.rllib needs ray[rllib] and torch;"
        " pip install 'judgement-env[rllib]'"
    ) from error

ENV_NAME = "judgement"
# What `raw_env` takes of an env_config, and what the adapter adds.
OF_RAW_ENV = (
    "rules",
    "num_players",
    "render_mode",
    "reward",
    "episode",
    "illegal_action",
    "illegal_reward",
)
OPTIONS = (*OF_RAW_ENV, "skip_forced")
# Where an algorithm's checkpoint keeps its policies, and the file that marks one.
MODULES = Path("learner_group", "learner", "rl_module")
MODULE_MARK = "class_and_ctor_args.pkl"

# --- the environment --------------------------------------------------------------------------


class MultiAgentJudgement(MultiAgentEnv):  # type: ignore[misc]
    """Judgement with one agent for each seat, `player_0` to `player_{n-1}`.

    A step takes the action of the one agent that has been shown an observation,
    {"observation": float32 (894,), "action_mask": int8 (79,)}, and shows one to the next. The
    rewards a seat is given until its next observation come with that, summed up; the end of the
    episode shows every seat a last observation (its mask all zeros) with what is still due.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Make the environment from RLlib's env_config; nothing is dealt before `reset`.

        rules, num_players, render_mode, reward, episode, illegal_reward: as `judgement_v0.env`.
        illegal_action: "random" unless given, for RLlib's own check of environments takes actions
            without looking at the mask; each seat's info counts its "illegal_actions".
        skip_forced: play a decision that leaves no choice without asking; a seat's first one of
            an episode is asked all the same, so that no seat is left out of it.
        Raises ValueError naming the option, its value and what is allowed.
        """
        super().__init__()
        given = dict(config or {})
        for name in given:
            if name not in OPTIONS:
                hint = nearest(str(name), OPTIONS)
                raise ValueError(f"env_config: {shown(name)} (allowed: {', '.join(OPTIONS)}){hint}")
        self.skip_forced = _checked_bool("skip_forced", given.pop("skip_forced", False))
        self.env = raw_env(**{"illegal_action": "random", **given})
        # RLlib writes into the metadata.
        self.metadata = dict(self.env.metadata)
        self.render_mode = self.env.render_mode
        self.rules: Rules = self.env.rules
        self.possible_agents = list(self.env.possible_agents)
        # All of them stay to the end.
        self.agents = list(self.possible_agents)
        self.observation_spaces = dict(self.env.observation_spaces)
        self.action_spaces = dict(self.env.action_spaces)
        # RLlib numbers its remote workers from 1.
        self._worker = int(getattr(config, "worker_index", 0) or 0)
        self._has_begun = False

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode; return the observation and the info of the agent to act.

        Without a seed the next episode of the seed in use is dealt. Equal seeds deal alike, but
        not in different remote workers, which RLlib gives seeds that overlap.
        """
        if seed is not None and self._worker:
            seed = worker_seed(seed, self._worker)
        self.env.reset(seed=seed, options=options)
        self._has_begun = True
        self._due = dict.fromkeys(self.possible_agents, 0.0)
        self._num_illegal = dict.fromkeys(self.possible_agents, 0)
        self._asked = {self.env.agent_selection}
        return self._shown([self.env.agent_selection])

    def step(
        self, action_dict: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Any]]:
        """Take the action of the agent to act; return what the next one, or at the end all, see.

        Raises ValueError where `action_dict` is not of that agent alone, RuntimeError before
        `reset`, after the end and after `close`.
        """
        agent = self._agent_to_act()
        if set(action_dict) != {agent}:
            raise ValueError(
                f"action_dict: actions of {shown(sorted(map(str, action_dict)))}"
                f" (allowed: of {agent!r} alone, whose turn it is)"
            )
        self._take(agent, action_dict[agent])
        while self._is_forced():
            self._take(self.env.agent_selection, self._only_action())
        is_over = self._is_over
        agents = self.possible_agents if is_over else [self.env.agent_selection]
        self._asked.update(agents)
        observations, infos = self._shown(agents)
        rewards = {agent: self._due[agent] for agent in agents}
        self._due.update(dict.fromkeys(agents, 0.0))
        terminated = {**dict.fromkeys(agents, is_over), "__all__": is_over}
        truncated = {**dict.fromkeys(agents, False), "__all__": False}
        return observations, rewards, terminated, truncated, infos

    def _take(self, agent: str, action: Any) -> None:
        self.env.step(action)
        self._num_illegal[agent] += self.env.infos[agent].get("illegal_action", 0)
        for seat, reward in self.env.rewards.items():
            self._due[seat] += reward

    @property
    def _is_over(self) -> bool:
        return self._has_begun and self.env.terminations[self.possible_agents[0]]

    def _is_forced(self) -> bool:
        """Whether the next decision is to be played without asking."""
        if not self.skip_forced or self._is_over or self.env.agent_selection not in self._asked:
            return False
        return bool(self._mask().sum() == 1)

    def _mask(self) -> Array:
        mask: Array = self.env.infos[self.env.agent_selection]["action_mask"]
        return mask

    def _only_action(self) -> int:
        return int(self._mask().argmax())

    def _agent_to_act(self) -> str:
        if not self._has_begun or self._is_over:
            state = "the episode is over" if self._has_begun else "no episode has begun"
            raise RuntimeError(f"step: {state}, call reset()")
        agent: str = self.env.agent_selection
        return agent

    def _shown(self, agents: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        observations = {agent: self.env.observe(agent) for agent in agents}
        infos = {agent: {"illegal_actions": self._num_illegal[agent]} for agent in agents}
        return observations, infos

    def record(self) -> Record:
        """The episode so far as a `judgement-record/1`, hidden cards and seed included."""
        return self.env.record()

    def render(self) -> str | None:
        """Show the view of the seat to act as `render_mode` has it: never a hidden card."""
        return self.env.render()

    def close(self) -> None:
        """End the play; what was shown can still be read, and `reset` opens it again."""
        self.env.close()


def worker_seed(seed: int, worker: int) -> int:
    """Return the seed that a remote worker deals by where RLlib names this one.

    RLlib counts up over workers and over the environments of a worker, so that seeds meet.
    """
    words = np.random.SeedSequence([seed, worker]).generate_state(2, np.uint32).tolist()
    # 53 bits, so that every reader of a record keeps all its digits.
    return int((words[0] << 21) | (words[1] >> 11))


def register_env(name: str = ENV_NAME) -> str:
    """Register the environment with Ray under `name`, for every process of a cluster; return it.

    >>> PPOConfig().environment(register_env(), env_config={"rules": "kachuful"})  # doctest: +SKIP
    """
    register_with_tune(name, MultiAgentJudgement)
    return name


# --- the policy -------------------------------------------------------------------------------


class MaskedPolicy(TorchRLModule, ValueFunctionAPI, InferenceOnlyAPI):  # type: ignore[misc]
    """A network for actions and one for values; an illegal action has no chance.

    `model_config` holds `hidden`, the sizes of their hidden layers. Works for every algorithm that
    asks for action logits, and a value function where it needs one (PPO, APPO, IMPALA).
    """

    def setup(self) -> None:
        """Make the networks; the first policy takes every legal action as often as every other."""
        hidden = _sizes(self.model_config["hidden"])
        self.actor = _network(hidden, NUM_ACTIONS)
        self.critic = _network(hidden, 1)
        for parameter in self.actor[-1].parameters():
            nn.init.zeros_(parameter)

    def get_non_inference_attributes(self) -> list[str]:
        """What is left out where actions are only taken."""
        return ["critic"]

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Tensor]:
        seen = batch[Columns.OBS]
        logits = masked(self.actor(seen["observation"].float()), seen["action_mask"])
        return {Columns.ACTION_DIST_INPUTS: logits}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """Return what each observation promises until the episode's end, (B,)."""
        values: Tensor = self.critic(batch[Columns.OBS]["observation"].float())
        return values.squeeze(-1)


def masked(logits: Tensor, mask: Tensor) -> Tensor:
    """Return logits (B, 79) with the least finite number where `mask` is 0.

    A row without a legal action, as every seat's last observation is, stays finite: no log of 0
    and no difference of infinities can make it NaN.
    """
    return logits.masked_fill(mask == 0, torch.finfo(logits.dtype).min)


def _network(hidden: Sequence[int], outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    width = SIZE
    for size in hidden:
        layers += [nn.Linear(width, size), nn.ReLU()]
        width = size
    return nn.Sequential(*layers, nn.Linear(width, outputs))


def policy_spec(hidden: Sequence[int] = (128, 128)) -> RLModuleSpec:
    """Return the RLModuleSpec of a `MaskedPolicy`; the layout it reads is written into it."""
    config = {
        "hidden": list(_sizes(hidden)),
        "layout_hash": layout_hash(),
        "env_version": ENV_VERSION,
    }
    return RLModuleSpec(module_class=MaskedPolicy, model_config=config)


# --- PPO --------------------------------------------------------------------------------------


def ppo_config(
    rules: str | os.PathLike[str] | Rules | Mapping[str, Any] = "kachuful",
    num_players: int | None = None,
    *,
    policies: Sequence[str] = ("shared",),
    train: Sequence[str] | None = None,
    hidden: Sequence[int] = (128, 128),
    seed: int | None = None,
    **env_config: Any,
) -> PPOConfig:
    """Return PPO settings that learn in this game; change them as any PPOConfig.

    policies: one plays all seats; several are a league, the seats dealt out anew each episode.
    train: those of them that learn, None = all.
    hidden: sizes of the hidden layers. seed: of deals, networks and draws.
    env_config: further options of `MultiAgentJudgement`; episodes are single rounds and forced
        decisions skipped unless they say otherwise.
    Raises ValueError naming the argument, its value and what is allowed.
    """
    names = _names("policies", policies)
    learning = names if train is None else _names("train", train, names)
    made = make_rules(rules, num_players)
    options = {"rules": made.to_dict(), "episode": "round", "skip_forced": True, **env_config}
    # Wrong options are refused here, not in a worker.
    MultiAgentJudgement(options)
    spec = MultiRLModuleSpec(rl_module_specs={name: policy_spec(hidden) for name in names})
    config: PPOConfig = (
        PPOConfig()
        .environment(MultiAgentJudgement, env_config=options)
        .framework("torch")
        .debugging(seed=seed)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=32)
        .multi_agent(
            policies=set(names),
            policy_mapping_fn=partial(league_seat, names),
            policies_to_train=list(learning),
        )
        .rl_module(rl_module_spec=spec)
        .training(
            gamma=1.0,
            lambda_=0.95,
            lr=1e-3,
            train_batch_size_per_learner=4096,
            minibatch_size=512,
            num_epochs=4,
            entropy_coeff=0.01,
            # Points of a round are far larger than the bound that is made for rewards near 1.
            vf_clip_param=math.inf,
            # With masks it can be infinite; the clipped ratio does its work.
            use_kl_loss=False,
        )
    )
    return config


def league_seat(names: Sequence[str], agent: str, episode: Any, **kwargs: Any) -> str:
    """Return the policy of an agent in an episode: all take turns, who begins the id decides.

    `functools.partial` with the names makes a policy_mapping_fn of it.
    """
    first = zlib.crc32(str(episode.id_).encode())
    seat = int(agent.rpartition("_")[2])
    return names[(first + seat) % len(names)]


def copy_policy(algorithm: Algorithm, source: str, target: str) -> None:
    """Give policy `target` the weights that `source` has now, in the learners and the runners.

    So one that does not learn becomes a past version of one that does. Raises ValueError where
    the algorithm has no such policy.
    """
    known = sorted(algorithm.config.policies)
    for name in (source, target):
        if name not in known:
            raise ValueError(f"policy: {name!r} (allowed: {', '.join(known)})")
    weights = algorithm.learner_group.get_weights([source])[source]
    algorithm.learner_group.set_weights({target: weights})
    # RLlib's own synchronisation skips runners that have the weights of the last update.
    take = partial(_take_weights, policy=target, weights=weights)
    algorithm.env_runner_group.foreach_env_runner(take)


def _take_weights(runner: Any, policy: str, weights: dict[str, Any]) -> None:
    if runner.module is not None:
        runner.module[policy].set_state(weights)


# --- a checkpoint as a bot --------------------------------------------------------------------


class RLlibBot(PolicyBot):
    """Plays an RLModule that reads this package's observations; see `load_bot`."""

    def __init__(
        self, module: RLModule, name: str = "rllib", greedy: bool = True, seed: int | None = 0
    ) -> None:
        """Play the likeliest action, or draw one (`greedy=False`)."""
        self.name = name
        self.module = module
        self.greedy = _checked_bool("greedy", greedy)
        self.generator = np.random.default_rng(seed)

    def chances(self, raw: Array, masks: Array) -> Array:
        seen = {
            "observation": torch.from_numpy(as_float(raw)),
            "action_mask": torch.from_numpy(masks),
        }
        with torch.no_grad():
            out = self.module.forward_inference({Columns.OBS: seen})
            logits = masked(out[Columns.ACTION_DIST_INPUTS].double(), seen["action_mask"])
            chances: Array = torch.softmax(logits, dim=1).numpy()
        return chances


def load_bot(
    path: str | os.PathLike[str],
    policy: str | None = None,
    *,
    greedy: bool = True,
    seed: int | None = 0,
) -> RLlibBot:
    """Return the bot of a checkpoint: an algorithm's folder, or that of one policy in it.

    policy: which one; needed where an algorithm's checkpoint holds several.
    Reading runs code of the checkpoint (it is pickled): open only what you trust. Raises
    FileNotFoundError where there is no checkpoint, ValueError for a policy it does not hold or one
    made for another observation.
    """
    folder = _policy_folder(Path(path).resolve(), policy)
    module = RLModule.from_checkpoint(str(folder))
    for field, here in (("layout_hash", layout_hash()), ("env_version", ENV_VERSION)):
        found = module.model_config.get(field)
        if found != here:
            raise ValueError(
                f"{folder}: {field} of the policy is {found!r}, of this package {here!r}; train it"
                " again or install the version it was made with"
            )
    module.eval()
    return RLlibBot(module, f"rllib:{folder.name}", greedy, seed)


def _policy_folder(path: Path, policy: str | None) -> Path:
    home = path / MODULES
    if not home.is_dir():
        if (path / MODULE_MARK).is_file() and policy in (None, path.name):
            return path
        raise FileNotFoundError(
            f"{path}: holds neither {MODULES}, as an algorithm's checkpoint does,"
            f" nor {MODULE_MARK}, as a policy's does"
        )
    names = sorted(item.parent.name for item in home.glob(f"*/{MODULE_MARK}"))
    if policy is None and len(names) == 1:
        return home / names[0]
    if policy not in names:
        raise ValueError(f"policy: {policy!r} (allowed: {', '.join(names)})")
    return home / policy


# --- checks -----------------------------------------------------------------------------------


def _checked_bool(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name}: {shown(value)} (allowed: True, False)")
    return value


def _sizes(hidden: Any) -> tuple[int, ...]:
    sizes = tuple(hidden) if isinstance(hidden, list | tuple) else ()
    if not sizes or any(type(size) is not int or size < 1 for size in sizes):
        raise ValueError(f"hidden: {shown(hidden)} (allowed: a list of whole numbers from 1)")
    return sizes


def _names(
    field: str, names: Sequence[str], allowed: Sequence[str] | None = None
) -> tuple[str, ...]:
    given = (names,) if isinstance(names, str) else tuple(names)
    if not given or len(set(given)) < len(given) or not all(isinstance(n, str) for n in given):
        raise ValueError(f"{field}: {shown(names)} (allowed: different names, one at least)")
    for name in given:
        if allowed is not None and name not in allowed:
            raise ValueError(f"{field}: {name!r} (allowed: {', '.join(allowed)})")
    return given
