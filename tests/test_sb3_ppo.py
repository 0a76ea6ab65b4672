"""The training program on sb3-contrib: it stops, goes on, exports, and learns."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sb3_contrib", reason="needs sb3-contrib: pip install 'judgement-env[sb3]'")

import torch

from judgement_env import Rules, Table, make_bot
from judgement_env.arena import one_versus_field
from judgement_env.bots.neural import NeuralBot
from judgement_env.bots.policy import PolicyNetwork
from judgement_env.bots.simple import RandomBot
from judgement_env.integrations.sb3 import JudgementVecEnv, Sb3Bot, policy_weights
from tests.runs import StopAfter, copied, finished_run, metrics_of
from training import program, sb3_ppo
from training.checkpoint import load_checkpoint
from training.config import Config
from training.evaluate import load_candidate
from training.export import actor_weights, export
from training.sb3_ppo import Sb3Config, export_model, main, make_model, seat_opponents, train
from training.train import train as train_train

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")
ROOT = Path(__file__).resolve().parent.parent
# Four batches of 8 tables and 16 decisions.
TINY = Sb3Config(
    name="tiny",
    decisions=512,
    tables=8,
    steps=16,
    hidden=(12,),
    critic_hidden=(10,),
    minibatch=64,
    epochs=1,
    rules={"preset": "kachuful", "num_players": 3, "cards": [2, 1, 3]},
    opponents=["random", "heuristic"],
    past_every=128,
    past_kept=2,
    evaluate_matches=0,
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that reached its limit."""
    return finished_run(train, TINY, "python -m training.sb3_ppo own.yaml", tmp_path_factory)


# --- running ----------------------------------------------------------------------------------


def test_a_run_logs_every_batch_and_keeps_its_latest_selves(finished: Path) -> None:
    rows = metrics_of(finished)
    assert [row["decisions"] for row in rows] == ["128", "256", "384", "512"]
    assert [row["past_selves"] for row in rows] == ["1", "2", "2", "2"]
    assert {"train/approx_kl", "train/value_loss", "points"} <= set(rows[0])
    assert [float(row["learning_rate"]) for row in rows] == [0.001, 0.00075, 0.0005, 0.00025]
    saved = load_checkpoint(finished / "checkpoint.pt")
    assert len(saved["past"]) == 2 and saved["past_at"] == 512
    latest, before = saved["past"][1], saved["past"][0]
    assert all(torch.equal(latest[name], saved["average"][name]) for name in latest)
    assert not torch.equal(latest["layers.0.weight"], before["layers.0.weight"])


def test_equal_seeds_give_equal_runs_and_other_seeds_others(finished: Path) -> None:
    one = load_checkpoint(finished / "checkpoint.pt")["average"]
    train(TINY)
    train(dataclasses.replace(TINY, seed=1, name="other"))
    again, other = (
        load_checkpoint(Path(f"runs/{name}/checkpoint.pt"))["average"] for name in ("tiny", "other")
    )
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not torch.equal(one["layers.0.weight"], other["layers.0.weight"])


def test_a_stopped_run_says_how_to_go_on_and_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sb3_ppo, "Interrupt", StopAfter)
        patch.setattr(StopAfter, "batches", 3)
        train(TINY)
    assert "training.sb3_ppo runs/tiny/config.yaml --resume" in capsys.readouterr().err
    before = load_checkpoint(Path("runs/tiny/checkpoint.pt"))
    assert before["decisions"] == 384
    assert main(["runs/tiny/config.yaml", "--resume"]) == 0
    after = load_checkpoint(Path("runs/tiny/checkpoint.pt"))
    assert after["decisions"] == 512 and after["batches"] == 4
    assert [row["decisions"] for row in metrics_of(Path("runs/tiny"))][-1] == "512"
    # The optimiser went on too: it has made its steps of all four batches.
    steps = [int(state["step"]) for state in after["optimiser"]["state"].values()]
    assert set(steps) == {8}
    assert main(["runs/tiny/config.yaml", "--resume"]) == 0
    assert "at its limit already" in capsys.readouterr().err


