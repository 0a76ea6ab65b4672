"""The shipped checks pass what is right, and find every fault that is planted here."""

from __future__ import annotations

import copy
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from pettingzoo.utils import BaseWrapper

from judgement_env import PRESETS, BatchEnv, Rules, Table, judgement_v0, make_bot
from judgement_env.bots import Bot, HeuristicBot
from judgement_env.cli import main
from judgement_env.contract import other_world, positions, rule_sets, world_of
from judgement_env.gym_env import JudgementEnv
from judgement_env.state import Array
from judgement_env.testing import ContractError, check_bot, check_env, load_bot
from judgement_env.view import View

ROOT = Path(__file__).resolve().parent.parent
# A blind round, a hook, three players.
SMALL = Rules(num_players=3, cards=[3, 1, 2], blind_rounds=[2])
FEW = [SMALL, Rules.preset("kachuful"), Rules(num_players=3, cards=[2], packs=2, trumps="turn-up")]


def found(error: pytest.ExceptionInfo[ContractError]) -> str:
    return error.value.sentence


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


# --- bots -------------------------------------------------------------------------------------


class Lowest:
    """The least that is a bot: a method act."""

    def act(self, view: View) -> int:
        return min(view.legal)


def example_command() -> str:
    return f"process:{sys.executable} {ROOT / 'docs' / 'examples' / 'example_bot.py'}"


@pytest.mark.parametrize("spec", ["random", "heuristic", "models/kachuful", "process"])
def test_every_bot_of_the_package_keeps_its_contract(spec: str) -> None:
    sentences = check_bot(example_command() if spec == "process" else spec, rules=FEW)
    assert len(sentences) == 14 and "views" in sentences[-1]


@pytest.mark.slow
def test_the_heuristic_keeps_its_contract_under_all_rules() -> None:
    assert len(check_bot("heuristic", positions=16)) == 14


def test_anything_with_act_is_checked() -> None:
    assert len(check_bot(Lowest(), rules=FEW)) == 14
    assert len(check_bot(HeuristicBot(), rules=SMALL)) == 14


def test_a_bot_that_draws_by_lot_without_a_policy_says_so() -> None:
    class Drawing(Lowest):
        def act(self, view: View) -> int:
            return random.choice(view.legal)

    with pytest.raises(ContractError, match="not deterministic"):
        check_bot(Drawing(), rules=FEW)
    assert check_bot(Drawing(), rules=FEW, deterministic=False)


class Hookless(Lowest):
    """Bids what the hook forbids."""

    def act(self, view: View) -> int:
        return min(view.legal) if view.forbidden_bid == -1 else 52 + view.forbidden_bid


class Floating(Lowest):
    def act(self, view: View) -> Any:
        return float(min(view.legal))


class Speechless(Lowest):
    def act(self, view: View) -> Any:
        return min(view.legal) if view.is_bidding else None


class Failing(Lowest):
    """Expects cards where a blind round shows none."""

    def act(self, view: View) -> int:
        return min(view.legal) if view.hand[0] >= 0 else 0


class Stateful(Lowest):
    """Remembers what it did the last time."""

    calls = 0

    def act(self, view: View) -> int:
        self.calls += 1
        return view.legal[self.calls % len(view.legal)]


class Remembering(Lowest):
    """Keeps a hand by round and moment, and so mixes up matches."""

    def __init__(self) -> None:
        self.first: dict[Any, int] = {}
        self.last: Any = None

    def act(self, view: View) -> int:
        # The same view twice in a row gets the same answer.
        if view.to_json() == self.last:
            return self.answer
        self.last = view.to_json()
        key = (view.round_index, view.seat, view.is_bidding)
        self.first[key] = self.first.get(key, 0) + 1
        self.answer = view.legal[self.first[key] % len(view.legal)]
        return self.answer


class Writing(Lowest):
    """Marks in the view what it has thought of."""

    def act(self, view: View) -> int:
        view.tables_array["total"][0, 0] += 1
        return min(view.legal)


