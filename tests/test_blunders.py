"""The blunder suite: every right answer is proved, and bots are asked and shown as they should."""

from __future__ import annotations

import importlib.util
import json
import operator
import os
import re
from argparse import ArgumentParser
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from judgement_env import Rules
from judgement_env.blunders import (
    GOALS,
    PROOFS,
    Position,
    Report,
    add_arguments,
    ask,
    find,
    from_round_on,
    main,
    positions,
)
from judgement_env.bots.base import Bot
from judgement_env.bots.simple import HeuristicBot, RandomBot
from judgement_env.cards import BID_OFFSET, is_bid
from judgement_env.view import View
from tests import blunder_proofs as proofs

IS_COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
# Deals that can be gone through where nothing is compiled.
FEW = 3_000
# Of the points of a bid, the least by which a right answer must be ahead of a wrong one.
CLEAR = 0.25
NUM_DRAWN = 500


def of_proof(proof: str) -> list[Position]:
    return [position for position in positions() if position.proof == proof]


def wrong_answers(position: Position) -> list[int]:
    return [action for action in position.view().legal if action not in position.right]


def points_of(position: Position, action: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """The points by tricks won, of the bid the action makes or of the bid made before."""
    view = position.view()
    bid = action - BID_OFFSET if is_bid(action) else view.bids[view.seat]
    row: np.ndarray[tuple[int], np.dtype[np.int32]] = position.rules.points[view.num_cards, bid]
    return row[: view.num_cards + 1]


def most_points(position: Position, game: proofs.AnyOthers, action: int) -> int:
    """The most points the action can lead to, whatever the others hold and do."""
    return int(max(points_of(position, action)[list(game.possible_won(action))]))


# --- the positions ------------------------------------------------------------------------------


def test_there_are_at_least_forty_positions_under_many_rules() -> None:
    assert len(positions()) >= 40
    assert len({position.preset for position in positions()}) >= 5
    assert {position.rules.num_players for position in positions()} >= {3, 4, 5, 6, 8}
    assert {position.proof for position in positions()} == set(PROOFS)
    assert sum(position.proof == "judged" for position in positions()) <= len(positions()) // 5


@pytest.mark.parametrize("position", positions(), ids=lambda position: position.id)
def test_a_position_has_right_answers_and_wrong_ones(position: Position) -> None:
    assert position.name and position.reason.endswith(".") and position.goal in GOALS
    assert set(position.right) <= set(position.view().legal)
    assert position.right and wrong_answers(position)


def test_ids_and_names_are_given_once() -> None:
    for texts in ([p.id for p in positions()], [p.name for p in positions()]):
        assert len(set(texts)) == len(texts)


# --- proofs: each wrong answer is worse, each right one as good as any --------------------------


@pytest.mark.parametrize("position", of_proof("sure"), ids=lambda position: position.id)
def test_a_right_answer_is_sure_of_the_most_points_and_a_wrong_one_is_not(
    position: Position,
) -> None:
    game = proofs.AnyOthers(position.view())
    seat = position.view().seat
    others = [other for other in range(position.rules.num_players) if other != seat]
    for right in position.right:
        sure = points_of(position, right)[position_bid(position, right)]
        assert game.makes_bid(right)
        for wrong in wrong_answers(position):
            if is_bid(wrong):
                is_less_when_made = max(points_of(position, wrong)) < sure
                assert is_less_when_made or most_points(position, game, wrong) < sure
            else:
                assert max(points_of(position, wrong)) == sure
                table = position.table()
                table.push(wrong)
                assert proofs.can_force(table, others, seat, partial(operator.gt, sure))


def position_bid(position: Position, action: int) -> int:
    """The bid an action makes, or that stands when it is played."""
    view = position.view()
    return action - BID_OFFSET if is_bid(action) else view.bids[view.seat]


@pytest.mark.parametrize("position", of_proof("lost"), ids=lambda position: position.id)
def test_a_wrong_answer_earns_the_least_for_certain_and_a_right_one_may_earn_more(
    position: Position,
) -> None:
    game = proofs.AnyOthers(position.view())
    seat = position.view().seat
    everybody = range(position.rules.num_players)
    for wrong in wrong_answers(position):
        most = most_points(position, game, wrong)
        for right in position.right:
            assert most <= min(points_of(position, right))
            table = position.table()
            table.push(right)
            assert proofs.can_force(table, everybody, seat, partial(operator.lt, most))


@pytest.mark.parametrize("position", of_proof("counted"), ids=lambda position: position.id)
def test_a_right_answer_is_ahead_over_all_deals_of_the_hidden_cards(position: Position) -> None:
    if not IS_COMPILED and proofs.number_of_worlds(position.view()) > FEW:
        pytest.skip("so many deals take hours where nothing is compiled")
    counts = proofs.count_worlds(position)
    for right in position.right:
        for wrong in wrong_answers(position):
            assert counts[right].mean > counts[wrong].mean + CLEAR
            # Nor is it behind where the others all play against the seat, or all for it.
            assert counts[right].low >= counts[wrong].low
            assert counts[right].high >= counts[wrong].high


@pytest.mark.skipif(not IS_COMPILED, reason="takes minutes where nothing is compiled")
@pytest.mark.parametrize("position", of_proof("judged"), ids=lambda position: position.id)
def test_a_right_answer_is_clearly_ahead_in_drawn_deals(position: Position) -> None:
    points = proofs.play_worlds(position, NUM_DRAWN, seed=1)
    for right in position.right:
        for wrong in wrong_answers(position):
            ahead = points[right] - points[wrong]
            error = np.std(ahead, ddof=1) / NUM_DRAWN**0.5
            assert np.mean(ahead) > CLEAR + 3 * error


def test_the_most_a_seat_can_make_sure_of_is_found() -> None:
    view = find("one-ruff-with-the-ace").view()
    game = proofs.AnyOthers(view)
    assert [game.possible_won(card) for card in view.legal] == [{2}, {1, 2}]
    assert not any(map(game.makes_bid, view.legal))
    view = find("all-cheap-ruff").view()
    assert [proofs.AnyOthers(view).makes_bid(card) for card in view.legal] == [True, False]


def test_a_count_goes_through_every_deal() -> None:
    # By hand: the nine of trumps stands where three cards of 51 are none of the five above it.
    counts = proofs.count_worlds(find("one-card-middle-trump"))
    stands = (46 * 45 * 44) / (51 * 50 * 49)
    assert counts[BID_OFFSET + 1] == pytest.approx([11 * stands, 11 * stands, 11 * stands])
    assert counts[BID_OFFSET].mean == pytest.approx(10 * (1 - stands))


def test_a_count_refuses_an_action_that_leaves_the_seat_a_choice() -> None:
    with pytest.raises(AssertionError, match="has a choice left"):
        proofs.count_worlds(find("bid-two-top-trumps-no-hook"))


# --- rules of a position ------------------------------------------------------------------------


def test_a_position_stands_in_the_round_of_its_preset_with_hands_of_that_size() -> None:
    kachuful = Rules.preset("kachuful")
    rest = from_round_on(kachuful, 4)
    assert rest.schedule == kachuful.schedule[4:]
    assert from_round_on(kachuful, 0) == kachuful
    blind = Rules.preset("blind-eight", blind_rounds=[7, -1])
    assert from_round_on(blind, 6).schedule == blind.schedule[6:]
    assert from_round_on(blind, 7).schedule == blind.schedule[7:]
    turned = from_round_on(Rules.preset("oh-hell", cards="down", top=4), 2)
    assert turned.is_turn_up and turned.sizes == (2, 1)


# --- asking bots --------------------------------------------------------------------------------


class Fixed(Bot):
    """Gives one answer by position, the first right or the first wrong one."""

    def __init__(self, is_right: bool) -> None:
        self.is_right = is_right
        self.answers = {
            str(position.view()): position.right[0] if is_right else wrong_answers(position)[0]
            for position in positions()
        }

    def act(self, view: View) -> int:
        return self.answers[str(view)]


def test_a_report_counts_right_answers_in_all_and_by_preset() -> None:
    report = ask({"good": Fixed(True), "bad": Fixed(False)})
    number = len(positions())
    assert report.right("good") == number and report.share("good") == 1.0
    assert report.wrong("good") == []
    assert report.right("bad") == 0 and len(report.wrong("bad")) == number
    by_preset = report.by_preset()
    assert sum(by_preset.values()) == number
    assert sum(report.right("good", preset) for preset in by_preset) == number
    plain = json.loads(report.to_json())
    assert [bot["right"] for bot in plain["bots"]] == [number, 0]
    assert plain["by_preset"] == by_preset and len(plain["positions"]) == number


def test_a_table_marks_wrong_answers_and_may_show_these_rows_only() -> None:
    position = find("all-cheap-ruff")
    report = Report((position,), {"a": position.right, "b": (wrong_answers(position)[0],)})
    row = next(line for line in str(report).splitlines() if line.startswith(position.id))
    assert row.split() == [position.id, "3D", "3D", "AD", "x"]
    assert str(report).splitlines()[-1].split() == (
        "all, 1 positions 1 right, 100% 0 right, 0%".split()
    )
    good = Report((position,), {"a": position.right})
    assert position.id in good.text() and position.id not in good.text(is_wrong_only=True)


def test_an_answer_that_is_not_legal_is_refused() -> None:
    class Stuck(Bot):
        def act(self, view: View) -> int:
            return 0

    with pytest.raises(ValueError, match=r"stuck: 0 in all-cheap-ruff \(allowed: 3D, AD\)"):
        ask({"stuck": Stuck()}, [find("all-cheap-ruff")])


def test_the_rules_of_thumb_are_far_above_chance() -> None:
    report = ask({"heuristic": HeuristicBot(), "random": RandomBot(seed=1)})
    assert report.share("random") < 0.6 < report.share("heuristic")


# --- the docs ---------------------------------------------------------------------------------


DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = (DOCS / "blunders.md").read_text(encoding="utf-8")


def test_the_tables_of_the_page_are_those_the_code_generates() -> None:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate_blunders.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.page_with_tables(PAGE) == PAGE, "run: python docs/generate_blunders.py"


def test_the_page_tells_of_every_kind_of_proof_and_its_example_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for proof in PROOFS:
        assert f"| `{proof}` |" in PAGE
    assert f"In {NUM_DRAWN} drawn ones" in PAGE
    [example] = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    exec(example, {})
    assert f"of {len(positions())}" in capsys.readouterr().out


# --- the command --------------------------------------------------------------------------------


def command(*words: str) -> int:
    parser = ArgumentParser()
    add_arguments(parser)
    return main(parser.parse_args(words))


def test_without_bots_every_position_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:-2]] == [position.id for position in positions()]
    assert command("--preset=oh-hell") == 0
    assert capsys.readouterr().out.startswith("bid-turned-up-ace")