@pytest.mark.slow
def test_ctrl_c_ends_a_run_with_everything_saved() -> None:
    options = ["--name=cut", "--tables=8", "--steps=16", "--minibatch=64", "--evaluate_matches=0"]
    command = [sys.executable, "-m", "training.sb3_ppo", *options, "--decisions=100000000"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    metrics = Path("runs/cut/metrics.csv")
    while process.poll() is None and not (metrics.exists() and len(metrics_of(metrics.parent)) > 2):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    assert "all saved; go on with" in error
    saved = load_checkpoint(Path("runs/cut/checkpoint.pt"))
    assert saved["decisions"] == int(metrics_of(metrics.parent)[-1]["decisions"])


def test_misuse_is_one_line(capsys: pytest.CaptureFixture[str], finished: Path) -> None:
    copied(finished)
    for options, message in (
        (["--opponents=nobody"], "bot: 'nobody'"),
        (["--opponents=[]"], "opponents: \\[\\]"),
        (["--episode=week"], "episode: 'week'"),
        (["--past_share=1"], "past_share: 1.0 is not 0 to 0.99"),
        (["--workers=2"], "workers: no such field"),
        (["--rules=[kachuful, oh-hell]"], "rules: .* one set of rules"),
        (["--minibatch=4096", "--tables=8"], "minibatch: 4096 of batches of 256"),
        (["--device=abacus"], "device: 'abacus': Expected one of cpu"),
        (["--hidden=99999999999"], "hidden: \\[99999999999\\] \\(allowed: what fits"),
        (["--tables=99999999"], "tables: 99999999, steps: 32 \\(allowed: what fits"),
        (["--hidden=[]"], "hidden: \\(\\) is not a list of widths"),
        (["--name=tiny"], "runs/tiny: holds a run already"),
        (["--name=tiny", "--resume"], "was started with"),
    ):
        assert main(["--decisions=128", *options]) == 2
        error = capsys.readouterr().err
        assert error.startswith("training.sb3_ppo: ") and error.count("\n") == 1
        assert re.search(message, error), error
    assert main(["--help"]) == 0
    assert "--past_share=0.5" in capsys.readouterr().out


def test_networks_the_library_cannot_make_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "room", lambda: 1 << 60)
    assert main(["--hidden=99999999999"]) == 2
    error = capsys.readouterr().err
    assert "no such networks can be made" in error and error.count("\n") == 1


@pytest.mark.parametrize("library", ["sb3_contrib", "tensorboard"])
def test_without_its_libraries_it_explains_itself_and_says_which_extras_it_needs(
    library: str,
) -> None:
    program = (
        "import runpy, sys\n"
        f"sys.modules[{library!r}] = None\n"
        "runpy.run_module('training.sb3_ppo', run_name='__main__')\n"
    )
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])

    def call(option: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, option]
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    helped = call("--help")
    assert helped.returncode == 0 and "--past_share=0.5" in helped.stdout, helped.stderr
    refused = call("--name=mine")
    assert refused.returncode == 2, refused.stderr
    assert re.fullmatch(
        rf"training.sb3_ppo: needs more libraries \(.*{library}.*\);"
        r" pip install 'judgement-env\[sb3,train\]'\n",
        refused.stderr,
    )
    assert not Path("runs").exists()


def test_past_selves_sit_in_the_share_of_seats_they_are_given() -> None:
    env = JudgementVecEnv(TINY.rules, 400, opponents="random", canonical=True)
    model = make_model(TINY, env, 1)
    seat_opponents(env, [RandomBot(0), make_bot("heuristic")], [policy_weights(model)] * 3, 0.6)
    assert [bot.name for bot in env.batch.opponents][2:] == ["past 0", "past 1", "past 2"]
    env.reset()
    drawn = env.batch._seats["bot"]
    counts = np.bincount(drawn[drawn >= 0], minlength=5) / (drawn >= 0).sum()
    assert np.allclose(counts, [0.2] * 5, atol=0.05)


