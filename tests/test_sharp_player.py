"""heuristic+: its arithmetic, what it knows for certain, and that it beats the heuristic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from judgement_env import PRESETS, Rules, Table, arena, make_bot
from judgement_env.blunders import ask
from judgement_env.bots.rule_player import DUCKED, ROW, VALUES, WANTED
from judgement_env.bots.sharp_player import (
    BASE,
    BID_INPUTS,
    CHANCES,
    FILE,
    FIRST,
    OUTCOMES,
    PLAY_INPUTS,
    SECOND,
    SharpBot,
    begin_estimates,
    constants,
    num_constants,
    write_estimates,
)
from judgement_env.bots.trick_inputs import (
    BID_SHARED,
    PLAY_SHARED,
    TALLY,
    begin_bid,
    sure_tricks,
    write_bid,
)
from judgement_env.state import Array
from tests.tables import BID, bid, one_round, play, text

ROOM = 1152


def bid_of(table: Table) -> int:
    assert table.seat is not None
    return SharpBot().act(table.view(table.seat)) - BID


def card_of(table: Table) -> str:
    assert table.seat is not None
    return text(SharpBot().act(table.view(table.seat)))


# --- arithmetic -------------------------------------------------------------------------------


def in_layers(net: Array, x: Array) -> Array:
    """The outcomes' chances by matrices."""
    num_inputs = len(x)
    sizes = [(num_inputs, FIRST), (FIRST, SECOND), (SECOND, OUTCOMES)]
    start = 0
    for k, (rows, columns) in enumerate(sizes):
        weights = net[start : start + rows * columns].reshape(rows, columns)
        start += rows * columns
        x = x @ weights + net[start : start + columns]
        start += columns
        if k < 2:
            x = np.maximum(x, 0)
    assert start == len(net)
    chances: Array = np.exp(x) / np.exp(x).sum()
    return chances


@pytest.mark.parametrize(
    ("shared", "inputs"), [(BID_SHARED, BID_INPUTS), (PLAY_SHARED, PLAY_INPUTS)]
)
def test_estimates_are_those_of_a_network_of_three_layers(shared: int, inputs: int) -> None:
    rng = np.random.default_rng(3)
    net = rng.normal(size=num_constants(inputs)) * 0.3
    x = np.full(ROOM, np.nan)
    x[:inputs] = rng.normal(size=inputs)
    begin_estimates(net, shared, inputs, x)
    for _ in range(2):
        # Another choice of the same decision.
        x[shared:inputs] = rng.normal(size=inputs - shared)
        write_estimates(net, shared, inputs, x)
        expected = in_layers(net, x[:inputs].copy())
        assert x[CHANCES : CHANCES + OUTCOMES] == pytest.approx(expected)
    assert BASE >= inputs


def test_the_file_holds_the_constants_of_both_networks() -> None:
    found = load_file(FILE)
    assert {name: len(values) for name, values in found.items()} == {
        "bid": num_constants(BID_INPUTS),
        "play": num_constants(PLAY_INPUTS),
    }
    assert FILE.stat().st_size < 64_000
    assert all(np.isfinite(values).all() for values in constants())


def test_tricks_by_chance_are_counted_as_all_ways_to_win_them() -> None:
    table = Table(Rules(cards=[4]), seed=5, dealer=0)
    room, x = np.full(ROOM, np.nan), np.full(ROOM, np.nan)
    record = table.tables_array[0]
    begin_bid(table.rules_array[0], record, room)
    for row, chances in (
        (TALLY, room[WANTED : WANTED + 4]),
        (TALLY + ROW, room[DUCKED : DUCKED + 4]),
    ):
        expected = np.zeros(5)
        for ways in range(16):
            wins = [(ways >> k) & 1 for k in range(4)]
            expected[sum(wins)] += np.prod(np.where(wins, chances, 1 - chances))
        assert room[row + 1 : row + 6] == pytest.approx(expected)
    # Whoever may choose between two chances for each card makes a bid at least as often.
    assert (room[VALUES : VALUES + 5] >= room[TALLY + 1 : TALLY + 6] - 1e-12).all()
    write_bid(table.rules_array[0], record, room, x)
    assert x[0] * 4 == pytest.approx(room[WANTED : WANTED + 4].sum())


# --- what is certain --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hand", "changes", "sure"),
    [
        ("AS KS 2S 3H", {}, 2),
        ("KS QS 2S 3H", {}, 0),
        ("AS QS 2S 3H", {}, 1),
        ("AS AH KH 3H", {}, 1),
        ("AS AH KH 3H", {"trumps": ["NT"]}, 3),
        ("AS KS 2S 3H", {"packs": 2}, 0),
    ],
)
def test_sure_tricks_are_the_cards_that_nothing_unseen_beats(
    hand: str, changes: dict[str, object], sure: int
) -> None:
    hands = [["4D", "5D", "6D", "7D"], hand.split(), ["4C", "5C", "6C", "7C"]]
    table = one_round(hands, dealer=0, **changes)
    assert sure_tricks(table.rules_array[0], table.tables_array[0]) == sure


