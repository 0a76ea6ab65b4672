from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from judgement_env import ENV_VERSION, Rules, Table, files, judgement_v0, make_bot
from judgement_env.bots.inputs import MAX_NONZERO, write_inputs_of
from judgement_env.bots.neural import NeuralBot
from judgement_env.bots.policy import PolicyNetwork
from judgement_env.cards import NUM_ACTIONS, NUM_CARDS
from judgement_env.observation import SIZE, as_float, layout_hash
from judgement_env.rules import make_rules
from judgement_env.state import Array
from tests.positions import positions, random_weights
from training import export as export_module
from training.checkpoint import save_checkpoint
from training.config import Config, to_dict
from training.export import export, load_actor_network, main, write_card, write_model
from training.losses import masked_log_softmax
from training.model import actor_of_model, make_actor

HIDDEN = (24, 16)


def save_run(folder: Path, seed: int = 0, **changes: Any) -> Path:
    """A run's folder with the checkpoint of a policy of random weights."""
    weights = random_weights(HIDDEN, seed)
    content = {
        "config": to_dict(Config(name="tiny", hidden=HIDDEN, seed=5, rules="sweep-ten")),
        "command": "python -m training.train --name=tiny",
        "commit": "abc123",
        "workers": 2,
        "average": {name: torch.from_numpy(array) for name, array in weights.items()},
        "decisions": 1234,
        "seconds": 90.0,
        **changes,
    }
    save_checkpoint(folder / "checkpoint.pt", content)
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_run(tmp_path_factory.mktemp("runs") / "tiny")


@pytest.fixture(scope="module")
def model(run: Path) -> Path:
    return export(run, run.parent / "models" / "tiny", matches=8)


def card_of(folder: Path) -> dict[str, Any]:
    card: dict[str, Any] = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    return card


