"""The adapter of OpenSpiel's ISMCTS: its positions, its refusals, the protocol."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from judgement_env import Rules, Table, make_bot
from judgement_env.bots import BotError
from judgement_env.cards import NONE, NUM_CARDS, action_to_plain, bid_action, card_text

pyspiel: Any = pytest.importorskip("pyspiel")

SCRIPT = Path(__file__).resolve().parent.parent / "docs" / "examples" / "openspiel_ismcts_bot.py"
QUICK = argparse.Namespace(simulations=8, uct=10.0, seed=0)
# The library this was written for is not the one the tests have: one that says it is.
RENAMED = """
import os, sys
here = os.path.dirname(os.path.abspath(__file__))
sys.path = [path for path in sys.path if os.path.abspath(path) != here]
del sys.modules["pyspiel"]
import pyspiel
pyspiel.__version__ = "1.6.15"
"""


@pytest.fixture(scope="module")
def adapter() -> ModuleType:
    spec = importlib.util.spec_from_file_location("openspiel_ismcts_bot", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tables() -> list[Table]:
    """Matches of every number of seats and several sizes, some with many voids."""
    sizes = [(3, 10), (4, 7), (4, 12), (5, 10), (6, 2), (7, 7)]
    return [
        Table(Rules.preset("oh-hell", num_players=seats, cards=[cards]), seed=cards)
        for seats, cards in sizes
    ]


def state_of(adapter: Any, this: dict[str, Any], seat: int, seed: int) -> Any:
    """OpenSpiel's game at a moment that `seat` sees, each action on the way a legal one."""
    num_players = len(this["hands"])
    game = pyspiel.load_game(f"oh_hell(players={num_players},num_tricks_fixed={this['cards']})")
    state = game.new_initial_state()
    for action in adapter.history(this, adapter.guess(this, seat, random.Random(seed))):
        assert action in state.legal_actions()
        state.apply_action(action)
    return state


def test_cards_have_openspiels_numbers(adapter: Any) -> None:
    state = pyspiel.load_game("oh_hell(players=3,num_tricks_fixed=1)").new_initial_state()
    state.apply_action(1)
    state.apply_action(0)
    for card in range(NUM_CARDS):
        text = card_text(card)
        number = adapter.card_number(text)
        assert state.action_to_string(number) == text[1] + text[0]
        assert adapter.card_text(number) == text


def test_every_view_leads_to_the_same_moment_of_openspiels_game(adapter: Any) -> None:
    chance = random.Random(1)
    for table in tables():
        while table.seat is not None:
            view = table.view(table.seat)
            state = state_of(adapter, view.to_dict()["rounds"][-1], view.seat, 3)
            assert state.current_player() == view.seat
            legal = {action_to_plain(action) for action in view.legal}
            first = adapter.FIRST_BID
            assert legal == {
                a - first if a >= first else adapter.card_text(a) for a in state.legal_actions()
            }
            table.push(chance.choice(view.legal))


def test_a_finished_round_pays_what_openspiel_pays(adapter: Any) -> None:
    chance = random.Random(2)
    for table in tables():
        last: Any = None
        while table.seat is not None:
            view = table.view(table.seat)
            state = state_of(adapter, view.to_dict()["rounds"][-1], view.seat, 3)
            action = chance.choice(view.legal)
            plain = action_to_plain(action)
            state.apply_action(
                plain + adapter.FIRST_BID if isinstance(plain, int) else adapter.card_number(plain)
            )
            last = state
            table.push(action)
        assert last.is_terminal() and last.returns() == table.totals


def test_a_guess_keeps_what_the_seat_knows_and_moves_what_it_does_not(adapter: Any) -> None:
    table = Table(Rules.preset("oh-hell", cards=[7]), seed=3, dealer=0)
    chance = random.Random(3)
    while table.decisions < 16:
        table.push(chance.choice(table.legal()))
    seat = table.seat or 0
    this = table.view(seat).to_dict()["rounds"][-1]
    true = table.record()["rounds"][-1]["hands"]
    played, voids = adapter.shown_cards(this)
    held: list[set[str]] = [set() for _ in true]
    for seed in range(200):
        hands = adapter.guess(this, seat, random.Random(seed))
        assert sorted(hands[seat]) == sorted(true[seat])
        cards = [card for hand in hands for card in hand]
        assert len(set(cards)) == 28 and this["turn_up"] not in cards
        for other, hand in enumerate(hands):
            assert set(played[other]) <= set(hand)
            left = set(hand) - set(played[other])
            assert other == seat or not any(card[1] in voids[other] for card in left)
            held[other] |= left
    # Cards that nobody holds are guessed with the others.
    in_play = {card for hand in true for card in hand}
    assert any(held[other] - in_play for other in range(4) if other != seat)


def test_the_answer_is_legal_for_bids_and_cards(adapter: Any) -> None:
    table = Table(Rules.preset("oh-hell", num_players=3, cards=[3]), seed=3)
    chance = random.Random(0)
    while table.seat is not None:
        view = table.view(table.seat)
        plain = adapter.decide(pyspiel, view.to_dict(), QUICK, chance)
        action = bid_action(plain) if isinstance(plain, int) else plain
        table.push(action)
    assert table.view(0).turn_up != NONE


# --- as a program -----------------------------------------------------------------------------


def run(*words: str, text: str = "", path: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, str(SCRIPT), *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, env=env, timeout=300)


def test_it_plays_through_the_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyspiel.py").write_text(RENAMED, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    rules = Rules.preset("oh-hell", num_players=4, cards=[2])
    command = f"process:{shlex.quote(sys.executable)} {shlex.quote(str(SCRIPT))} --simulations=8"
    with make_bot(command) as bot:
        for seed in range(2):
            table = Table(rules, seed=seed)
            while table.seat is not None:
                table.push(bot.act(table.view(table.seat)))
            bot.match_over(table.record())
        assert bot.name == "open_spiel 1.6.15 ISMCTS-8"
    with make_bot(command) as bot, pytest.raises(BotError, match="scoring: 'ten-plus' .allowed"):
        bot.act(Table(rules.replace(scoring="ten-plus"), seed=0, dealer=0).view(1))


@pytest.mark.skipif(pyspiel.__version__.startswith("1.6."), reason="it is the fair version")
def test_another_version_is_refused_in_one_line() -> None:
    ended = run()
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"openspiel_ismcts_bot: open_spiel {pyspiel.__version__} is")
    assert len(ended.stderr.splitlines()) == 1


def test_a_missing_library_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "pyspiel.py").write_text("raise ImportError\n", encoding="utf-8")
    ended = run(path=str(tmp_path))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        'openspiel_ismcts_bot: open_spiel is not installed (pip install "open_spiel==1.6.*")\n'
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hook": False}, "hook: False (allowed: True, as in the preset oh-hell)"),
        ({"trumps": ["S"]}, "trumps: ['S'] (allowed: 'turn-up', as in the preset oh-hell)"),
        ({"num_players": 8, "cards": [3]}, "num_players: 8 (allowed: 3 to 7)"),
    ],
)
def test_rules_of_another_game_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    (tmp_path / "pyspiel.py").write_text(RENAMED, encoding="utf-8")
    rules = Rules.preset("oh-hell").replace(player_range=(3, 8), **changes)
    start = {"type": "start", "protocol": 1, "rules": rules.to_dict(), "num_players": 4}
    ended = run(text=json.dumps(start) + "\n", path=str(tmp_path))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"openspiel_ismcts_bot: {message}\n"
