from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from judgement_env import ENV_VERSION, MODELS_SINCE, PRESETS, Rules, Table, make_bot
from judgement_env.bots.inputs import INPUT_SIZE
from judgement_env.bots.neural import CARD_FORMAT, NeuralBot
from judgement_env.bots.policy import PolicyNetwork
from judgement_env.cards import NUM_ACTIONS
from judgement_env.observation import layout_hash
from judgement_env.state import Array
from tests.positions import RULE_SETS, positions, random_weights


def write_model(folder: Path, weights: dict[str, Array] | None = None, **changes: Any) -> Path:
    """A model folder as an export leaves it, but for the graph."""
    folder.mkdir(exist_ok=True)
    save_file(weights or random_weights(), folder / "policy.safetensors")
    digest = hashlib.sha256((folder / "policy.safetensors").read_bytes()).hexdigest()
    card = {
        "format": CARD_FORMAT,
        "name": "tiny",
        "rules": [Rules().to_dict()],
        "env_version": ENV_VERSION,
        "layout_hash": layout_hash(),
        "num_actions": NUM_ACTIONS,
        "weights_sha256": digest,
        **changes,
    }
    (folder / "card.json").write_text(json.dumps(card), encoding="utf-8")
    return folder


def memory_bot(**options: Any) -> NeuralBot:
    return NeuralBot.from_network(PolicyNetwork(random_weights()), **options)


# --- deciding ---------------------------------------------------------------------------------


def test_what_a_seat_sees_is_enough_for_the_same_decision_under_all_rules() -> None:
    bot, rng = memory_bot(), np.random.default_rng(0)
    num_compared = 0
    for number, rules in enumerate(RULE_SETS):
        table = Table(rules, seed=number)
        for _ in range(60):
            if table.is_over:
                break
            view = table.view(table.seat)
            row = np.zeros(1, np.int64)
            full = bot.policy_rows(table.rules_array, table.tables_array, row)[0]
            assert (bot.policy(view) == full).all()
            action = bot.act(view)
            assert action == bot.act_rows(table.rules_array, table.tables_array, row)[0]
            assert action in table.legal()
            num_compared += 1
            table.push(int(rng.choice(table.legal())))
    assert num_compared > 500


def test_probabilities_sum_to_one_on_the_legal_actions() -> None:
    bot = memory_bot()
    for seed, rules in enumerate(PRESETS.values()):
        table = Table(rules, seed=seed)
        for _ in range(9):
            policy = bot.policy(table.view(table.seat))
            assert policy.sum() == pytest.approx(1, abs=1e-5)
            assert set(np.flatnonzero(policy)) <= set(table.legal())
            table.push(table.legal()[-1])


def test_the_greedy_bot_takes_the_likeliest_action() -> None:
    rules, tables, raw, _, masks = positions(200)
    bot = memory_bot()
    chances = PolicyNetwork(random_weights()).probabilities(raw, masks)
    assert (bot.act_rows(rules, tables, np.arange(200)) == chances.argmax(axis=1)).all()


def test_a_seat_that_is_not_to_act_is_refused() -> None:
    table = Table("kachuful", seed=1)
    view = table.view((table.seat + 1) % 4)
    for decide in (memory_bot().act, memory_bot().policy):
        with pytest.raises(ValueError, match="is not to act"):
            decide(view)


# --- drawing ----------------------------------------------------------------------------------


def test_a_bot_that_draws_follows_its_probabilities() -> None:
    rules, tables, _, _, _ = positions(30, seed=4)
    bot = memory_bot(greedy=False, seed=1)
    chances = bot.policy_rows(rules, tables, np.arange(30))
    # The position with the most even choice says most.
    row = int(chances.max(axis=1).argmin())
    actions = bot.act_rows(rules, tables, np.full(20_000, row))
    counts = np.bincount(actions, minlength=NUM_ACTIONS)
    legal = chances[row] > 1e-3
    assert legal.sum() >= 2
    expected = 20_000 * chances[row][legal]
    squares = (counts[legal] - expected) ** 2 / expected
    # Mean k, variance 2 k: six deviations above it.
    assert squares.sum() < legal.sum() + 6 * (2 * legal.sum()) ** 0.5
    assert counts[chances[row] == 0].sum() == 0


