"""check_env passes what is right, and finds every fault that is planted here."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from pettingzoo.utils import BaseWrapper

from judgement_env import BatchEnv, Rules, judgement_v0
from judgement_env.gym_env import JudgementEnv
from judgement_env.state import Array
from judgement_env.testing import ContractError, check_env
from tests.contracts import SMALL, found

# --- environments -----------------------------------------------------------------------------

ENVS: dict[str, Callable[[], Any]] = {
    "env": lambda: judgement_v0.env(SMALL),
    "raw, relative": lambda: judgement_v0.raw_env(
        SMALL, reward="relative", illegal_action="random"
    ),
    "win, end": lambda: judgement_v0.env(SMALL, reward="win", illegal_action="end"),
    "rounds": lambda: judgement_v0.env(SMALL, episode="round"),
    "fingers, two packs, turned up": lambda: judgement_v0.env(
        Rules(num_players=3, cards=[3, 2], packs=2, trumps="turn-up", hook=False)
        .replace(bidding="simultaneous")
    ),
    "wrapped": lambda: BaseWrapper(judgement_v0.env(SMALL)),
    "batch": lambda: BatchEnv(SMALL, num_tables=2),
    "batch of two rules": lambda: BatchEnv(
        [SMALL, "kachuful"], num_tables=3, dtype="uint8", skip_forced=True
    ),
    "batch of rounds": lambda: BatchEnv(SMALL, num_tables=2, episode="round", copy=False),
    "gymnasium": lambda: JudgementEnv(SMALL, opponents="heuristic"),
    "gymnasium, raise": lambda: JudgementEnv(SMALL, seat=1, illegal_action="raise"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENVS)
def test_every_environment_keeps_its_contract(name: str) -> None:
    sentences = check_env(ENVS[name]())
    assert len(sentences) == len(set(sentences)) >= 8


def test_check_env_tells_each_sentence_as_soon_as_it_holds() -> None:
    told: list[str] = []
    assert check_env(BatchEnv(SMALL), report=told.append) == told


class Wrong(BaseWrapper):
    """A wrapper to plant faults in."""


class AllOnes(Wrong):
    def observe(self, agent: str) -> Any:
        return {**super().observe(agent), "action_mask": np.ones(79, np.int8)}


class MaskForAll(Wrong):
    """Shows the mask of the seat to act to everyone."""

    def observe(self, agent: str) -> Any:
        mask = super().observe(self.agent_selection)["action_mask"]
        return {**super().observe(agent), "action_mask": mask}


class Peeking(Wrong):
    """Gives a player the next one's hand."""

    def observe(self, agent: str) -> Any:
        seen = super().observe(agent)
        seat = (int(agent[-1]) + 1) % 3
        hand = int(self.unwrapped.table.tables_array["hand"][0][seat][0])
        seen["observation"][701] = (hand % 1009) / 1009
        return seen


class TenthRewards(Wrong):
    def step(self, action: Any) -> None:
        super().step(action)
        for agent in self.unwrapped.rewards:
            self.unwrapped.rewards[agent] /= 10


class OwnRewardsOnly(Wrong):
    """The points of the round go to the seat that played last only."""

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        super().step(action)
        for other in self.unwrapped.rewards:
            if other != agent:
                self.unwrapped.rewards[other] = 0.0
                self.unwrapped._cumulative_rewards[other] = 0.0


class LateRewards(Wrong):
    """Adds up rightly, one step late."""

    def reset(self, seed: Any = None, options: Any = None) -> None:
        self.late = dict.fromkeys(self.possible_agents, 0.0)
        super().reset(seed, options)

    def step(self, action: Any) -> None:
        for agent in self.unwrapped.rewards:
            self.unwrapped.rewards[agent] = 0.0
        super().step(action)
        if action is not None and not all(self.terminations.values()):
            rewards = self.unwrapped.rewards
            for agent, due in list(self.late.items()):
                self.late[agent], rewards[agent] = rewards[agent], due
        elif action is not None:
            for agent, due in self.late.items():
                self.unwrapped.rewards[agent] += due


class Reusing(Wrong):
    """Writes every observation into the same array."""

    buffer = np.zeros(894, np.float32)

    def observe(self, agent: str) -> Any:
        seen = super().observe(agent)
        self.buffer[:] = seen["observation"]
        return {**seen, "observation": self.buffer}


class Restarting(Wrong):
    """Copies as a new match of the same arguments, as EzPickle does."""

    def __deepcopy__(self, memo: Any) -> Any:
        twin = Restarting(judgement_v0.env(SMALL))
        twin.reset(seed=0)
        return twin


class Restoring(Wrong):
    """Pickles as a new match of the same arguments."""

    def __deepcopy__(self, memo: Any) -> Any:
        return Restoring(copy.deepcopy(self.env))

    def __reduce__(self) -> Any:
        return restored, ()


def restored() -> Any:
    twin = Restoring(judgement_v0.env(SMALL))
    twin.reset(seed=0)
    return twin


class Seedless(Wrong):
    calls = 0

    def reset(self, seed: Any = None, options: Any = None) -> None:
        Seedless.calls += 1
        super().reset(None if seed is None else seed + Seedless.calls, options)


class OptionsLost(Wrong):
    def reset(self, seed: Any = None, options: Any = None) -> None:
        super().reset(seed)


class Forgiving(Wrong):
    """Plays a legal action where an illegal one should raise."""

    def step(self, action: Any) -> None:
        legal = self.unwrapped.table.legal()
        super().step(action if action is None or action in legal else legal[0])


class Counting(Wrong):
    """Shows how often it was looked at."""

    looks = 0

    def observe(self, agent: str) -> Any:
        seen = super().observe(agent)
        self.looks = (self.looks + 1) % 100
        seen["observation"][0] = self.looks / 100
        return seen