class Bidding(Lowest):
    """Writes to rules that others share."""

    def act(self, view: View) -> int:
        view.rules_array["has_hook"][0] = 7
        return min(view.legal)


class ShortPolicy(Lowest):
    def policy(self, view: View) -> Array:
        policy = np.zeros(79)
        policy[list(view.legal)] = 0.9 / len(view.legal)
        return policy


class WidePolicy(Lowest):
    def policy(self, view: View) -> Array:
        return np.full(79, 1 / 79)


class OtherPolicy(Lowest):
    """Its policy never does what it does."""

    def policy(self, view: View) -> Array:
        policy = np.zeros(79)
        policy[max(view.legal)] = 1
        return policy


class Rows(HeuristicBot):
    """The heuristic with a fault in its rows to come."""


class OtherRows(Rows):
    def act(self, view: View) -> int:
        return min(view.legal)


class PeekingRows(Rows):
    """Counts the cards of the next seat."""

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        actions = super().act_rows(rules, tables, rows)
        for j, row in enumerate(rows):
            t = tables[row]
            seat = (int(t["seat"]) + 1) % 3
            if t["phase"] == 0 and int(t["hand"][seat, 0]) % 3:
                actions[j] = 52 + (actions[j] == 52)
        return actions


class WritingRows(Rows):
    def act(self, view: View) -> int:
        return HeuristicBot().act(view)

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        actions = super().act_rows(rules, tables, rows)
        tables["voids"][rows] = 15
        return actions


class ShapelessRows(Rows):
    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        return super().act_rows(rules, tables, rows).astype(np.float64)

    def act(self, view: View) -> int:
        return int(super().act(view))


class NeighbourRows(Rows):
    """The answer in one row changes with the number of rows."""

    def act(self, view: View) -> int:
        return int(super().act_rows(view.rules_array, view.tables_array, np.zeros(1, np.int64))[0])

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        actions = super().act_rows(rules, tables, rows)
        return actions if len(rows) == len(tables) and rows[0] == 0 else np.roll(actions, 1)


class Greedy(Lowest):
    """Spoils the record it is shown."""

    def match_over(self, record: dict[str, Any]) -> None:
        record["totals"][0] += 1


class Learning(Lowest):
    """Plays another way after a match."""

    place = 0

    def act(self, view: View) -> int:
        return view.legal[self.place]

    def match_over(self, record: dict[str, Any]) -> None:
        self.place = -1


class Unclosable(Lowest):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class Nameless(Bot):
    name = ""

    def act(self, view: View) -> int:
        return min(view.legal)


BOT_FAULTS: dict[type[Any], str] = {
    Nameless: "It has a name",
    Hookless: "Its answer is legal",
    Floating: "It answers every view",
    Speechless: "It answers every view",
    Failing: "It answers every view",
    Stateful: "It gives the same view the same answer",
    Remembering: "It gives the same view the same answer",
    Writing: "It leaves the view as it was",
    Bidding: "It leaves the view as it was",
    ShortPolicy: "Its policy",
    WidePolicy: "Its policy",
    OtherPolicy: "Its policy",
    OtherRows: "act_rows, where it has it, answers on the whole table",
    PeekingRows: "act_rows, where it has it, answers on the whole table",
    WritingRows: "act_rows, where it has it, answers whole numbers",
    ShapelessRows: "act_rows, where it has it, answers whole numbers",
    NeighbourRows: "act_rows, where it has it, answers each row for itself",
    Greedy: "It takes the record",
    Learning: "It takes the record",
    Unclosable: "It closes",
}


@pytest.mark.parametrize("bot", BOT_FAULTS, ids=lambda bot: bot.__name__)
def test_a_fault_planted_in_a_bot_is_found(bot: type[Any]) -> None:
    with pytest.raises(ContractError) as error:
        check_bot(bot(), rules=FEW, positions=20)
    assert found(error).startswith(BOT_FAULTS[bot]), error.value


