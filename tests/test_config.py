from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from judgement_env import Rules
from training.config import Config, config_from, load_config, resolve, to_dict

CONFIGS = sorted((Path(__file__).parent.parent / "configs" / "train").glob("*.yaml"))


def written(folder: Path, text: str) -> Path:
    path = folder / "own.yaml"
    path.write_text(text, encoding="utf-8")
    return path


# --- reading ----------------------------------------------------------------------------------


def test_a_file_holds_differences_and_options_win_over_it(tmp_path: Path) -> None:
    path = written(tmp_path, "seed: 3\nhidden: [32, 16]\nminutes: 2\n")
    config = load_config(path, ["--seed=5", "--learning-rate=0.5", "--name=7"])
    assert (config.seed, config.hidden, config.minutes) == (5, (32, 16), 2.0)
    assert (config.learning_rate, config.name, config.tables) == (0.5, "7", Config().tables)


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    assert load_config(written(tmp_path, "# nothing\n")) == Config() == load_config(None)


@pytest.mark.parametrize("text", ["0.001", "1e-3", "1.0e-3", ".001"])
def test_small_numbers_may_be_written_in_every_usual_way(tmp_path: Path, text: str) -> None:
    assert load_config(None, [f"--learning_rate={text}"]).learning_rate == 0.001
    path = written(tmp_path, f"learning_rate: {text}\ndecisions: 2e7\n")
    assert load_config(path).learning_rate == 0.001
    assert load_config(path).decisions == 20_000_000


def test_rules_may_be_any_fields_in_a_file_or_an_option(tmp_path: Path) -> None:
    path = written(tmp_path, "rules:\n  preset: kachuful\n  num_players: 5\n  hook: false\n")
    _, (rules,) = resolve(load_config(path))
    assert rules == Rules.preset("kachuful", num_players=5, hook=False)
    config = load_config(None, ["--rules=[kachuful, {preset: oh-hell, num_players: 3}]"])
    assert [one.num_players for one in resolve(config)[1]] == [4, 3]


def test_a_config_written_out_reads_back_the_same(tmp_path: Path) -> None:
    config = config_from({"hidden": [9], "rules": {"preset": "sweep-ten"}, "minutes": 0.5})
    assert load_config(written(tmp_path, yaml.safe_dump(to_dict(config)))) == config


def test_a_resolved_config_depends_on_no_rules_file(tmp_path: Path) -> None:
    house = tmp_path / "house.yaml"
    house.write_text("preset: kachuful\nhook: false\n", encoding="utf-8")
    config, rules = resolve(config_from({"rules": str(house), "workers": 2}))
    assert rules == [Rules.preset("kachuful", hook=False)]
    house.unlink()
    assert resolve(config)[1] == rules
    assert resolve(dataclasses.replace(config, rules=[rules[0]]))[0].rules == [rules[0].to_dict()]
    assert resolve(Config())[0].rules == "kachuful"
    assert resolve(Config())[0].workers >= 1