def test_a_run_of_another_program_is_not_taken_for_one_of_this(finished: Path) -> None:
    folder = copied(finished)
    before = (folder / "config.yaml").read_bytes()
    same = {"name": "tiny", "rules": TINY.rules, "tables": 8, "hidden": (12,)}
    config = Config(**same, critic_hidden=(10,), workers=1, decisions=2000)
    with pytest.raises(ValueError, match="runs/tiny: a run of training.sb3_ppo; go on with"):
        train_train(config, resume=True)
    assert (folder / "config.yaml").read_bytes() == before


# --- from a run to a bot ----------------------------------------------------------------------


def test_a_run_exports_and_measures_like_any_other(finished: Path) -> None:
    folder = export(finished, Path("mine"), matches=8)
    card = json.loads((folder / "card.json").read_text())
    assert card["training"]["command"] == "python -m training.sb3_ppo own.yaml"
    assert card["rules"][0]["num_players"] == 3 and card["measured"][0]["matches"] >= 8
    bot, rules = load_candidate(str(finished))
    assert rules == TINY.rules
    table = Table(rules, 3)
    while not table.is_over:
        table.push(bot.act(table.view(table.seat)))


def test_an_exported_model_plays_as_it_did_in_the_library_and_without_torch() -> None:
    env = JudgementVecEnv("kachuful", 16, opponents="random", canonical=True)
    config = dataclasses.replace(TINY, rules="kachuful", steps=64, learning_rate=0.01)
    model = make_model(config, env, 2).learn(2048)
    folder = export_model(model, "mine", "kachuful", matches=0, name="mine")
    original, exported = Sb3Bot(model), make_bot(str(folder))
    assert isinstance(exported, NeuralBot)
    views = []
    for seed in range(6):
        table = Table("kachuful", seed)
        while not table.is_over:
            views.append(table.view(table.seat))
            action = exported.act(views[-1])
            table.push(action)
    mine, theirs = (np.array([bot.policy(view) for view in views]) for bot in (original, exported))
    assert np.abs(mine - theirs).max() < 1e-4 and mine.max() > 0.5
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra bots")
    session = onnxruntime.InferenceSession(folder / "policy.onnx")
    inputs = {
        "observation": np.array([view.observation() for view in views], np.float32),
        "action_mask": np.array([view.action_mask() for view in views], np.int8),
    }
    (found,) = session.run(["policy"], inputs)
    assert np.abs(mine - found).max() < 1e-4
    program = (
        "import sys; sys.modules['torch'] = sys.modules['stable_baselines3'] = None\n"
        "from judgement_env import Table, make_bot\n"
        f"table = Table('kachuful', 0); bot = make_bot({str(folder)!r})\n"
        "print(bot.act(table.view(table.seat)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    table = Table("kachuful", 0)
    assert int(done.stdout) == original.act(table.view(table.seat))


@pytest.mark.slow
def test_a_short_run_beats_bots_that_play_at_random() -> None:
    rules = Rules.preset("kachuful", cards=[3])
    config = Sb3Config(
        name="short",
        rules=rules.to_dict(),
        opponents="random",
        decisions=60_000,
        tables=128,
        hidden=(64,),
        critic_hidden=(64,),
        minibatch=512,
        learning_rate=2e-3,
        past_every=15_000,
        evaluate_matches=0,
    )
    folder = train(config)
    network = PolicyNetwork(actor_weights(load_checkpoint(folder / "checkpoint.pt")))
    row = one_versus_field(NeuralBot.from_network(network), RandomBot(0), rules, 2000, 5)
    assert row.difference >= 0.5 and row.low > 0, row.difference
