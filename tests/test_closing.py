"""Closing: twice does nothing, a step then is refused, what was shown stays, reset opens again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest

from judgement_env import Rules, judgement_v0
from judgement_env import seat_batch as seat_batch_module
from judgement_env.gym_env import JudgementVectorEnv
from judgement_env.seat_batch import SeatBatch
from tests.arena_bots import PlaceBot

SMALL = Rules.preset("kachuful", num_players=3, cards=[3, 2, 1])
ID = "judgement_env:Judgement-v0"


class Kind(NamedTuple):
    """An environment, how to take a legal action in it, and the number of the match it plays."""

    make: Callable[[], Any]
    step: Callable[[Any], Any]
    match: Callable[[Any], int]


def sb3_env() -> Any:
    reason = "needs sb3-contrib: pip install 'judgement-env[sb3]'"
    return pytest.importorskip(
        "judgement_env.integrations.sb3", reason=reason, exc_type=ImportError
    ).JudgementVecEnv(SMALL, 2, opponents="random")


def torchrl_env() -> Any:
    reason = "needs torchrl: pip install 'judgement-env[torchrl]'"
    return pytest.importorskip(
        "judgement_env.integrations.torchrl", reason=reason, exc_type=ImportError
    ).JudgementEnv(SMALL, 2)


def tianshou_env() -> Any:
    reason = "needs tianshou: pip install 'judgement-env[tianshou]'"
    return pytest.importorskip(
        "judgement_env.integrations.tianshou", reason=reason, exc_type=ImportError
    ).SeatVectorEnv(SMALL, 2, opponents="random")


def lowest(batch: Any) -> Any:
    return batch.action_mask.argmax(axis=1)


def match_of(env: Any) -> int:
    batch = env.batch if hasattr(env, "batch") else env
    return int(batch.tables["match"][0])


KINDS = {
    "AEC": Kind(
        lambda: judgement_v0.env(SMALL),
        lambda env: env.step(int(env.infos[env.agent_selection]["action_mask"].argmax())),
        lambda env: env.unwrapped.record()["match"],
    ),
    "Gymnasium": Kind(
        lambda: gymnasium.make(ID, rules=SMALL, opponents="random"),
        lambda env: env.step(int(env.unwrapped.action_masks().argmax())),
        lambda env: env.unwrapped.record()["match"],
    ),
    "VectorEnv": Kind(
        lambda: JudgementVectorEnv(2, SMALL, opponents="random"),
        lambda env: env.step(lowest(env.batch)),
        match_of,
    ),
    "SeatBatch": Kind(
        lambda: SeatBatch(SMALL, 2, opponents="random"),
        lambda env: env.step(lowest(env)),
        match_of,
    ),
    "SB3": Kind(sb3_env, lambda env: env.step(lowest(env.batch)), match_of),
    "TorchRL": Kind(torchrl_env, lambda env: env.step(env.rand_action(env.last)), match_of),
    "Tianshou": Kind(tianshou_env, lambda env: env.step(lowest(env.batch)), match_of),
}


def begin(env: Any) -> None:
    """Reset it; TorchRL's steps want what the reset gave."""
    shown = env.reset()
    if type(env).__module__.endswith("torchrl"):
        env.last = shown


@pytest.mark.parametrize("name", KINDS)
def test_closed_tables_refuse_a_step_keep_what_they_showed_and_open_at_reset(name: str) -> None:
    kind = KINDS[name]
    env = kind.make()
    env.close()
    begin(env)
    first = kind.match(env)
    kind.step(env)
    env.close()
    env.close()
    with pytest.raises(RuntimeError, match=r"step: .*reset\(\)"):
        kind.step(env)
    assert kind.match(env) == first
    begin(env)
    # Closing starts nothing over: the next match of the seed is dealt.
    assert kind.match(env) == first + 1
    kind.step(env)
    env.close()


def test_views_and_records_can_be_read_when_tables_are_closed() -> None:
    env = judgement_v0.raw_env(SMALL, render_mode="ansi")
    env.reset(seed=1)
    record, seen, shown = env.record(), env.observe("player_1"), env.render()
    env.close()
    assert env.record() == record and env.render() == shown
    np.testing.assert_array_equal(env.observe("player_1")["observation"], seen["observation"])
    batch = SeatBatch(SMALL, 2, opponents="random", records=True)
    batch.reset()
    record, view = batch.record(1), batch.view(1).to_json()
    batch.close()
    assert batch.record(1) == record and batch.view(1).to_json() == view
    with pytest.raises(RuntimeError, match="reset_tables: these tables are closed"):
        batch.reset_tables(np.array([True, False]))


class Made(PlaceBot):
    """A bot that a text stands for."""

    made: list[Made] = []

    def __init__(self, text: str) -> None:
        super().__init__("lowest")
        self.text = text
        self.num_closed = 0
        self.made.append(self)

    def act_rows(self, rules: Any, tables: Any, rows: Any) -> Any:
        assert not self.num_closed, "a closed bot was asked"
        return super().act_rows(rules, tables, rows)

    def close(self) -> None:
        self.num_closed += 1


@pytest.mark.parametrize("is_pool", [False, True])
def test_bots_made_from_texts_are_closed_and_made_anew(
    is_pool: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seat_batch_module, "make_bot", Made)
    Made.made.clear()
    own = PlaceBot("highest")
    options: dict[str, Any] = {"opponent_pool" if is_pool else "opponents": ["mine", own]}
    batch = SeatBatch(SMALL, 4, **options)
    batch.reset()
    batch.close()
    batch.close()
    assert [bot.num_closed for bot in Made.made] == [1]
    batch.reset()
    batch.step(lowest(batch))
    assert [bot.num_closed for bot in Made.made] == [1, 0]
    assert set(batch.opponents) == {Made.made[1], own}
    batch.close()
    batch.set_opponents("other")
    batch.reset()
    batch.step(lowest(batch))
    assert [(bot.text, bot.num_closed) for bot in Made.made] == [
        ("mine", 1), ("mine", 1), ("other", 0),
    ]  # fmt: skip
    assert batch.opponents == (Made.made[2],)
    batch.close()
    assert Made.made[2].num_closed == 1


def test_a_closed_vector_env_closes_again_after_it_was_opened() -> None:
    envs = JudgementVectorEnv(2, SMALL, opponents="random")
    envs.reset(seed=1)
    envs.close()
    assert envs.closed
    envs.reset()
    assert not envs.closed
    envs.close()
    with pytest.raises(RuntimeError, match="step: these tables are closed"):
        envs.step([0, 0])