def test_without_trump_only_the_leader_has_sure_tricks() -> None:
    hands = [["AS", "KS"], ["2D", "3D"], ["AH", "KH"]]
    table = one_round(hands, dealer=0, trumps=["NT"])
    bid(table, 0)
    assert sure_tricks(table.rules_array[0], table.tables_array[0]) == 0


@pytest.mark.parametrize("scoring", ["ten-plus", "high", "medium", "low", "multiplied"])
def test_a_hand_that_wins_every_trick_bids_them_all(scoring: str) -> None:
    table = one_round(
        [["2C", "3C", "4C"], ["AS", "KS", "QS"], ["2D", "3D", "4D"]], dealer=0, scoring=scoring
    )
    assert bid_of(table) == 3


def test_the_hook_never_makes_it_bid_less_than_its_sure_tricks() -> None:
    table = one_round([["AS", "KS", "2H"], ["2C", "3C", "4C"], ["2D", "3D", "4D"]], dealer=0)
    bid(table, 1, 0)
    # 2 is forbidden; with two sure tricks 0 and 1 are lost before a card is played.
    assert bid_of(table) == 3


def test_the_only_card_is_bid_by_what_can_beat_it() -> None:
    hands = [["3H"], ["AS"], ["2D"], ["4H"]]
    table = one_round(hands, dealer=0)
    assert bid_of(table) == 1
    bid(table, 1)
    assert bid_of(table) == 0


def test_it_takes_a_trick_with_the_cheapest_card_when_it_plays_last_and_needs_more() -> None:
    hands = [["AH", "KH", "JH", "2C"], ["TH", "3C", "4C", "5C"], ["9H", "6D", "7D", "8D"]]
    table = one_round(hands, dealer=0)
    bid(table, 0, 0, 3)
    play(table, "TH", "9H")
    assert card_of(table) == "JH"


def test_blind_it_bids_as_the_heuristic_does() -> None:
    table = one_round([["AS"], ["AC"], ["2D"], ["3D"]], blind_rounds=[1])
    assert table.seat is not None
    view = table.view(table.seat)
    assert SharpBot().act(view) == make_bot("heuristic").act(view)


# --- strength ---------------------------------------------------------------------------------

# Matches after which half the interval is well below what it wins.
MATCHES = {"kachuful": 8000, "oh-hell": 16_000, "up-and-down": 8000}


@pytest.mark.parametrize("preset", PRESETS)
def test_it_beats_three_heuristics(preset: str) -> None:
    rules = Rules.preset(preset)
    matches = MATCHES.get(preset, 4000)
    row = arena.one_versus_field(make_bot("heuristic+"), make_bot("heuristic"), rules, matches, 5)
    assert row.low > 0
    # A net of one preset would not do: it must not be luck of one size either.
    assert row.by_cards[0].difference > 0


def test_it_knows_what_any_good_player_knows() -> None:
    assert ask({"heuristic+": make_bot("heuristic+")}).share("heuristic+") >= 0.95


# --- the fit ----------------------------------------------------------------------------------


def test_a_fit_gives_the_same_constants_for_the_same_seed_and_others_for_another(
    tmp_path: Path,
) -> None:
    fit_tricks = pytest.importorskip("training.fit_tricks")
    few = ["--passes=2", "--rows=3000", "--games=20"]
    files = [tmp_path / f"{k}.safetensors" for k in range(3)]
    for file, seed in zip(files, (1, 1, 2), strict=True):
        assert fit_tricks.main([*few, f"--seed={seed}", f"--out={file}"]) == 0
    assert files[0].read_bytes() == files[1].read_bytes() != files[2].read_bytes()
    found = load_file(files[0])
    assert found["bid"].dtype == np.float32
    assert len(found["play"]) == num_constants(PLAY_INPUTS)


def test_a_fit_learns_which_bids_are_made() -> None:
    fit_tricks = pytest.importorskip("training.fit_tricks")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, BID_INPUTS)).astype(np.float32)
    ends = (rows[:, 3] > 0).astype(np.int64) * 3
    loss = fit_tricks.fit(fit_tricks.make_net(BID_INPUTS), rows, ends, 40, 5e-3)
    assert loss < 0.15


def test_what_is_kept_of_play_is_what_the_bot_sees_and_how_rounds_end() -> None:
    fit_tricks = pytest.importorskip("training.fit_tricks")
    from judgement_env.state import pack_rules

    kept = fit_tricks.Rows(6000)
    rules = pack_rules([Rules.preset("kachuful", cards=[5])])
    rounds = kept.fill(rules, 3, constants(), True)
    assert rounds > 100 and len(kept.bids) == len(kept.bid_ends) > 200
    assert np.isfinite(kept.plays).all() and np.isfinite(kept.bids).all()
    made = (kept.bid_ends == OUTCOMES // 2).mean()
    assert 0.3 < made < 0.75
    # Hands of five cards, four players: two inputs that are the same in every row of bids.
    assert np.allclose(kept.bids[:, 4], 5 / 13) and np.allclose(kept.bids[:, 6], 3 / 9)
    # Far from its bid no seat ends more often than near it.
    counts = np.bincount(kept.play_ends, minlength=OUTCOMES)
    assert counts[3] > counts[2] > counts[1] > 0
