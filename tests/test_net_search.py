"""Strong mode: legal and fair under all rules, led by points or by the policy as `tau` says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judgement_env import Table, make_bot
from judgement_env.bots.net_search import (
    MOST_DECISIONS,
    NetSearchBot,
    decisions_left,
)
from judgement_env.bots.neural import NeuralBot, PolicyBot
from judgement_env.bots.policy import PolicyNetwork
from judgement_env.observation import AT_HAND
from judgement_env.state import Array
from judgement_env.testing import check_bot
from tests.positions import RULE_SETS, positions, random_weights
from tests.tables import bid, card, one_round, play, text

SHIPPED = "models/kachuful+search"


def strong(seed: int = 3, **options: Any) -> NetSearchBot:
    """Strong mode of a network of random weights: it has opinions, and is unsure of many."""
    return NetSearchBot(
        NeuralBot.from_network(PolicyNetwork(random_weights())), seed, **{"worlds": 3, **options}
    )


class Believer(PolicyBot):
    """Bids 3 who holds the ace of spades, else 0; plays the lowest card it may, but not surely."""

    name = "believer"
    greedy = True

    def chances(self, raw: Array, masks: Array) -> Array:
        likes = np.geomspace(1, 0.1, 79) * masks
        has_ace = raw[:, AT_HAND + card("AS")] > 0
        likes[:, 55] *= np.where(has_ace, 1000, 0.001)
        chances: Array = likes / likes.sum(axis=1, keepdims=True)
        return chances


# --- what every bot keeps to ------------------------------------------------------------------


def test_it_keeps_to_all_that_bots_keep_to() -> None:
    assert len(check_bot(strong(worlds=2), positions=2)) > 8


def test_hidden_cards_and_hidden_bids_change_no_answer() -> None:
    bot, compared = strong(), 0
    for number, rules in enumerate(RULE_SETS):
        table = Table(rules, seed=number)
        rng = np.random.default_rng(number)
        for _ in range(20):
            if table.is_over:
                break
            if rng.random() < 0.4:
                view = table.view(table.seat or 0)
                answer = bot.act(view)
                assert answer in view.legal
                rows = np.zeros(1, np.int64)
                assert bot.act_rows(table.rules_array, table.tables_array, rows)[0] == answer
                if not table.tables_array["is_blind"][0]:
                    # The seat's cards stay, all others change places.
                    world = view.sample_tables(rng, 1)
                    assert bot.act_rows(table.rules_array, world, rows)[0] == answer
                compared += 1
            table.push(int(rng.choice(table.legal())))
    assert compared > 100


def test_a_row_does_not_depend_on_the_others() -> None:
    rules, tables, *_ = positions(60, seed=4)
    rows = np.flatnonzero(tables["seat"] >= 0)
    bot = strong()
    together = bot.act_rows(rules, tables, rows)
    assert bot.act_rows(rules, tables, rows[::-1])[::-1].tolist() == together.tolist()
    assert bot.act_rows(rules, tables, rows[::5]).tolist() == together[::5].tolist()


def test_equal_seeds_give_equal_answers_and_others_other_ones() -> None:
    rules, tables, *_ = positions(120, seed=5)
    rows = np.flatnonzero(tables["seat"] >= 0)
    first, again, other = (
        strong(seed, tau=0.01).act_rows(rules, tables, rows).tolist() for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


# --- from a description -----------------------------------------------------------------------


def test_make_bot_knows_it_and_its_options() -> None:
    bot = make_bot(f"{SHIPPED}:worlds=7,tau=0.5", seed=5)
    assert isinstance(bot, NetSearchBot)
    assert (bot.name, bot.worlds, bot.tau, int(bot.seed)) == ("kachuful+search", 7, 0.5, 5)
    assert make_bot(SHIPPED, tau=1).tau == 1.0  # type: ignore[attr-defined]


def test_a_folder_that_is_called_so_is_a_model_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine+search").mkdir()
    with pytest.raises(ValueError, match=r"mine\+search' holds no card.json"):
        make_bot(tmp_path / "mine+search")


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (f"{SHIPPED}:depth=3", r"option 'depth' of 'models/kachuful\+search' .*worlds, tau\)"),
        (f"{SHIPPED}:seed=5,worlds=4", r"option 'seed' of 'models/.*\(allowed: worlds, tau\)"),
        (f"{SHIPPED}:worlds=0", r"worlds: 0 \(allowed: a whole number from 1 to"),
        (f"{SHIPPED}:worlds=2.5", r"worlds: 2.5 \(allowed: a whole number"),
        (f"{SHIPPED}:tau=0", r"tau: 0 \(allowed: a number above 0\)"),
        (f"{SHIPPED}:tau=warm", r"tau: 'warm' \(allowed: a number above 0\)"),
        ("models/nobody+search", r"'models/nobody' \(allowed: .*models/NAME\+search"),
        ("heuristic+search", r"'heuristic\+search' \(allowed: models/NAME\+search"),
    ],
)
def test_what_is_wrong_with_a_description_is_said(spec: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        make_bot(spec)


# --- deciding ---------------------------------------------------------------------------------


def last_to_play(bids: tuple[int, ...]) -> Table:
    """Seat 0 plays last to a trick of hearts, with the ace and the two."""
    table = one_round([["AH", "2H"], ["5H", "2C"], ["6H", "3C"], ["7H", "4C"]], dealer=0)
    bid(table, *bids)
    play(table, "5H", "6H", "7H")
    return table


@pytest.mark.parametrize(("bids", "best"), [((0, 0, 0, 1), "AH"), ((0, 0, 1, 0), "2H")])
def test_points_decide_while_tau_is_small(bids: tuple[int, ...], best: str) -> None:
    bot = NetSearchBot(Believer(), worlds=5)
    assert text(bot.act(last_to_play(bids).view(0))) == best


def test_the_policy_decides_while_tau_is_large() -> None:
    bot = NetSearchBot(Believer(), worlds=5, tau=1e6)
    assert text(bot.act(last_to_play((0, 0, 0, 1)).view(0))) == "2H"


def test_an_action_the_policy_is_sure_of_needs_no_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    table = one_round([["AS", "2C", "3C"], ["4C", "5C", "6C"], ["7C", "8C", "9C"]], dealer=2)
    bot = NetSearchBot(Believer())
    monkeypatch.setattr(bot, "_values", None)
    assert bot.act(table.view(0)) == 55


def test_the_shipped_model_bids_the_three_highest_trumps() -> None:
    hands = [["2C", "3C", "4C"], ["AS", "KS", "QS"], ["2D", "3D", "4D"], ["2H", "3H", "4H"]]
    assert make_bot(SHIPPED, worlds=8).act(one_round(hands, dealer=0).view(1)) == 52 + 3


# --- worlds -----------------------------------------------------------------------------------


def test_a_bid_tells_who_holds_strong_cards() -> None:
    hands = [["2C", "3C", "4C"], ["AS", "KS", "6C"], ["7C", "8C", "9C"], ["TC", "JC", "QC"]]
    shares = []
    for number in (0, 3):
        table = one_round(hands, dealer=0)
        bid(table, number, 0)
        bot = NetSearchBot(Believer(), worlds=200)
        worlds = bot._worlds(table.rules_array, table.tables_array, 0, 1)
        spades = worlds["dealt"][:, 1, 0] >> np.uint64(39)
        shares.append(np.mean([int(word).bit_count() for word in spades]))
    assert shares[1] > shares[0] + 0.5


def test_long_rounds_are_played_out_in_fewer_worlds() -> None:
    bot = NetSearchBot(Believer(), worlds=48)
    rules, tables, *_ = positions(400, seed=9)
    sizes = set()
    for row in np.flatnonzero(tables["seat"] >= 0)[::9]:
        t = tables[row]
        r = rules[t["rules"]]
        worlds = bot._worlds(rules, tables, int(row), 6)
        work = 6 * decisions_left(r, t)
        assert len(worlds) == min(48, MOST_DECISIONS // work)
        sizes.add(len(worlds))
    assert 8 <= min(sizes) < 20
    assert max(sizes) == 48


def test_decisions_left_count_down_to_the_end_of_the_round() -> None:
    table = one_round([["2C", "3C"], ["4C", "5C"], ["6C", "7C"]], dealer=0)
    seen = []
    while not table.is_over:
        seen.append(decisions_left(table.rules_array[0], table.tables_array[0]))
        table.push(table.legal()[0])
    assert seen == [9, 8, 7, 6, 5, 4, 3, 2, 1]