def test_a_position_is_shown_as_its_seat_sees_it(capsys: pytest.CaptureFixture[str]) -> None:
    position = find("all-cheap-ruff")
    assert command("--show", position.id, "heuristic") == 0
    text = capsys.readouterr().out
    assert position.name in text and position.reason in text and "seat 0: 3D AD" in text
    # A card of another seat that has not been played.
    assert "8D" not in text
    assert "heuristic" in text and "all, 1 positions" in text
    assert command("--show=none-duck-with-the-ace") == 0
    assert "seat 0 led KH 5H 2H 7C; seat 0 led 3C QC 9C JC\n" in capsys.readouterr().out


def test_the_exit_status_says_whether_every_bot_is_good_enough(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command("random", "--at-least=1") == 1
    assert command("random", "--at-least=0", "--json") == 0
    text = capsys.readouterr().out
    assert json.loads(text[text.index("{") :])["bots"][0]["bot"] == "random"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--show=all-cheap-rufff"], "position: 'all-cheap-rufff' .* did you mean"),
        (["--preset=kachufool"], "--preset: 'kachufool' .*kachuful"),
        (["--preset=kachuful", "--show=all-cheap-ruff"], "--preset: .*beside --show"),
        (["random", "--at-least=2"], r"--at-least: 2 \(allowed: a share from 0 to 1\)"),
        (["random", "--seed=-1"], r"--seed: -1 \(allowed: a whole number from 0\)"),
        (["--json"], "bots: none"),
        (["no-such-bot"], "bot: 'no-such-bot'"),
    ],
)
def test_a_mistake_names_what_was_given_and_what_is_allowed(words: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        command(*words)
