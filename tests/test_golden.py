"""Whole matches the slow rulebook played, kept as records, played again by the package."""

import json
from typing import Any

import pytest

from judgement_env import ENV_VERSION, Rules, Table
from tests.make_golden import FOLDER, MATCHES, played, to_text
from tests.reference import FIRST_BID, card_action

NAMES = sorted(MATCHES)


def golden(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return record


def actions_of(record: dict[str, Any]) -> list[int]:
    """Every bid and play of a record in order; the trick of a blind round is nobody's decision."""
    step = 1 if record["rules"]["direction"] == "clockwise" else -1
    actions = []
    for entry in record["rounds"]:
        players = len(entry["bids"])
        order = [(entry["dealer"] + step * place) % players for place in range(1, players + 1)]
        actions += [FIRST_BID + entry["bids"][seat] for seat in order]
        if not entry["blind"]:
            actions += [card_action(card) for trick in entry["tricks"] for card in trick["plays"]]
    return actions


def test_every_golden_match_has_its_file_and_no_file_is_left_over() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_slow_rulebook_still_plays_the_golden_match(name: str) -> None:
    assert to_text(played(name)) == (FOLDER / f"{name}.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_match_is_read_and_written_back_unchanged(name: str) -> None:
    record = golden(name)
    table = Table.from_record(record)
    assert table.is_over
    written = table.record()
    assert json.loads(json.dumps(written)) == written
    assert Rules.from_dict(written["rules"]) == Rules.from_dict(record["rules"])
    assert {**written, "rules": None} == {**record, "rules": None}
    assert list(written) == list(record)


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_match_played_anew_ends_in_the_same_record(name: str) -> None:
    record = golden(name)
    table = Table(
        Rules.from_dict(record["rules"]),
        seed=record["seed"],
        dealer=record["rounds"][0]["dealer"],
        deals=[entry["hands"] for entry in record["rounds"]],
        turn_ups=[entry["turn_up"] for entry in record["rounds"]],
    )
    for action in actions_of(record):
        assert action in table.legal()
        table.push(action)
    assert {**table.record(), "rules": None} == {**record, "rules": None}


@pytest.mark.parametrize("name", NAMES)
def test_the_first_decisions_of_a_golden_match_are_a_match_in_progress(name: str) -> None:
    record = golden(name)
    actions = actions_of(record)
    half = len(actions) // 2
    table = Table.from_record(record, decisions=half)
    assert not table.is_over
    for action in actions[half:]:
        table.push(action)
    assert table.record()["totals"] == record["totals"]
    assert table.record()["winners"] == record["winners"]


@pytest.mark.parametrize("name", NAMES)
def test_golden_records_carry_the_version_of_the_environment(name: str) -> None:
    assert golden(name)["env_version"] == ENV_VERSION


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("rounds", 0, "tricks", 0, "winner"), 9),
        (("rounds", 1, "won"), [9, 9, 9, 9]),
        (("rounds", 2, "points"), [999, 0, 0, 0]),
        (("rounds", 0, "bids"), [2, 2, 2, 1]),
        (("rounds", 3, "dealer"), None),
        (("rounds", 0, "trump"), "C"),
        (("totals",), [1, 2, 3, 4]),
        (("winners",), []),
    ],
)
def test_a_record_that_was_tampered_with_is_refused(path: tuple[Any, ...], value: Any) -> None:
    record = golden("kachuful-4")
    place = record
    for key in path[:-1]:
        place = place[key]
    assert place[path[-1]] != value
    if path[-1] == "dealer":
        value = (place["dealer"] + 1) % 4
    place[path[-1]] = value
    with pytest.raises(ValueError, match=r"."):
        Table.from_record(record)


def test_a_record_with_a_revoke_is_refused_naming_round_and_trick() -> None:
    record = golden("kachuful-4")
    entry = record["rounds"][0]
    for number, trick in enumerate(entry["tricks"], 1):
        led = trick["plays"][0][1]
        for place in range(1, 4):
            seat = (trick["leader"] + place) % 4
            card = trick["plays"][place]
            other = [
                held
                for held in entry["hands"][seat]
                if held[1] != led
                and any(held in later["plays"] for later in entry["tricks"][number:])
            ]
            if card[1] == led and other:
                for later in entry["tricks"][number:]:
                    if other[0] in later["plays"]:
                        later["plays"][later["plays"].index(other[0])] = card
                trick["plays"][place] = other[0]
                with pytest.raises(ValueError, match=rf"(?i)round 1.*trick {number}\b"):
                    Table.from_record(record)
                return
    pytest.fail("the golden match has no seat that could revoke")