def test_an_error_carries_the_match_up_to_the_position() -> None:
    with pytest.raises(ContractError) as error:
        check_bot(Hookless(), rules=FEW)
    assert error.value.record is not None
    table = Table.from_record(error.value.record)
    assert f"decision {table.decisions}, seat {table.seat}" in error.value.place
    assert Hookless().act(table.view(table.seat or 0)) not in table.legal()
    assert str(error.value).startswith("does not hold: Its answer is legal")


def test_what_has_no_act_is_no_bot() -> None:
    with pytest.raises(ValueError, match=r"bot: .*method act\(view\)"):
        check_bot(object())


# --- positions and worlds ---------------------------------------------------------------------


def test_positions_cover_every_preset_at_every_number_of_players() -> None:
    rules = rule_sets()
    assert len(set(rules)) == len(rules)
    for name, preset in PRESETS.items():
        low, high = preset.player_range
        for number in range(low, high + 1):
            assert preset.replace(num_players=number) in rules, name
    kinds = {(r.packs, r.is_simultaneous, r.is_turn_up, bool(r.blind_rounds)) for r in rules}
    assert len(kinds) >= 6


def test_positions_hold_bids_and_plays_of_each_of_the_rules() -> None:
    found = list(positions(FEW, seed=3, number=8))
    assert 3 * 6 <= len(found) <= 3 * 10
    for rules in FEW:
        views = [p.view for p in found if p.table.rules == rules]
        assert {view.is_bidding for view in views} == {True, False}
        assert all(view.seat_to_act == view.seat for view in views)


@pytest.mark.parametrize("index", range(len(rule_sets())))
def test_another_world_looks_the_same_and_is_another(index: int) -> None:
    rng = random.Random(index)
    changed = 0
    for position in positions(rule_sets()[index : index + 1], seed=index, number=6):
        table = position.table
        for seat in range(table.rules.num_players):
            world = other_world(table, seat, rng)
            other = Table(
                table.rules, seed=99, dealer=world.dealer, deals=world.deals,
                turn_ups=world.turn_ups,
            )  # fmt: skip
            for action in world.actions:
                other.push(action)
            assert other.view(seat).to_json() == table.view(seat).to_json()
            changed += world != world_of(table)
    assert changed


# --- the command ------------------------------------------------------------------------------


def test_the_command_prints_the_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "heuristic", "--rules=kachuful", "--cards=3,2", "--positions=4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 14 and all(line.startswith("ok  ") for line in lines)


def test_the_command_checks_a_class_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "class Mine:\n    def act(self, view):\n        return view.legal[0]\n"
        "class Broken:\n    def act(self, view):\n        return 52\n",
        encoding="utf-8",
    )
    assert main(["check", f"{path}:Mine", "--cards=2"]) == 0
    assert main(["check", f"{path}:Broken", "--cards=2"]) == 1
    assert "does not hold: Its answer is legal" in capsys.readouterr().out
    assert main(["check", f"{path}:Other"]) == 2
    assert "no class or function 'Other'" in capsys.readouterr().err
    assert load_bot("models/kachuful") == "models/kachuful"


def test_the_examples_of_the_docs_run() -> None:
    for page in ("bots.md", "environment.md"):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        section = text.partition("## Check your ")[2].partition("\n## ")[0]
        example = section.partition("```python\n")[2].partition("```")[0]
        assert "check_" in example
        done = subprocess.run(
            [sys.executable, "-c", example], capture_output=True, text=True, cwd=ROOT, timeout=600
        )
        assert done.returncode == 0, done.stderr


def test_make_bot_twice_gives_the_same_answers() -> None:
    views = [position.view for position in positions(FEW, seed=5, number=8)]
    first, second = [[int(bot.act(v)) for v in views] for bot in map(make_bot, ["random"] * 2)]
    assert first == second