def test_the_same_seed_draws_the_same_actions_and_another_seed_others() -> None:
    rules, tables, _, _, _ = positions(200, seed=5)
    rows = np.arange(200)
    first, again, other = (
        memory_bot(greedy=False, seed=seed).act_rows(rules, tables, rows) for seed in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()


# --- loading ----------------------------------------------------------------------------------


def test_a_model_folder_plays_as_its_weights_do(tmp_path: Path) -> None:
    write_model(tmp_path / "tiny")
    bot = make_bot(tmp_path / "tiny")
    assert bot.name == "tiny"
    view = Table("kachuful", seed=3).view(Table("kachuful", seed=3).seat)
    assert (bot.policy(view) == memory_bot().policy(view)).all()
    drawing = make_bot(f"{tmp_path / 'tiny'}:greedy=false", seed=5)
    assert isinstance(drawing, NeuralBot)
    assert not drawing.greedy


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layout_hash": "0123"}, f"layout_hash of the model is '0123', .*{layout_hash()}"),
        ({"env_version": MODELS_SINCE - 1}, "env_version of the model is 0, of this package"),
        ({"env_version": 99}, f"env_version of the model is 99, of this package {ENV_VERSION}"),
        ({"num_actions": 5}, f"num_actions of the model is 5, of this package {NUM_ACTIONS}"),
        ({"format": "x/1"}, f"format 'x/1' is not '{CARD_FORMAT}'"),
        ({"weights_sha256": "f" * 64}, "sha256 [0-9a-f]{12}…, the card says ffffffffffff…"),
        ({"weights_sha256": None}, "the card says None"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_with_both_sides_named(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    folder = write_model(tmp_path / "tiny", **changes)
    with pytest.raises(ValueError, match=words) as caught:
        NeuralBot(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    path = folder / "policy.safetensors"
    whole = path.read_bytes()
    for damaged in (whole[:-5], whole[:40], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="not the weights of its card.*damaged or was exch"):
            NeuralBot(folder)


def test_weights_cut_short_before_their_card_was_made_are_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    path = folder / "policy.safetensors"
    path.write_bytes(path.read_bytes()[:-5])
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    card["weights_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "card.json").write_text(json.dumps(card), encoding="utf-8")
    with pytest.raises(ValueError, match="policy.safetensors: not a whole safetensors file"):
        NeuralBot(folder)


def test_weights_of_the_wrong_shape_are_refused_with_both_shapes(tmp_path: Path) -> None:
    weights = random_weights()
    weights["layers.0.weight"] = weights["layers.0.weight"][1:].copy()
    words = rf"\({INPUT_SIZE - 1}, 24\) .*not \({INPUT_SIZE}, outputs\)"
    with pytest.raises(ValueError, match=words):
        NeuralBot(write_model(tmp_path / "tiny", weights))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none: not a model folder, it has no card.json"):
        NeuralBot(tmp_path / "none")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoint.pt").touch()
    with pytest.raises(FileNotFoundError, match="run: not a model .*training.export .* makes a"):
        NeuralBot(tmp_path / "run")
    folder = write_model(tmp_path / "tiny")
    (folder / "policy.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="tiny: the model has no policy.safetensors"):
        NeuralBot(folder)


@pytest.mark.parametrize("text", ["{", "[1]", "", "\x00"])
def test_a_card_that_is_no_card_is_refused(tmp_path: Path, text: str) -> None:
    folder = write_model(tmp_path / "tiny")
    (folder / "card.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="card.json: (not JSON|format 'list')"):
        NeuralBot(folder)


def test_a_model_plays_a_match_where_torch_is_not_installed(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    code = (
        "import sys\n"
        "for name in ('torch', 'onnx', 'onnxruntime', 'tensorboard'): sys.modules[name] = None\n"
        "from judgement_env import Table, make_bot\n"
        f"bot, table = make_bot({str(folder)!r}), Table('kachuful', seed=1)\n"
        "while not table.is_over: table.push(bot.act(table.view(table.seat)))\n"
        "print(len(table.record()['rounds']), table.totals)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("7 ")
