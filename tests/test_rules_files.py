"""Rules from YAML files, dicts and names, and how a number of players meets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgement_env import PRESETS, Rules
from judgement_env.rules import make_rules

HOUSE_RULES = sorted((Path(__file__).parents[1] / "configs" / "rules").glob("*.yaml"))


def write(folder: Path, text: str) -> Path:
    path = folder / "house.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", HOUSE_RULES, ids=lambda path: path.stem)
def test_every_house_rules_file_loads_and_says_what_it_is_for(path: Path) -> None:
    rules = Rules.load(path)
    assert rules not in PRESETS.values()
    assert Rules.from_dict(rules.to_dict()) == rules
    head = path.read_text(encoding="utf-8").split("preset:")[0]
    assert head.startswith("# ") and "#   judgement " in head
    assert str(path.relative_to(path.parents[2])) in head


def test_there_are_at_least_six_house_rules_files() -> None:
    assert len(HOUSE_RULES) >= 6


def test_a_file_names_a_preset_and_the_fields_that_differ(tmp_path: Path) -> None:
    text = "preset: up-and-down\nhook: no\ntop: max\nfirst_dealer: null\nblind_rounds: []\n"
    expected = Rules.preset("up-and-down", hook=False, top="max")
    assert Rules.load(write(tmp_path, text)) == expected
    assert Rules.load(str(tmp_path / "house.yaml")) == expected
    assert Rules.load(write(tmp_path, "cards: [2, 1]\n")).cards == (2, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("preset: kachuful\nhook: [\n", r"house.yaml, line 3: broken YAML"),
        ("preset: kachuful\n\thook: true\n", r"house.yaml, line 2: broken YAML"),
        ("hook: true\ntop: 3\nhook: false\n", r"house.yaml, line 3: .*'hook' is given twice"),
        ("? [a]\n: 1\n", r"house.yaml.*broken YAML"),
        ("", r"house.yaml: None .*allowed: lines of 'field: value'"),
        ("- 1\n- 2\n", r"house.yaml: \[1, 2\] .*lines of 'field: value'"),
        ("kachuful\n", r"house.yaml: 'kachuful' .*lines of 'field: value'"),
        ("preset: kachufool\n", r"house.yaml: preset: 'kachufool' .*did you mean 'kachuful'"),
        ("player: 4\n", r"house.yaml: unknown field 'player' .*allowed: preset, num_players"),
        ("num_players: yes\n", r"house.yaml: num_players: True .*whole number"),
        ("cards: [yes, 2]\n", r"house.yaml: cards: True .*whole number"),
        ("first_dealer: no\n", r"house.yaml: first_dealer: False .*seat from 0 to 3"),
        ("top: .nan\n", r"house.yaml: top: nan"),
        ("no: 3\n", r"house.yaml: unknown field False"),
        ("hook: !!python/name:os.system\n", r"house.yaml, line 1: broken YAML"),
    ],
)
def test_a_broken_file_is_refused_by_name_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    for read in (Rules.load, make_rules):
        with pytest.raises(ValueError, match=message) as error:
            read(path)
        assert "\n" not in str(error.value)


def test_a_missing_file_is_a_file_not_found_error_that_names_it(tmp_path: Path) -> None:
    for missing in (tmp_path / "none.yaml", str(tmp_path / "none.yaml")):
        for read in (Rules.load, make_rules):
            with pytest.raises(FileNotFoundError, match=r"rules file: .*none.yaml' does not exist"):
                read(missing)


def test_what_is_no_text_file_is_a_value_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        Rules.load(tmp_path)
    (tmp_path / "house.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"house.yaml' cannot be read as text"):
        Rules.load(tmp_path / "house.yaml")


def test_make_rules_takes_a_name_rules_a_dict_or_a_path(tmp_path: Path) -> None:
    path = write(tmp_path, "preset: kachuful\nhook: false\n")
    expected = Rules(hook=False)
    for given in (
        expected,
        {"hook": False},
        {"preset": "kachuful", "hook": False},
        path,
        str(path),
    ):
        assert make_rules(given) == expected
    assert make_rules("up-and-down") == PRESETS["up-and-down"]


def test_num_players_applies_where_the_rules_fix_none(tmp_path: Path) -> None:
    path = write(tmp_path, "preset: kachuful\n")
    for given in ("kachuful", {}, {"preset": "kachuful"}, path, str(path)):
        rules = make_rules(given, num_players=8)
        assert (rules.num_players, rules.max_cards) == (8, 6)
    assert make_rules({"num_players": 8}).num_players == 8
    assert make_rules(Rules(num_players=5), num_players=5).num_players == 5


def test_num_players_that_contradict_the_rules_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "num_players: 5\n")
    for given in (Rules(num_players=5), {"num_players": 5}, path, Rules(num_players=5).to_dict()):
        assert make_rules(given, num_players=5).num_players == 5
        with pytest.raises(ValueError, match=r"num_players: 4 .*allowed: 5, which the rules fix"):
            make_rules(given, num_players=4)
    with pytest.raises(ValueError, match=r"num_players: 5 .*4 to 4"):
        make_rules("sweep-ten", num_players=5)
    for wrong in (11, 1, True, "4", 4.0):
        with pytest.raises(ValueError, match="num_players: .*whole number"):
            make_rules("kachuful", num_players=wrong)  # type: ignore[arg-type]


def test_what_is_neither_preset_nor_file_is_refused_with_the_nearest_preset() -> None:
    with pytest.raises(ValueError, match=r"rules: 'kachufool' .*did you mean 'kachuful'"):
        make_rules("kachufool")
    for wrong in (None, 3, ["kachuful"]):
        with pytest.raises(ValueError, match="rules: .*preset's name"):
            make_rules(wrong)  # type: ignore[arg-type]


def test_a_file_nested_without_end_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text("[" * 5_000, encoding="utf-8")
    with pytest.raises(ValueError, match="broken YAML"):
        Rules.load(path)
