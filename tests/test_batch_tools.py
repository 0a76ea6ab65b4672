"""BatchEnv: arrays of the caller, threads, seeds and rules per table, saved positions."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from judgement_env import BatchEnv, Rules, Table
from judgement_env.cards import NUM_ACTIONS
from judgement_env.observation import ORACLE_SIZE, SIZE
from tests.test_batch import assert_same, random_actions, shown


def play(batch: BatchEnv, steps: int, seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        batch.step(random_actions(batch, rng))


def buffers_for(num_tables: int, dtype: Any = np.float32) -> dict[str, Any]:
    return {
        "observation": np.full((num_tables, SIZE), 7, dtype),
        "action_mask": np.full((num_tables, NUM_ACTIONS), 7, np.int8),
        "seat": np.full(num_tables, 7, np.int32),
        "reward": np.full((num_tables, 4), 7, np.float32),
        "done": np.ones(num_tables, np.bool_),
        "oracle": np.full((num_tables, ORACLE_SIZE), 7, dtype),
    }


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_the_caller_s_arrays_are_written_in_place(dtype: str) -> None:
    own = buffers_for(5, np.dtype(dtype))
    batch = BatchEnv(num_tables=5, seed=3, dtype=dtype, oracle=True, buffers=own)
    fresh = BatchEnv(num_tables=5, seed=3, dtype=dtype, oracle=True)
    for one in (batch, fresh):
        one.reset()
        play(one, 200)
    for name, buffer in own.items():
        assert getattr(batch, name) is buffer
        assert np.array_equal(buffer, getattr(fresh, name)), name


def test_some_arrays_may_be_the_caller_s() -> None:
    mask = np.zeros((3, NUM_ACTIONS), np.int8)
    batch = BatchEnv(num_tables=3, buffers={"action_mask": mask})
    batch.reset()
    observation = batch.observation
    play(batch, 3)
    assert batch.action_mask is mask
    assert batch.observation is observation
    assert mask.sum(axis=1).min() > 0


@pytest.mark.parametrize(
    ("name", "buffer", "words"),
    [
        ("mask", np.zeros(3), "buffers: 'mask' .allowed: observation, action_mask, seat"),
        ("oracle", np.zeros((3, ORACLE_SIZE)), "buffers: 'oracle'"),
        ("seat", [0, 0, 0], r"buffers\['seat'\]: list .allowed: an array"),
        ("seat", np.zeros(3, np.int64), r"buffers\['seat'\]: shape \(3,\), dtype int64"),
        ("done", np.zeros(4, np.bool_), r"shape \(4,\), dtype bool .allowed: \(3,\), bool"),
        ("reward", np.zeros((4, 3), np.float32).T, "not writeable memory in C order"),
        ("done", np.broadcast_to(np.False_, (3,)), "not writeable memory in C order"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name: str, buffer: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        BatchEnv(num_tables=3, buffers={name: buffer})


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_any_number_of_threads_plays_the_same(threads: int, dtype: str) -> None:
    options: dict[str, Any] = {"num_tables": 7, "seed": 5, "dtype": dtype, "oracle": True}
    options |= {"skip_forced": True, "rules": ["kachuful", "oh-hell"]}
    alone, many = BatchEnv(**options), BatchEnv(**options, threads=threads)
    rng = np.random.default_rng(0)
    for batch in (alone, many):
        batch.reset()
    for _ in range(150):
        actions = random_actions(alone, rng)
        alone.step(actions)
        many.step(actions)
        assert_same(shown(alone), shown(many))
        assert np.array_equal(alone.oracle, many.oracle)


def test_an_illegal_action_in_a_late_block_changes_nothing_in_an_early_one() -> None:
    batch = BatchEnv(num_tables=7, seed=5, threads=3)
    batch.reset()
    before = shown(batch)
    actions = batch.action_mask.argmax(axis=1)
    actions[6] = 3
    with pytest.raises(ValueError, match="table 6, seat "):
        batch.step(actions)
    assert_same(before, shown(batch))


def test_threads_say_nothing_where_kernels_are_not_compiled() -> None:
    program = (
        "from judgement_env import BatchEnv\n"
        "batch = BatchEnv(num_tables=4, threads=2, dtype='uint8')\n"
        "batch.reset()\n"
        "for _ in range(3):\n"
        "    batch.step(batch.action_mask.argmax(axis=1))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_before_the_first_reset_nothing_is_shown() -> None:
    batch = BatchEnv(num_tables=2, oracle=True)
    for name in ("observation", "action_mask", "reward", "done", "oracle"):
        assert not getattr(batch, name).any()
    assert batch.seat.tolist() == [-1, -1]


def test_a_batch_with_threads_pickles_and_goes_on_alike() -> None:
    batch = BatchEnv(num_tables=5, threads=2)
    batch.reset()
    play(batch, 20)
    again = pickle.loads(pickle.dumps(batch))
    for one in (batch, again):
        play(one, 50)
    assert_same(shown(batch), shown(again))


def test_each_table_may_have_a_seed_of_its_own() -> None:
    seeds = [9, 4, 9]
    batch = BatchEnv("kachuful", num_tables=3, seed=seeds)
    batch.reset()
    assert batch.seed == seeds
    for i, seed in enumerate(seeds):
        table = Table("kachuful", seed=seed)
        assert batch.seat[i] == table.seat
        assert np.array_equal(batch.observation[i], table.view(table.seat).observation())
    batch.reset(seed=[4, 4, 4])
    assert np.array_equal(batch.observation[0], batch.observation[2])
    with pytest.raises(ValueError, match="seed: 2 seeds .allowed: one, or 3"):
        batch.reset(seed=[1, 2])
    with pytest.raises(ValueError, match="seed: -1"):
        BatchEnv(num_tables=2, seed=[1, -1])


def test_each_table_may_be_given_its_rules() -> None:
    short = Rules.preset("kachuful", cards=[1])
    long = Rules.preset("kachuful", cards=[9, 8])
    batch = BatchEnv([short, long], num_tables=4, rules_of=[1, 1, 0, 1])
    batch.reset()
    assert batch.tables["cards"].tolist() == [9, 9, 1, 9]
    play(batch, 3)
    before = batch.tables.copy()
    batch.restart([0, 2], rules_of=[0, 1])
    assert batch.tables["cards"].tolist() == [1, 9, 9, 9]
    assert batch.tables["match"].tolist() == [1, 0, before["match"][2] + 1, 0]
    assert np.array_equal(batch.tables[[1, 3]], before[[1, 3]])
    # An illegal action is told by the rules the table plays by now.
    with pytest.raises(ValueError, match="table 0, .*legal: bid 0, bid 1|table 0"):
        batch.step(np.array([52 + 9, *batch.action_mask[1:].argmax(axis=1)]))
    for wrong in ([0, 2], [0], [0.5, 1.0]):
        with pytest.raises(ValueError, match="rules_of: .*allowed: 2 indices from 0 to 1"):
            batch.restart([0, 1], rules_of=wrong)


def test_a_saved_position_is_gone_back_to_exactly() -> None:
    batch = BatchEnv("oh-hell", num_tables=6, seed=2, dtype="uint8")
    batch.reset()
    play(batch, 25)
    saved, before = batch.save([1, 4]), shown(batch)
    play(batch, 40, seed=3)
    others = shown(batch)
    batch.restore(saved, [1, 4])
    for name in ("observation", "action_mask", "seat"):
        now = getattr(batch, name)
        assert np.array_equal(now[[1, 4]], before[name][[1, 4]])
        assert np.array_equal(now[[0, 2, 3, 5]], others[name][[0, 2, 3, 5]])
    assert batch.reward[[1, 4]].sum() == 0
    assert not batch.done[[1, 4]].any()
    # From equal positions equal actions lead to equal ones, deals to come included.
    batch.restore(batch.save([4]))
    play(batch, 1)
    for _ in range(60):
        batch.step(np.full(6, batch.action_mask[0].argmax()))
    assert len(np.unique(batch.observation, axis=0)) == 1


def test_restart_chooses_tables_by_truth_values_too() -> None:
    batch = BatchEnv(num_tables=3)
    batch.reset()
    play(batch, 4)
    batch.restart(np.array([True, False, False]))
    assert batch.tables["match"].tolist() == [1, 0, 0]
    assert batch.tables["num_bids"].tolist()[0] == 0


@pytest.mark.parametrize("which", [[3], [-1], [[0]], [0.5], [True, False]])
def test_tables_that_do_not_exist_are_named(which: Any) -> None:
    batch = BatchEnv(num_tables=3)
    batch.reset()
    with pytest.raises(ValueError, match="which: .*3 truth values, or indices from 0 to 2"):
        batch.save(which)


def test_positions_of_another_shape_are_refused() -> None:
    batch = BatchEnv(num_tables=3)
    batch.reset()
    with pytest.raises(ValueError, match=r"saved: shape \(2,\)"):
        batch.restore(batch.save([0, 1]))
    with pytest.raises(ValueError, match="saved: shape"):
        batch.restore(np.zeros(3))


def test_positions_of_other_rules_are_refused() -> None:
    batch = BatchEnv("kachuful", num_tables=2)
    mixed = BatchEnv(["kachuful", "oh-hell"], num_tables=2)
    others = [
        BatchEnv(Rules.preset("kachuful", cards=[3]), num_tables=2),
        BatchEnv("kachuful", num_tables=2, rules_of=[0, 0], seed=1, episode="round"),
        BatchEnv(Rules.preset("kachuful", num_players=3), num_tables=2),
        BatchEnv(Rules.preset("kachuful", trumps=["H"]), num_tables=2),
        BatchEnv("oh-hell", num_tables=2),
    ]
    for one in (batch, mixed, *others):
        one.reset()
    saved = batch.save([1])
    for other in (others[0], *others[2:]):
        with pytest.raises(ValueError, match="saved: table 0 is of other rules than this batch"):
            other.restore(saved, [1])
    with pytest.raises(ValueError, match="saved: table 1 is of other rules"):
        batch.restore(mixed.save())
    # Single rounds of the same rules do fit.
    batch.restore(others[1].save())
    play(batch, 20)


def test_arrays_that_overlap_are_refused() -> None:
    whole = np.zeros(8, np.int32)
    with pytest.raises(ValueError, match="buffers: 'seat' and 'reward' share memory"):
        BatchEnv(
            num_tables=1, buffers={"seat": whole[:1], "reward": whole.view(np.float32)[:4][None]}
        )
    with pytest.raises(ValueError, match="buffers: list .allowed: arrays by name"):
        BatchEnv(buffers=[whole])  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["save", "restart", "restore"])
def test_nothing_is_saved_before_the_first_reset(method: str) -> None:
    batch = BatchEnv(num_tables=2)
    arguments = {"save": (), "restart": ([0],), "restore": (batch.tables,)}[method]
    with pytest.raises(RuntimeError, match=f"{method}: call reset"):
        getattr(batch, method)(*arguments)


def test_the_rounds_drawn_can_be_changed_on_the_way() -> None:
    batch = BatchEnv("kachuful", num_tables=40, episode="round")
    batch.set_round_weights([0, 0, 0, 0, 0, 0, 1])
    batch.reset()
    assert set(batch.tables["cards"].tolist()) == {1}
    batch.set_round_weights([1, 0, 0, 0, 0, 0, 0])
    batch.reset()
    assert set(batch.tables["cards"].tolist()) == {7}
    batch.set_round_weights(None)
    batch.reset()
    assert len(set(batch.tables["cards"].tolist())) > 3
    with pytest.raises(ValueError, match="round_weights: given with episode 'match'"):
        BatchEnv().set_round_weights([1])


@pytest.mark.parametrize("threads", [0, 1.5, "two"])
def test_a_wrong_number_of_threads_is_refused(threads: Any) -> None:
    with pytest.raises(ValueError, match="threads: .*allowed: a whole number from 1"):
        BatchEnv(threads=threads)