def session_of(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def onnx_policy(session: Any, observation: Array, mask: Array) -> Array:
    feed = {"observation": observation, "action_mask": mask}
    (policy,) = session.run(["policy"], feed)
    assert policy.shape == mask.shape
    return np.asarray(policy)


def torch_policy(weights: dict[str, Array], raw: Array, masks: Array) -> Array:
    """What the network of the training loop gives, back in the suits of the table."""
    actor = make_actor(HIDDEN)
    actor.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    size = len(raw)
    places, count = np.empty((size, 4), np.int32), np.empty(size, np.int32)
    column = np.empty((size, MAX_NONZERO), np.uint16)
    value = np.empty((size, MAX_NONZERO), np.float32)
    canonical = masks.copy()
    write_inputs_of(raw, canonical, places, column, value, count)
    with torch.no_grad():
        logits = actor(column, value, count, np.arange(size))
        chances = masked_log_softmax(logits, torch.from_numpy(canonical)).exp().numpy()
    out = chances.copy()
    for suit in range(4):
        at = places[:, suit, None] * 13 + np.arange(13)
        out[:, suit * 13 : suit * 13 + 13] = np.take_along_axis(chances, at, axis=1)
    return out


# --- agreement --------------------------------------------------------------------------------


def test_torch_numpy_and_onnx_agree_on_ten_thousand_positions_of_all_presets(model: Path) -> None:
    _, _, raw, _, masks = positions(10_000, seed=77)
    expected = torch_policy(random_weights(HIDDEN), raw, masks)
    assert (expected.max(axis=1) > 0.5).mean() > 0.2
    bot = NeuralBot(model)
    assert np.abs(bot.network.probabilities(raw, masks) - expected).max() < 1e-4
    session = session_of(model / "policy.onnx")
    for part in np.array_split(np.arange(10_000), 7):
        policy = onnx_policy(session, as_float(raw[part]), masks[part])
        assert np.abs(policy - expected[part]).max() < 1e-4
        assert not policy[masks[part] == 0].any()


def test_half_precision_halves_the_files_and_all_still_agree(model: Path, tmp_path: Path) -> None:
    weights = random_weights(HIDDEN)
    checkpoint = {"config": {"rules": "kachuful"}, "decisions": 0, "seconds": 0.0, "workers": 1}
    folder = write_model(weights, checkpoint, tmp_path / "half", 0, is_half=True)
    for file in ("policy.safetensors", "policy.onnx"):
        saved = (model / file).stat().st_size - (folder / file).stat().st_size
        assert saved > 1.8 * sum(tensor.size for tensor in weights.values())
    _, _, raw, _, masks = positions(1000, seed=78)
    rounded = {k: a.astype(np.float16).astype(np.float32) for k, a in weights.items()}
    expected = torch_policy(rounded, raw, masks)
    bot = NeuralBot(folder)
    assert np.abs(bot.network.probabilities(raw, masks) - expected).max() < 1e-4
    session = session_of(folder / "policy.onnx")
    assert np.abs(onnx_policy(session, as_float(raw), masks) - expected).max() < 1e-4
    actor = actor_of_model(folder)
    assert all(parameter.dtype == torch.float32 for parameter in actor.parameters())


@pytest.mark.parametrize("preset", ["kachuful", "oh-hell", "up-and-down"])
def test_the_graph_takes_what_the_environment_gives(model: Path, preset: str) -> None:
    session, bot = session_of(model / "policy.onnx"), NeuralBot(model)
    env = judgement_v0.env(rules=preset)
    env.reset(seed=3)
    table = Table(preset, seed=3)
    for _ in range(25):
        seen = env.last()[0]
        observation, mask = seen["observation"], seen["action_mask"]
        assert (observation.dtype, mask.dtype) == (np.float32, np.int8)
        policy = onnx_policy(session, observation[None], mask[None])[0]
        assert policy == pytest.approx(bot.policy(table.view(table.seat)), abs=1e-4)
        action = int(policy.argmax())
        env.step(action)
        table.push(action)
        if table.is_over:
            break


# --- the folder -------------------------------------------------------------------------------


def test_a_model_is_three_files_and_the_graph_needs_no_other(model: Path, tmp_path: Path) -> None:
    names = sorted(path.name for path in model.iterdir())
    assert names == ["card.json", "policy.onnx", "policy.safetensors"]
    shutil.copy(model / "policy.onnx", tmp_path / "alone.onnx")
    inputs = {
        i.name: (i.shape[1], i.type) for i in session_of(tmp_path / "alone.onnx").get_inputs()
    }
    assert inputs == {
        "observation": (SIZE, "tensor(float)"),
        "action_mask": (NUM_ACTIONS, "tensor(int8)"),
    }


def test_everybody_may_read_a_model(model: Path) -> None:
    assert model.stat().st_mode & 0o555 == 0o555
    assert all(path.stat().st_mode & 0o444 == 0o444 for path in model.iterdir())


def test_nothing_in_a_model_says_where_it_was_made(model: Path, run: Path) -> None:
    here = {str(run.parent), str(Path.cwd()), str(Path.home()) + "/", "site-packages", ".py"}
    for path in model.iterdir():
        content = path.read_bytes()
        assert [word for word in here if word.encode() in content] == [], path.name


def test_the_card_says_what_the_model_is(model: Path) -> None:
    card = card_of(model)
    assert card["name"] == "tiny"
    assert [make_rules(rules) for rules in card["rules"]] == [Rules.preset("sweep-ten")]
    assert (card["layout_hash"], card["env_version"]) == (layout_hash(), ENV_VERSION)
    assert (card["observation_size"], card["num_actions"]) == (SIZE, NUM_ACTIONS)
    assert card["parameters"] == sum(array.size for array in random_weights(HIDDEN).values())
    training = card["training"]
    assert training["command"] == "python -m training.train --name=tiny"
    assert (training["decisions"], training["minutes"], training["workers"]) == (1234, 1.5, 2)
    assert training["commit"] == "abc123"
    assert training["config"]["seed"] == 5
    (measured,) = card["measured"]
    assert measured["difference"]["low"] <= measured["difference"]["value"]
    assert measured["seed"] == export_module.MEASURE_SEED


def test_an_exported_bot_plays_by_its_folder(model: Path, run: Path) -> None:
    bot = make_bot(model)
    view = Table("kachuful", seed=1).view(Table("kachuful", seed=1).seat)
    memory = NeuralBot.from_network(load_actor_network(run))
    assert (bot.policy(view) == memory.policy(view)).all()
    assert bot.act(view) >= NUM_CARDS


# --- writing over, and failing ----------------------------------------------------------------


def copied(model: Path, folder: Path) -> Path:
    return Path(shutil.copytree(model, folder / "old"))


def quick(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    """The graph is slow to make; these tests are not about it."""
    monkeypatch.setattr(
        export_module,
        "write_onnx",
        lambda policy, path, is_half: shutil.copy(model / "policy.onnx", path),
    )


def test_an_export_replaces_an_older_model_whole(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(monkeypatch, model)
    folder = copied(model, tmp_path)
    (folder / "left-over").write_text("x")
    export(save_run(tmp_path / "runs" / "new", seed=9), folder, matches=0, name="new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "runs"]
    assert not (folder / "left-over").exists()
    assert card_of(folder)["name"] == "new"
    assert card_of(folder)["measured"] == []
    network = PolicyNetwork(random_weights(HIDDEN, 9))
    assert (NeuralBot(folder).network.layers[0][0] == network.layers[0][0]).all()


def test_figures_stay_with_their_weights(
    model: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(model, tmp_path / "tiny")
    card = card_of(folder)
    kept = {**card["measured"][0], "seed": 3, "command": "python -m training.evaluate …"}
    write_card(folder, {**card, "measured": [*card["measured"], kept]})
    for matches, rows in ((0, 2), (8, 2), (12, 3)):
        assert main([str(run), str(folder), f"--matches={matches}"]) == 0
        assert capsys.readouterr().err == ""
        assert len(card_of(folder)["measured"]) == rows and kept in card_of(folder)["measured"]
    other = save_run(tmp_path / "other", seed=1)
    assert main([str(other), str(folder), "--matches=8"]) == 0
    assert "1 figure of the model that stood there went with it" in capsys.readouterr().err
    assert [row["matches"] for row in card_of(folder)["measured"]] == [8]


@pytest.mark.parametrize("broken", ["write_onnx", "make_card", "measure", "swap"])
def test_a_failing_export_leaves_the_older_model(
    model: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    quick(monkeypatch, model)
    folder = copied(model, tmp_path)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files if broken == "swap" else export_module, broken, fail)
    with pytest.raises(OSError, match="No space left"):
        export(run, folder, matches=4)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_the_older_model_comes_back_where_the_new_one_cannot_take_its_place(
    model: Path, tmp_path: Path
) -> None:
    folder = copied(model, tmp_path)
    with pytest.raises(FileNotFoundError):
        files.swap(tmp_path / "nothing", folder)
    assert card_of(folder)["name"] == "tiny"
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_a_folder_of_other_things_is_never_replaced(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "models" / "other").mkdir(parents=True)
    (tmp_path / "file").write_text("mine")
    for name in ("models", "file"):
        assert main([str(run), str(tmp_path / name)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert f"{name}: holds something else than a model" in error
    assert (tmp_path / "models" / "other").is_dir()
    assert (tmp_path / "file").read_text() == "mine"


def test_a_run_that_cannot_be_exported_gives_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_run(tmp_path / "other", layout_hash="0123")
    short = {name: torch.zeros(3, 3) for name in ("layers.0.weight", "layers.0.bias")}
    save_run(tmp_path / "short", average=short)
    (tmp_path / "garbage").write_bytes(b"no checkpoint")
    for name, words in (
        ("none", "none: no such checkpoint"),
        ("garbage", "garbage: not a whole checkpoint"),
        ("other", f"layout_hash of the run is '0123', of this package '{layout_hash()}'"),
        ("short", "layers.0.weight has shape (3, 3)"),
    ):
        assert main([str(tmp_path / name), str(tmp_path / "models" / "x")]) == 2
        error = capsys.readouterr().err
        assert error.startswith("training.export: ")
        assert error.count("\n") == 1
        assert words in error
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("matches", ["-1", "1000000001"])
def test_a_number_of_matches_that_cannot_be_played_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], matches: str
) -> None:
    assert main([str(run), str(tmp_path / "new"), f"--matches={matches}"]) == 2
    error = capsys.readouterr().err
    allowed = "(allowed: a whole number from 0 to 1000000000)"
    assert error == f"training.export: --matches: {matches} {allowed}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("worst", [np.nan, np.inf, 1e6])
def test_weights_that_are_no_numbers_are_told(
    worst: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = {name: torch.from_numpy(array) for name, array in random_weights(HIDDEN).items()}
    weights["layers.1.bias"][3] = worst
    save_run(tmp_path / "run", average=weights)
    options = ["--half"] if worst == 1e6 else []
    assert main([str(tmp_path / "run"), str(tmp_path / "x"), *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith("training.export: weights: layers.1.bias is not finite: the training")
    assert error.count("\n") == 1
    assert ("half precision" in error) == bool(options)
    assert not (tmp_path / "x").exists()
