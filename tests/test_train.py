from __future__ import annotations

import dataclasses
import os
import random
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from judgement_env import ENV_VERSION, Rules
from judgement_env.arena import one_versus_field
from judgement_env.bots.neural import NeuralBot
from judgement_env.bots.simple import RandomBot
from judgement_env.cards import NUM_ACTIONS
from judgement_env.observation import SIZE, layout_hash
from judgement_env.state import TABLE_RECORD
from tests.runs import StopAfter, copied, finished_run, metrics_of
from training import checkpoint as checkpoint_module
from training import train as train_module
from training.checkpoint import hold, load_checkpoint, save_checkpoint
from training.config import Config, load_config, resolve, to_dict
from training.export import load_actor_network
from training.log import Log
from training.targets import Targets, make_targets
from training.train import main, train

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")
ROOT = Path(__file__).parent.parent
# Four batches of 8 tables and 16 decisions, one worker.
TINY = Config(
    name="tiny",
    decisions=512,
    tables=8,
    steps=16,
    workers=1,
    hidden=(12,),
    critic_hidden=(10,),
    minibatch=64,
    rules={"preset": "kachuful", "num_players": 3, "cards": [2, 1, 3]},
    rule_bot_tables=0.25,
    evaluate_matches=0,
)


def all_tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for one in value.values() for tensor in all_tensors(one)]
    if isinstance(value, list | tuple):
        return [tensor for one in value for tensor in all_tensors(one)]
    return []


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that reached its limit."""
    return finished_run(train, TINY, "python -m training.train own.yaml", tmp_path_factory)


# --- going on ---------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_a_resumed_run_equals_one_that_was_never_stopped(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = dataclasses.replace(TINY, workers=workers, decisions=512 * workers)
    stopped = dataclasses.replace(straight, name="stopped")
    train(straight)
    with monkeypatch.context() as patch:
        patch.setattr(train_module, "Interrupt", StopAfter)
        train(stopped)
    assert load_checkpoint(Path("runs/stopped/checkpoint.pt"))["batches"] == 2
    train(stopped, resume=True)
    one, other = (
        load_checkpoint(Path(f"runs/{name}/checkpoint.pt")) for name in ("tiny", "stopped")
    )
    assert one["batches"] == other["batches"] == 4
    for mine, theirs in zip(one["rollouts"], other["rollouts"], strict=True):
        assert mine["generator"] == theirs["generator"]
        # As records: the bytes between their fields mean nothing.
        tables = [state["tables"].numpy().view(TABLE_RECORD) for state in (mine, theirs)]
        assert (tables[0] == tables[1]).all()
    for part in ("actor", "critic", "average", "optimiser"):
        mine, theirs = all_tensors(one[part]), all_tensors(other[part])
        assert len(mine) == len(theirs) > 0
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True)), part
    timed = {"seconds", "decisions_per_second", "share_engine", "share_inference"}
    for a, b in zip(metrics_of(Path("runs/tiny")), metrics_of(Path("runs/stopped")), strict=True):
        same = [name for name in a if name not in {*timed, "share_learning"}]
        assert [a[name] for name in same] == [b[name] for name in same]


def test_training_changes_the_weights_and_another_seed_gives_others(finished: Path) -> None:
    saved = load_checkpoint(finished / "checkpoint.pt")
    assert all(torch.isfinite(tensor).all() for tensor in all_tensors(saved["actor"]))
    assert not torch.equal(saved["actor"]["layers.0.weight"], saved["average"]["layers.0.weight"])
    train(dataclasses.replace(TINY, seed=1))
    other = load_checkpoint(Path("runs/tiny/checkpoint.pt"))
    assert not torch.equal(saved["actor"]["layers.0.weight"], other["actor"]["layers.0.weight"])


def test_a_run_goes_on_past_its_limit_where_a_larger_one_is_given(finished: Path) -> None:
    folder = copied(finished)
    assert main([str(folder / "config.yaml"), "--decisions=640", "--resume"]) == 0
    assert load_checkpoint(folder / "checkpoint.pt")["decisions"] == 640
    assert [row["decisions"] for row in metrics_of(folder)] == ["128", "256", "384", "512", "640"]
    # What was given on the way is kept for the next time.
    assert yaml.safe_load((folder / "config.yaml").read_text())["decisions"] == 640
    # So are the commands, in order; a model's card shows them.
    first, second = load_checkpoint(folder / "checkpoint.pt")["command"].split("\n")
    assert first == "python -m training.train own.yaml"
    assert second.endswith("config.yaml --decisions=640 --resume")


def test_a_finished_run_says_so_when_resumed(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(finished)
    assert main([str(folder / "config.yaml"), "--resume"]) == 0
    assert "at its limit already" in capsys.readouterr().err


def test_rows_after_the_checkpoint_are_dropped_when_their_batches_are_played_again(
    finished: Path,
) -> None:
    folder = copied(finished)
    with (folder / "metrics.csv").open("a") as file:
        row = (folder / "metrics.csv").read_text().splitlines()[-1]
        file.write(row.replace("512", "640", 1) + "\n768,3.1")
    train(dataclasses.replace(TINY, decisions=640), resume=True)
    assert [row["decisions"] for row in metrics_of(folder)] == ["128", "256", "384", "512", "640"]


@pytest.mark.parametrize(
    "change",
    [
        {"rules": "kachuful"},
        {"seed": 8},
        {"tables": 9},
        {"workers": 2},
        {"hidden": (13,)},
        {"critic_hidden": (4, 4)},
        {"start": "models/none"},
    ],
    ids=lambda change: str(next(iter(change))),
)
def test_what_a_run_is_made_of_cannot_change_when_it_is_resumed(
    finished: Path, change: dict[str, Any]
) -> None:
    folder = copied(finished)
    before = (folder / "config.yaml").read_text()
    (field,) = change
    with pytest.raises(ValueError, match=rf"^{field}: .* given, but .*tiny was started with"):
        train(dataclasses.replace(TINY, **change), resume=True)
    assert (folder / "config.yaml").read_text() == before


# --- Ctrl-C -----------------------------------------------------------------------------------


def started(arguments: list[str], **options: Any) -> subprocess.Popen[str]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(arguments, env=environ, stderr=subprocess.PIPE, text=True, **options)


def interrupt_after_rows(process: subprocess.Popen[str], folder: Path, rows: int) -> str:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        if (folder / "metrics.csv").exists() and len(metrics_of(folder)) >= rows:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    return error


def test_ctrl_c_saves_and_the_command_it_prints_goes_on_with_all_options() -> None:
    values = {**to_dict(TINY), "decisions": 10**9}
    Path("own.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "training.train",
        "own.yaml",
        "--name=my run",
        "--entropy=0.03",
    ]
    folder = Path("runs/my run")
    process = started(command)
    error = interrupt_after_rows(process, folder, 2)
    assert process.returncode == 0, error
    assert "Traceback" not in error
    saved = load_checkpoint(folder / "checkpoint.pt")
    assert saved["decisions"] == 128 * saved["batches"] >= 256
    assert f"stopped at {saved['decisions']:,} decisions, all saved" in error
    Path("own.yaml").unlink()

    again = shlex.split(error.strip().splitlines()[-1])
    process = started(again)
    error = interrupt_after_rows(process, folder, saved["batches"] + 1)
    assert process.returncode == 0, error
    later = load_checkpoint(folder / "checkpoint.pt")
    assert later["batches"] > saved["batches"]
    assert later["config"] == saved["config"]
    assert (later["config"]["entropy"], later["config"]["tables"]) == (0.03, 8)
    weights = [float(row["entropy_weight"]) for row in metrics_of(folder)]
    assert weights == pytest.approx([0.03] * len(weights), abs=1e-4)
    counts = [int(row["decisions"]) for row in metrics_of(folder)]
    assert counts == [128 * (k + 1) for k in range(later["batches"])]


def test_signals_mean_again_what_they_meant_when_training_is_over(finished: Path) -> None:
    copied(finished)
    before = signal.getsignal(signal.SIGINT)
    train(TINY, resume=True)
    assert signal.getsignal(signal.SIGINT) is before


# --- refusing ---------------------------------------------------------------------------------


def error_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 2
    *progress, error = capsys.readouterr().err.splitlines()
    assert error.startswith("training.train: ")
    # A run that had begun has shown how it stands, nothing else.
    assert all("decisions" in line and "k/s" in line for line in progress)
    return error


def test_a_run_can_start_from_the_policy_and_the_critic_of_another() -> None:
    first = train(TINY)
    config = dataclasses.replace(TINY, name="next", start=str(first), seed=7, learning_rate=0)
    saved, before = (load_checkpoint(f / "checkpoint.pt") for f in (train(config), first))
    for part, source in (("actor", "average"), ("critic", "critic")):
        for name, tensor in before[source].items():
            assert torch.allclose(saved[part][name], tensor, atol=1e-6)
    with pytest.raises(ValueError, match=r"start: runs/tiny has layers of \(10,\), critic_hidden"):
        train(dataclasses.replace(config, name="wider", critic_hidden=(11,)))
    with pytest.raises(FileNotFoundError, match="start: runs/none: not a model folder"):
        train(dataclasses.replace(config, name="other", start="runs/none"))


def test_a_start_over_an_existing_run_is_refused(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(finished)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    error = error_of(["--name=tiny"], capsys)
    assert "runs/tiny: holds a run already; go on with --resume" in error
    assert {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()} == before


def test_two_processes_may_not_train_in_one_folder(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(finished)
    lock = hold(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    words = "runs/tiny: another process is training in it; choose another --name=NAME"
    assert words in error_of([str(folder / "config.yaml"), "--resume"], capsys)
    assert {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()} == before
    lock.close()
    hold(folder).close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--resume", "--name=none"], "runs/none/checkpoint.pt: no such checkpoint"),
        (["--rules=kachufull"], "kachufull"),
        (["--rules={preset: kachuful, num_players: 40}"], "num_players: 40"),
        (["--rules=house.yaml"], "house.yaml"),
        (["--device=warp"], "device: 'warp'"),
        (["none.yaml"], "none.yaml"),
        (["a.yaml", "b.yaml"], "one config file at most"),
        (["--seed=x"], "seed: 'x'"),
        (["--seed=9223372036854775807"], "seed: 9223372036854775807 is not 0 to"),
        (["--tables=1000000000", "--workers=2"], "tables: 1000000000, steps: 128, workers: 2 ("),
        (["--steps=100000000000"], "steps: 100000000000, "),
        (["--hidden=100000000"], "hidden: [100000000] (allowed: what fits the "),
        (["--critic_hidden=8,99999999,99999999"], "critic_hidden: [8, 99999999, 99999999] ("),
        (["--workers=3000000000"], "workers: 3000000000 is not 0 to 1,000"),
        (["1}", "--rules={foo:"], "1}: there is no such config file; options have the form"),
        (["--resume=true"], "--resume=true: --resume takes no value"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_wrong_command_gives_one_line_and_leaves_no_folder(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in error_of(arguments, capsys)
    assert not Path("runs").exists()


# --- checkpoints ------------------------------------------------------------------------------


def test_a_checkpoint_that_is_not_whole_is_refused_by_name(finished: Path) -> None:
    whole = (finished / "checkpoint.pt").read_bytes()
    rng = random.Random(0)
    pieces = [b"", b"words", b"\x80\x02", bytes(5000), whole[1:]]
    pieces += [whole[: int(len(whole) * share)] for share in (0.001, 0.1, 0.5, 0.9, 0.999)]
    pieces += [rng.randbytes(rng.randrange(1, 400)) for _ in range(200)]
    pieces += [b"\x80\x02" + rng.randbytes(rng.randrange(1, 60)) + b"." for _ in range(200)]
    path = Path("broken.pt")
    for piece in pieces:
        path.write_bytes(piece)
        with pytest.raises(ValueError, match="^broken.pt: not a") as caught:
            load_checkpoint(path)
        assert "\n" not in str(caught.value)


def test_other_torch_files_and_other_versions_are_refused(finished: Path) -> None:
    path = Path("other.pt")
    for content in ([1, 2], {"format": "judgement-checkpoint/0"}, {"weights": torch.zeros(2)}):
        torch.save(content, path)
        with pytest.raises(ValueError, match="other.pt: not a judgement-checkpoint/1 file"):
            load_checkpoint(path)
    for field, here in (("layout_hash", layout_hash()), ("env_version", ENV_VERSION)):
        save_checkpoint(path, {field: "of old"})
        with pytest.raises(ValueError, match=f"{field} of the run is 'of old', of .* {here!r}"):
            load_checkpoint(path)


def test_a_checkpoint_says_what_it_was_made_with(finished: Path) -> None:
    saved = load_checkpoint(finished / "checkpoint.pt")
    assert (saved["layout_hash"], saved["env_version"]) == (layout_hash(), ENV_VERSION)
    assert re.fullmatch(r"[0-9a-f]{40}(\+changes)?|unknown", saved["commit"])
    assert saved["config"] == to_dict(TINY)


def test_a_full_disk_leaves_the_former_checkpoint_and_gives_one_line(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(finished)
    before = (folder / "checkpoint.pt").read_bytes()

    def save(content: Any, file: Any) -> None:
        file.write(b"the first bytes")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_module.torch, "save", save)
    error = error_of([str(folder / "config.yaml"), "--decisions=600", "--resume"], capsys)
    assert "checkpoint.pt: the checkpoint could not be written" in error
    assert "No space left on device" in error
    assert (folder / "checkpoint.pt").read_bytes() == before
    assert not list(folder.glob("*.part"))


def test_a_checkpoint_too_large_for_the_disk_ends_the_run_with_one_line(finished: Path) -> None:
    folder = copied(finished)
    before = (folder / "checkpoint.pt").read_bytes()
    limit = len(before) // 2

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [sys.executable, "-m", "training.train", str(folder / "config.yaml")]
    process = started([*command, "--decisions=600", "--resume"], preexec_fn=limited)
    _, error = process.communicate(timeout=300)
    assert process.returncode == 2, error
    assert "Traceback" not in error
    assert error.strip().splitlines()[-1].startswith("training.train: runs/tiny/checkpoint.pt: the")
    assert (folder / "checkpoint.pt").read_bytes() == before
    assert not list(folder.glob("*.part"))


def test_metrics_that_cannot_be_written_are_named() -> None:
    log = Log(Path("here"))
    log.path = Path("/dev/full")
    with pytest.raises(OSError, match="/dev/full: cannot be written .No space left"):
        log.write({"decisions": 1, "entropy": 0.5})
    log.close()


# --- metrics ----------------------------------------------------------------------------------


def documented_metrics() -> set[str]:
    _, _, text = str(train_module.__doc__).partition("one row a batch:\n\n")
    lines = [line for line in text.splitlines() if line and not line.startswith(" ")]
    names = [re.match(r"(\w+(?:, \w+)*) +\S", line) for line in lines]
    assert all(names)
    return {name for match in names if match for name in match[1].split(", ")}


def test_every_metric_is_documented_and_every_documented_one_is_logged(finished: Path) -> None:
    header = list(metrics_of(finished)[0])
    logged = {re.sub(r"^(made|points)_\d+$", r"\1_C", name) for name in header}
    assert logged == documented_metrics()
    assert [name for name in header if name.startswith("made_")] == ["made_1", "made_2", "made_3"]


def test_metrics_are_plausible_numbers(finished: Path) -> None:
    rows = metrics_of(finished)
    assert [int(row["decisions"]) for row in rows] == [128, 256, 384, 512]
    for row in rows:
        shares = [float(row[f"share_{part}"]) for part in ("engine", "inference", "learning")]
        assert sum(shares) == pytest.approx(1, abs=1e-4)
        assert min(shares) > 0
        assert 0.9 < float(row["entropy"]) <= 1.0001
        assert 0 <= float(row["made_1"]) <= 1
        assert float(row["divergence"]) >= -1e-6
    rates = [float(row["learning_rate"]) for row in rows]
    assert rates == pytest.approx([0.001, 0.00075, 0.0005, 0.00025])


def test_tensorboard_has_every_metric_of_every_batch(finished: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(finished / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == set(metrics_of(finished)[0])
    assert [event.step for event in events.Scalars("entropy")] == [128, 256, 384, 512]


def test_an_evaluation_of_one_deal_leaves_the_interval_open(
    capsys: pytest.CaptureFixture[str],
) -> None:
    train(dataclasses.replace(TINY, evaluate_matches=3, decisions=128))
    assert re.search(r"versus rule bots [+-]\d+\.\d\d ±\? points", capsys.readouterr().err)


def test_a_run_that_diverges_stops_with_one_line_and_keeps_its_checkpoint(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(finished)
    before = (folder / "checkpoint.pt").read_bytes()

    def endless(*arguments: Any) -> Targets:
        targets = make_targets(*arguments)
        return targets._replace(returns=np.full_like(targets.returns, np.inf))

    monkeypatch.setattr(train_module, "make_targets", endless)
    assert main([str(folder / "config.yaml"), "--resume", "--decisions=2048"]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert "diverged" in said[0]
    assert "--resume" in said[0]
    assert (folder / "checkpoint.pt").read_bytes() == before


def test_a_batch_without_a_settled_round_teaches_nothing_and_breaks_nothing() -> None:
    rules = {"preset": "kachuful", "cards": [9], "num_players": 5}
    config = dataclasses.replace(
        TINY, rules=rules, tables=1, steps=8, decisions=24, rule_bot_tables=0.0
    )
    folder = train(config)
    saved = load_checkpoint(folder / "checkpoint.pt")
    assert saved["batches"] == 3
    assert all(torch.isfinite(tensor).all() for tensor in all_tensors(saved["actor"]))


def test_help_names_every_field_and_every_metric(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"--{field.name}=" in out for field in dataclasses.fields(Config))
    assert all(name in out for name in documented_metrics())


# --- learning ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_short_run_learns_to_bid_and_to_beat_random_bots() -> None:
    config = Config(
        name="learner",
        decisions=150_000,
        tables=128,
        steps=64,
        workers=1,
        hidden=(64,),
        critic_hidden=(64,),
        minibatch=1024,
        learning_rate=3e-3,
        evaluate_matches=0,
    )
    bot = NeuralBot.from_network(load_actor_network(train(config)))
    row = one_versus_field(bot, RandomBot(), Rules(), matches=600, seed=9)
    at_one = next(size for size in row.by_cards if size.cards == 1)
    assert row.difference > 2
    assert at_one.hit_rate > 0.62
    made = [float(line["made_1"]) for line in metrics_of(Path("runs/learner"))]
    assert np.mean(made[-3:]) > np.mean(made[:3]) + 0.05


# --- the page about training ------------------------------------------------------------------

PAGE = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")


def blocks_of(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("text", blocks_of("yaml"), ids=lambda text: str(text.split()[1]))
def test_configs_of_the_training_page_can_be_trained(text: str) -> None:
    Path("own.yaml").write_text(text, encoding="utf-8")
    config, rules = resolve(load_config("own.yaml"))
    assert config.minutes > 0
    assert len(rules) >= 1


def test_commands_of_the_training_page_are_understood() -> None:
    commands = re.findall(r"^    python -m training\.train (.*)$", PAGE, re.MULTILINE)
    assert len(commands) >= 3
    for command in commands:
        path, *options = shlex.split(command)
        if path.startswith("configs/"):
            load_config(ROOT / path, [option for option in options if option != "--resume"])


def test_the_training_page_prints_where_the_time_goes(finished: Path) -> None:
    (code,) = blocks_of("python")
    command = [sys.executable, "-c", code, str(finished)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = [line.split()[0] for line in out.splitlines()]
    assert names == ["share_engine", "share_inference", "share_learning", "decisions_per_second"]
    assert sum(float(line.split()[1]) for line in out.splitlines()[:3]) == pytest.approx(
        1, abs=0.01
    )


def test_the_training_page_names_fields_metrics_and_sizes_as_they_are() -> None:
    fields = {field.name for field in dataclasses.fields(Config)}
    plain = {"runs", "rules", "heuristic", "device: cuda", "policy", "observation", "action_mask"}
    words = set(re.findall(r"`([a-z_]+(?:_C)?)`", PAGE)) - plain
    assert {"versus_points", "made_C", "bid_weight"} <= words
    assert words <= fields | documented_metrics()
    assert f"`observation` (B, {SIZE}) float32" in PAGE
    assert f"`action_mask` (B, {NUM_ACTIONS}) int8" in PAGE