class Wide(Wrong):
    def observe(self, agent: str) -> Any:
        seen = super().observe(agent)
        return {**seen, "observation": seen["observation"].astype(np.float64)}


class Truncating(Wrong):
    def step(self, action: Any) -> None:
        super().step(action)
        if self.unwrapped.table.decisions == 5:
            self.unwrapped.truncations["player_0"] = True


class Doubling(Wrong):
    """Plays forced actions by itself, so the next agent is another one."""

    def step(self, action: Any) -> None:
        super().step(action)
        table = self.unwrapped.table
        while not table.is_over and len(table.legal()) == 1:
            super().step(table.legal()[0])


ENV_FAULTS: dict[type[Wrong], str] = {
    AllOnes: "The mask of the seat to act",
    MaskForAll: "The mask of the seat to act",
    Peeking: "No agent is shown a card",
    TenthRewards: "Rewards add up",
    OwnRewardsOnly: "Rewards add up",
    LateRewards: "Each round's rewards come to all seats with the step",
    Reusing: "What was handed out stays",
    Restarting: "A deepcopy goes on",
    Restoring: "A pickle goes on",
    Seedless: "The same seed gives the same match",
    OptionsLost: "No agent is shown a card",
    Forgiving: "An illegal action does",
    Counting: "Looking changes nothing",
    Wide: "What it shows and takes is in its spaces",
    Truncating: "All agents terminate together",
    Doubling: "Its agents are player_0",
}


@pytest.mark.parametrize("wrapper", ENV_FAULTS, ids=lambda wrapper: wrapper.__name__)
def test_a_fault_planted_in_a_wrapper_is_found(wrapper: type[Wrong]) -> None:
    env = wrapper(judgement_v0.env(SMALL))
    with pytest.raises(ContractError) as error:
        check_env(env)
    assert found(error).startswith(ENV_FAULTS[wrapper]), error.value
    assert "seed" in error.value.place and error.value.seen


def test_a_check_can_be_left_out_by_name() -> None:
    env = TenthRewards(judgement_v0.env(SMALL))
    kept = check_env(env, skip=["rewards", "when-rewarded", "seeded"])
    assert not any(sentence.startswith("Rewards add up") for sentence in kept)
    with pytest.raises(ValueError, match=r"skip: 'reward' .*did you mean 'rewards'"):
        check_env(env, skip=["reward"])
    with pytest.raises(ValueError, match=r"^skip: 'rewards' \(allowed: a list of names, \['rew"):
        check_env(env, skip="rewards")


class BatchFault:
    """A wrapper of a batch that shows it with one fault."""

    def __init__(self, fault: str) -> None:
        self.unwrapped = BatchEnv(SMALL, num_tables=3)
        self.fault = fault

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "unwrapped" not in vars(self):
            raise AttributeError(name)
        return getattr(self.unwrapped, name)

    def reset(self, seed: int | None = None) -> None:
        self.unwrapped.reset(None if self.fault == "seedless" else seed)

    def step(self, actions: Any) -> None:
        if self.fault == "forgiving":
            legal = self.unwrapped.action_mask.argmax(axis=1)
            rows = np.arange(3)
            taken = np.clip(actions, 0, 78)
            actions = np.where(self.unwrapped.action_mask[rows, taken], actions, legal)
        self.unwrapped.step(actions)

    @property
    def action_mask(self) -> Array:
        mask = self.unwrapped.action_mask.copy()
        if self.fault == "mask":
            mask[2, 78] = 1
        return mask

    @property
    def reward(self) -> Array:
        return self.unwrapped.reward * (0.5 if self.fault == "reward" else 1)

    @property
    def observation(self) -> Array:
        seen = self.unwrapped.observation.copy()
        if self.fault == "observation":
            seen[1] += self.unwrapped.tables["hand"][1, 0, 0] % 7
        return seen

    def __deepcopy__(self, memo: Any) -> Any:
        twin = BatchFault(self.fault)
        twin.unwrapped = copy.deepcopy(self.unwrapped)
        if self.fault == "copy":
            twin.unwrapped.reset(seed=0)
        return twin


BATCH_FAULTS = {
    "mask": "Each mask is the legal actions",
    "reward": "Rewards add up",
    "observation": "Each observation is what the seat to act may know",
    "seedless": "Rewards add up",
    "copy": "A deepcopy goes on",
    "forgiving": "An illegal action raises",
}


@pytest.mark.parametrize("fault", BATCH_FAULTS)
def test_a_fault_planted_in_a_batch_is_found(fault: str) -> None:
    with pytest.raises(ContractError) as error:
        check_env(BatchFault(fault))
    assert found(error).startswith(BATCH_FAULTS[fault]), error.value


class NoMask(gymnasium.Wrapper[Any, Any, Any, Any]):
    def reset(self, **kwargs: Any) -> Any:
        return super().reset(**kwargs)[0], {}


class HalfReward(gymnasium.RewardWrapper[Any, Any]):
    def reward(self, reward: Any) -> Any:
        return reward / 2


@pytest.mark.parametrize(
    ("wrapper", "sentence"),
    [(NoMask, "info['action_mask'] is"), (HalfReward, "Rewards come to what the seat")],
)
def test_a_fault_planted_in_a_gymnasium_wrapper_is_found(wrapper: Any, sentence: str) -> None:
    with pytest.raises(ContractError) as error:
        check_env(wrapper(JudgementEnv(SMALL, opponents="random")))
    assert found(error).startswith(sentence), error.value


def test_something_else_is_no_environment() -> None:
    with pytest.raises(ValueError, match=r"env: .* \(allowed: judgement_v0.env\(\)"):
        check_env(gymnasium.Env())