# --- refusing ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"learning_rat": 1}, "learning_rat: no such field.*did you mean learning_rate"),
        ({"xyzzy": 1}, "xyzzy: no such field.*fields are name, rules"),
        ({5: 1}, "5: no such field"),
        ({"epochs": "two"}, "epochs: 'two' is not of type int"),
        ({"epochs": 1.5}, "epochs: 1.5 is not of type int"),
        ({"epochs": True}, "epochs: True is not of type int"),
        ({"epochs": None}, "epochs: None is not of type int"),
        ({"minutes": "soon"}, "minutes: 'soon' is not of type float"),
        ({"name": 7}, "name: 7 is not of type str"),
        ({"advantages": "both"}, "advantages: 'both' is not one of critic, playouts"),
        ({"teacher": "search"}, r"teacher: 'search' is not one of heuristic, heuristic\+"),
        ({"teacher": None}, r"teacher: None is not one of heuristic, heuristic\+"),
        ({"hidden": "wide"}, "hidden: 'wide' is not a list of whole numbers"),
        ({"hidden": [8.5]}, r"hidden: \[8.5\] is not a list of whole numbers"),
        ({"hidden": None}, "hidden: None is not a list of whole numbers"),
        ({"hidden": []}, r"hidden: \(\) is not a list of widths"),
        ({"critic_hidden": [8, 0]}, r"critic_hidden: \(8, 0\) is not a list of widths"),
        ({"steps": 7}, "steps: 7 is not 8 to 1,000,000,000,000,000$"),
        ({"gae_lambda": 1.01}, "gae_lambda: 1.01 is not 0 to 1"),
        ({"rule_bot_tables": -0.1}, "rule_bot_tables: -0.1 is not 0 to 1"),
        ({"learning_rate": float("nan")}, "learning_rate: nan is not at least 0"),
        ({"minutes": float("inf")}, "minutes: inf is not at least 0"),
        ({"decisions": 0}, "decisions: 0 with minutes 0 would never end"),
        ({"seed": 2**53 + 1}, "seed: 9007199254740993 is not 0 to 9,007,199,254,740,992$"),
        ({"seed": 10**400}, r"seed: 10+\.\.\.0+ is not of type int"),
        ({"minutes": 10**400}, "minutes: inf is not at least 0"),
        ({"hidden": [10**400]}, r"hidden: \[10+\.\.\.0+\] is not a list of whole numbers"),
        ({"workers": 3_000_000_000}, "workers: 3000000000 is not 0 to 1,000$"),
        ({"evaluate_matches": 10**10}, "evaluate_matches: 10+ is not 0 to 1,000,000,000$"),
        ({"tables": 10**16}, "tables: 10+ is not 1 to 1,000,000,000,000,000$"),
        ({"name": "a/b"}, "name: 'a/b' is not the name of a folder"),
        ({"name": ".."}, "name: '..' is not the name of a folder"),
    ],
)
def test_a_wrong_value_is_refused_with_its_field(values: dict[Any, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        config_from(values)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed: [1\n", r"own\.yaml: not YAML: .*line"),
        ("- 1\n", r"own\.yaml: holds a list"),
        ("just words\n", r"own\.yaml: holds a str"),
        ("seeds: 1\n", r"own\.yaml: seeds: no such field.*did you mean seed\?"),
    ],
)
def test_a_broken_file_is_refused_with_its_name(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        load_config(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_text_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(ValueError, match=r"own\.yaml: not YAML"):
        load_config(path)
    # What the shell cut off an option with a space in it looks like a file.
    with pytest.raises(FileNotFoundError, match="1}: there is no .*--field=value, in quotes"):
        load_config("1}", ["--rules={foo:"])


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--seed", "--seed: options have the form --field=value"),
        ("-seed=3", "-seed=3: options have the form"),
        ("--rules={a: [", r"--rules=\{a: \[: not YAML"),
        ("--sede=3", "sede: no such field of a training config; did you mean seed"),
        ("--resume=true", "--resume=true: --resume takes no value$"),
        ("--seed=" + "9" * 5000, "--seed=9{53}: not YAML: Exceeds the limit"),
        ("--seed=2026-13-01", "--seed=2026-13-01: not YAML: month must be"),
    ],
)
def test_a_wrong_option_is_refused(tmp_path: Path, option: str, words: str) -> None:
    # The fault is the option's, so the file is not named.
    with pytest.raises(ValueError, match=f"^{words}"):
        load_config(written(tmp_path, "seed: 1\n"), [option])


def test_no_rules_at_all_and_unplayable_ones_are_refused() -> None:
    with pytest.raises(ValueError, match="rules: .. holds no rules"):
        resolve(config_from({"rules": []}))
    with pytest.raises(ValueError, match="num_players: 20"):
        resolve(config_from({"rules": {"preset": "kachuful", "num_players": 20}}))


# --- the shipped configs ----------------------------------------------------------------------


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.stem))
def test_every_shipped_config_loads_and_says_what_it_is_for(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    program = "training.sb3_ppo" if path.stem.startswith("sb3") else "training.train"
    if program == "training.sb3_ppo":
        pytest.importorskip("sb3_contrib", reason="needs the extra sb3")
        from training.sb3_ppo import Sb3Config

        name = load_config(path, [], Sb3Config).name
    else:
        name = resolve(load_config(path))[0].name
    assert name == path.stem
    comment = []
    for line in lines:
        if not line.startswith("#"):
            break
        comment.append(line)
    assert len(comment) >= 2
    assert f"python -m {program} configs/train/{path.name}" in " ".join(comment)


def test_there_is_a_quick_config() -> None:
    assert "quick" in {path.stem for path in CONFIGS}
