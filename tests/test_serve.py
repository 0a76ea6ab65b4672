from __future__ import annotations

import doctest
import io
import json
import random
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from judgement_env import Rules, Table, make_bot, serve
from judgement_env.bots import Bot, BotError
from judgement_env.view import View

# Blind and simultaneous rounds, turn-ups, two packs, anticlockwise play, many and few seats.
HOUSES = {
    "kachuful": Rules(),
    "turn-up": Rules(num_players=3, cards=[7, 2], trumps="turn-up"),
    "blind": Rules(num_players=5, cards=[3, 1], blind_rounds=[-1]),
    "simultaneous": Rules(num_players=4, cards=[4, 1], bidding="simultaneous", hook=False),
    "two packs": Rules(
        num_players=6, cards=[13], packs=2, trumps=["NT"], direction="anticlockwise"
    ),
    "small pack": Rules(num_players=3, cards=[3, 2], suits=2, ranks=6, trumps="turn-up"),
}
JUDGEMENT = f"{shlex.quote(sys.executable)} -m judgement_env.cli"


def views(rules: Rules, seed: int) -> Iterator[View]:
    """The view of the seat to act at each decision of a match of chance."""
    chance = random.Random(seed)
    table = Table(rules, seed=seed)
    while table.seat is not None:
        view = table.view(table.seat)
        yield view
        table.push(chance.choice(view.legal))


def talk(bot: Bot, *messages: Any) -> list[dict[str, Any]]:
    """What a bot answers to messages."""
    lines = [m if isinstance(m, str) else json.dumps(m) for m in messages]
    sink = io.StringIO()
    serve.serve(bot, lines, sink)
    return [json.loads(line) for line in sink.getvalue().splitlines()]


def start(house: Rules, **changes: Any) -> dict[str, Any]:
    fields = {"protocol": 1, "rules": house.to_dict(), "num_players": house.num_players}
    return {"type": "start", **fields, **changes}


# --- a view from its plain form -----------------------------------------------------------------


@pytest.mark.parametrize("house", HOUSES)
def test_a_view_comes_back_from_its_plain_form_with_all_it_shows_and_hides(house: str) -> None:
    for seed in range(4):
        for view in views(HOUSES[house], seed):
            plain = json.loads(view.to_json())
            again = serve.view_of(plain)
            assert again.to_dict() == plain
            assert (again.observation("uint8") == view.observation("uint8")).all()
            # The bytes too: kernels read them, and hidden things are not in them.
            assert again.tables_array.tobytes() == view.tables_array.tobytes()


def test_a_view_is_taken_as_it_comes_and_not_changed() -> None:
    view = next(views(HOUSES["blind"], 0))
    plain = view.to_dict()
    before = json.dumps(plain)
    serve.view_of(plain)
    assert json.dumps(plain) == before


def broken(**changes: Any) -> dict[str, Any]:
    """The plain form of a view in the middle of a round, with fields of it or its round changed."""
    plain = [view for view in views(HOUSES["turn-up"], 1) if view.is_playing][4].to_dict()
    for name, value in changes.items():
        (plain if name in plain else plain["rounds"][-1])[name] = value
    return plain


@pytest.mark.parametrize(
    ("sheet", "message"),
    [
        (None, r"^view: None \(allowed: an object"),
        ({}, "^view: no field 'seat'$"),
        ({"seat": 0, "legal": []}, "no field 'format'"),
        (broken(seat=7), r"^view: seat 7 \(allowed: 0 to 2\)$"),
        (broken(seat="x"), r"^view: seat 'x' \(allowed: 0 to 2\)$"),
        (broken(legal=["2C"]), r"^view: legal \['2C'\] \(allowed: \["),
        (broken(rounds=[]), "rounds: "),
        (broken(hands=[None, None, None]), r"hands|view: "),
        (broken(bids=[9, 9, 9]), "bids of seat 0: 9"),
        (broken(turn_up="1X"), "turn_up: '1X'"),
        (broken(players=["a", "b"]), "hands"),
        (broken(rules={"num_players": 99}), "^view: rules: num_players: 99"),
    ],
)
def test_what_is_no_view_is_refused_by_name(sheet: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        serve.view_of(sheet)


def test_a_view_of_a_seat_that_is_not_to_act_is_refused() -> None:
    table = Table("kachuful", seed=7, dealer=0)
    with pytest.raises(ValueError, match=r"^view: seat 2 \(allowed: 1, who is to act\)$"):
        serve.view_of(table.view(2).to_dict())


def test_cards_that_no_deal_has_are_refused() -> None:
    plain = broken()
    entry = plain["rounds"][-1]
    hand = entry["hands"][plain["seat"]]
    # A card played by another seat, and held by this one.
    other = next(
        card
        for trick in entry["tricks"]
        for turn, card in enumerate(trick["plays"])
        if (trick["leader"] + turn) % 3 != plain["seat"]
    )
    entry["hands"][plain["seat"]] = [other, *hand[1:]]
    with pytest.raises(ValueError, match=f"^view: {other} is seen more often"):
        serve.view_of(plain)


# --- serving ------------------------------------------------------------------------------------


class Noted(Bot):
    """Takes the first legal action, prints, and keeps what it is told."""

    name = "noted 2"

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def act(self, view: View) -> int:
        print("thinking")
        return view.legal[0]

    def match_over(self, record: dict[str, Any]) -> None:
        self.records.append(record)


def test_each_line_is_answered_with_one_and_prints_go_to_the_error_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = Table("kachuful", seed=7, dealer=0)
    view = table.view(1)
    record = {**table.record(), "seed": None}
    bot = Noted()
    answers = talk(
        bot,
        start(table.rules),
        {"type": "act", "view": view.to_dict()},
        {"type": "end", "record": None},
        {"type": "end", "record": record},
    )
    named = {"ok": True, "name": "noted 2"}
    assert answers == [named, {"action": 0}, {"ok": True}, {"ok": True}]
    assert bot.records == [record]
    said = capsys.readouterr()
    assert said.out == ""
    assert set(said.err.split()) == {"thinking"}


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("hello", r"^line 2: 'hello' \(allowed: one JSON object a line\)$"),
        ("[1]", r"^line 2: '\[1\]' \(allowed: one JSON object a line\)$"),
        ({"type": "bid"}, r"^line 2: type: 'bid' \(allowed: start, act, end\)$"),
        ({}, r"^line 2: type: None \(allowed: start, act, end\)$"),
        ({"type": "act"}, r"^line 2: view: None \(allowed: an object"),
        ({"type": "end", "record": {}}, "^line 2: record: no field 'format'"),
        (start(Rules(), protocol=2), r"^line 2: protocol: 2 \(allowed: 1\)$"),
        (start(Rules(), rules=None), r"^line 2: rules: None \(allowed: an object"),
        (start(Rules(), num_players=5), r"^line 2: num_players: 5 \(allowed: 4, as the rules"),
        (start(Rules(), rules={"hook": 3}), "^line 2: hook: 3"),
    ],
)
def test_what_is_no_message_is_named_with_its_line(message: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        talk(make_bot("heuristic"), start(Rules()), message)


def test_a_served_bot_answers_as_the_bot_itself() -> None:
    bot = make_bot("heuristic")
    with make_bot(f"process:{JUDGEMENT} bot heuristic", start_timeout=600) as served:
        for house in ("kachuful", "blind", "simultaneous"):
            table = Table(HOUSES[house], seed=3)
            while table.seat is not None:
                view = table.view(table.seat)
                action = served.act(view)
                assert action == bot.act(view)
                table.push(action)
            served.match_over(table.record())
        assert served.name == "heuristic"


def run(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "judgement_env.cli", "bot", *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=600)


def test_the_command_ends_cleanly_with_its_input() -> None:
    ended = run("random")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_the_command_says_what_is_wrong_on_the_error_output_alone() -> None:
    ended = run("random", text="nonsense\n")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "judgement bot: line 1: 'nonsense' (allowed: one JSON object a line)\n"
    unknown = run("nobody")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert unknown.stderr.startswith("judgement bot: bot: 'nobody' (allowed: random, ")


def test_a_host_is_told_why_a_served_bot_gave_up() -> None:
    with make_bot(f"process:{JUDGEMENT} bot nobody", start_timeout=600) as served:
        with pytest.raises(BotError, match=r"exit code 2; its last error lines: .*'nobody'"):
            served.act(Table("kachuful", seed=1, dealer=0).view(1))


def test_the_example_in_the_docstring_runs() -> None:
    assert doctest.testmod(serve).failed == 0
