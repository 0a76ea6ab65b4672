"""The bots that need no training, what every bot offers, and `make_bot`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judgement_env import PRESETS, Rules, Table, make_bot
from judgement_env._jit import njit
from judgement_env.bots import Bot, shipped_models
from judgement_env.bots.rule_player import heuristic_action
from judgement_env.bots.simple import HeuristicBot, RandomBot
from judgement_env.engine import apply_action, begin_match, is_legal, table_key
from judgement_env.state import SETTLED, new_tables, pack_rules
from tests.tables import BID, bid, one_round, play, text

ROOT = Path(__file__).resolve().parent.parent

# Presets at their smallest and largest tables, and every house rule that changes what is seen.
GAMES: dict[str, dict[str, Any]] = {
    **{
        f"{name}-{players}": {"preset": name, "num_players": players}
        for name, rules in PRESETS.items()
        for players in sorted(set(rules.player_range))
    },
    "no-trump": {"trumps": ["NT"], "num_players": 5},
    "simultaneous": {"bidding": "simultaneous", "hook": False, "num_players": 3},
    "two-packs": {"packs": 2, "num_players": 7, "cards": [9, 3]},
    "two-packs-small": {
        "packs": 2,
        "suits": 2,
        "ranks": 4,
        "trumps": ["S", "H", "NT"],
        "cards": [4, 2, 1],
    },
    "blind-simultaneous": {
        "cards": [2, 1],
        "bidding": "simultaneous",
        "hook": False,
        "blind_rounds": [-1],
    },
    "two-players-long": {"num_players": 2, "player_range": [2, 10], "cards": [26, 13]},
    "anticlockwise-turn-up": {
        "direction": "anticlockwise",
        "trumps": "turn-up",
        "num_players": 6,
        "cards": "up-down",
    },
    "ten-players-penalty": {
        "num_players": 10,
        "player_range": [2, 10],
        "scoring": "multiplied-penalty",
        "cards": [5, 4, 1],
    },
    "one-suit": {"suits": 1, "trumps": ["S", "NT"], "num_players": 3, "cards": [4, 2]},
}


def tables_along_the_way(fields: dict[str, Any], matches: int = 2) -> Any:
    """A table before each decision of random matches."""
    rng = np.random.default_rng(11)
    for seed in range(matches):
        table = Table(Rules.from_dict(fields), seed=seed)
        while not table.is_over:
            yield table
            table.push(int(rng.choice(table.legal())))


# --- the heuristic ----------------------------------------------------------------------------


@njit
def count_hits(r: Any, t: Any, rounds: int) -> int:
    """Play single rounds of heuristics only; return how many bids were made exactly."""
    hits = 0
    for match in range(rounds):
        t.match = match
        begin_match(r, t, 0, 0, -1)
        while t.phase < SETTLED:
            apply_action(r, t, heuristic_action(r, t))
        for seat in range(r.num_players):
            hits += int(t.won[seat] == t.bid[seat])
    return hits


# Cards a seat, and the share of their bids that four of them make at least.
HIT_RATES = {1: 0.72, 3: 0.64, 5: 0.60, 7: 0.59}


def hit_rate(cards: int, rounds: int) -> float:
    rules = pack_rules([Rules.preset("kachuful", cards=[cards])])
    tables = new_tables(1)
    tables[0]["key"] = table_key(np.uint64(5), 0)
    return float(count_hits(rules[0], tables[0], rounds)) / (4 * rounds)


@pytest.mark.parametrize("cards", HIT_RATES)
def test_four_heuristics_make_most_of_their_bids(cards: int) -> None:
    # Over 20,000 rounds a rate is known to about 0.002.
    assert hit_rate(cards, 20_000) >= HIT_RATES[cards]


@pytest.mark.slow
@pytest.mark.parametrize("cards", HIT_RATES)
def test_four_heuristics_make_most_of_their_bids_in_many_rounds(cards: int) -> None:
    assert hit_rate(cards, 200_000) >= HIT_RATES[cards]


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("spec", ["heuristic", "heuristic+", "random"])
def test_a_view_and_the_whole_table_get_the_same_legal_action(spec: str, name: str) -> None:
    from_view, from_rows = make_bot(spec, seed=3), make_bot(spec, seed=3)
    row = np.zeros(1, np.int64)
    asked = 0
    for table in tables_along_the_way(GAMES[name]):
        assert table.seat is not None
        action = from_view.act(table.view(table.seat))
        before = table.tables_array.tobytes()
        assert action == from_rows.act_rows(table.rules_array, table.tables_array, row)[0]
        assert table.tables_array.tobytes() == before
        assert action in table.legal()
        asked += 1
    assert asked >= 18


@pytest.mark.parametrize("spec", ["heuristic", "heuristic+", "random"])
def test_rows_are_answered_in_order_each_under_its_own_rules(spec: str) -> None:
    rules = pack_rules([Rules(), Rules.preset("blind-eight", num_players=3), Rules(packs=2)])
    tables = new_tables(7)
    for i in range(7):
        tables[i].key = table_key(np.uint64(1), i)
        tables[i].rules = i % 3
        begin_match(rules[i % 3], tables[i], 0, 0, -1)
    rows = np.array([6, 0, 3, 1, 5])
    actions = make_bot(spec, seed=1).act_rows(rules, tables, rows)
    assert actions.shape == (5,)
    for row, action in zip(rows, actions, strict=True):
        assert is_legal(rules[row % 3], tables[row], action)
        if spec == "heuristic":
            assert action == heuristic_action(rules[row % 3], tables[row])


@pytest.mark.parametrize("spec", ["heuristic", "heuristic+"])
def test_rules_of_thumb_play_the_same_without_compilation(spec: str) -> None:
    program = (
        "import json\n"
        "from judgement_env import Table, make_bot\n"
        f"bot, played = make_bot('{spec}'), []\n"
        "for rules in ('kachuful', {'trumps': ['NT'], 'packs': 2, 'cards': [6, 1]}):\n"
        "    table = Table(rules, seed=9)\n"
        "    while not table.is_over:\n"
        "        table.push(bot.act(table.view(table.seat)))\n"
        "    played += table.actions\n"
        "print(json.dumps(played))\n"
    )
    results = []
    for disabled in ("0", "1"):
        environment = {**os.environ, "NUMBA_DISABLE_JIT": disabled}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        results.append(json.loads(done.stdout))
    assert results[0] == results[1]
    assert len(results[0]) > 150


def heuristic_bids(table: Table) -> int:
    assert table.seat is not None
    return HeuristicBot().act(table.view(table.seat)) - BID


def heuristic_plays(table: Table) -> str:
    assert table.seat is not None
    return text(HeuristicBot().act(table.view(table.seat)))


def test_heuristic_bids_one_on_the_ace_of_trumps_and_none_on_a_two() -> None:
    hands = [["3H"], ["AS"], ["2D"], ["4H"]]
    table = one_round(hands, dealer=0)
    assert heuristic_bids(table) == 1
    bid(table, 1)
    assert heuristic_bids(table) == 0


def test_heuristic_bids_every_trick_it_cannot_lose() -> None:
    table = one_round([["2C", "3C", "4C"], ["AS", "KS", "QS"], ["2D", "3D", "4D"]], dealer=0)
    assert heuristic_bids(table) == 3


def test_heuristic_counts_with_the_hook() -> None:
    hands = [["AS"], ["3C"], ["2D"], ["4H"]]
    table = one_round(hands, dealer=0)
    bid(table, 1, 0, 0)
    assert heuristic_bids(table) == 1
    table = one_round(hands, dealer=0)
    bid(table, 0, 0, 0)
    assert heuristic_bids(table) == 0


def test_heuristic_bids_blind_by_what_the_points_make_of_an_even_chance() -> None:
    hands = [["AS"], ["AC"], ["2D"], ["3D"]]
    few = one_round(hands, blind_rounds=[1])
    assert heuristic_bids(few) == 0
    rich = one_round(hands, blind_rounds=[1], scoring=[[], [[1, 0], [0, 9]]])
    assert heuristic_bids(rich) == 1


def test_heuristic_follows_any_table_of_points() -> None:
    hands = [["2C", "3C"], ["4D", "5D"], ["2H", "3H"]]
    always_two = [[], [[0] * 2] * 2, [[0, 0, 0], [0, 0, 0], [5, 5, 5]]]
    assert heuristic_bids(one_round(hands, scoring=always_two)) == 2


def test_heuristic_takes_a_trick_with_the_cheapest_card_when_it_plays_last_and_needs_more() -> None:
    hands = [["AH", "KH", "JH", "2C"], ["TH", "3C", "4C", "5C"], ["9H", "6D", "7D", "8D"]]
    table = one_round(hands, dealer=0)
    bid(table, 0, 0, 3)
    play(table, "TH", "9H")
    assert heuristic_plays(table) == "JH"


def test_heuristic_takes_the_only_trick_it_needs_with_its_most_dangerous_card() -> None:
    hands = [["AH", "KH", "JH", "2C"], ["TH", "3C", "4C", "5C"], ["9H", "6D", "7D", "8D"]]
    table = one_round(hands, dealer=0)
    bid(table, 0, 0, 1)
    play(table, "TH", "9H")
    assert heuristic_plays(table) in ("KH", "AH")


def test_heuristic_throws_its_highest_loser_once_its_bid_is_made() -> None:
    hands = [["QH", "4H", "3H", "2C"], ["KH", "3C", "4C", "5C"], ["9H", "6D", "7D", "8D"]]
    table = one_round(hands, dealer=0)
    bid(table, 1, 1, 0)
    play(table, "KH", "9H")
    assert heuristic_plays(table) == "QH"


def test_heuristic_with_a_bid_of_nothing_ducks_under_the_card_that_wins() -> None:
    hands = [["AH", "8H", "3H", "2C"], ["TH", "3C", "4C", "5C"], ["9H", "6D", "7D", "8D"]]
    table = one_round(hands, dealer=0)
    bid(table, 1, 1, 0)
    play(table, "TH", "9H")
    assert heuristic_plays(table) == "8H"


def test_heuristic_leads_its_boss_trump_when_it_needs_every_trick() -> None:
    hands = [["AC", "2H", "3H"], ["AS", "KS", "QS"], ["JS", "TS", "2D"]]
    table = one_round(hands, dealer=0)
    bid(table, 3, 0, 1)
    assert heuristic_plays(table) in ("AS", "KS", "QS")


def test_heuristic_leads_its_boss_trump_before_a_card_that_may_be_ruffed() -> None:
    hands = [["AC", "2H", "3H"], ["AS", "QD", "2S"], ["KS", "TS", "2D"]]
    table = one_round(hands, dealer=0)
    bid(table, 3, 0, 2)
    assert heuristic_plays(table) == "AS"


def test_heuristic_does_not_ruff_with_the_boss_where_a_lower_trump_wins() -> None:
    hands = [["AS", "5S", "2C"], ["KH", "3C", "4C"], ["9H", "6D", "7D"]]
    table = one_round(hands, dealer=0)
    bid(table, 0, 0, 2)
    play(table, "KH", "9H")
    assert heuristic_plays(table) == "5S"


def test_heuristic_scores_more_than_chance_in_every_game() -> None:
    bots = {"heuristic": HeuristicBot(), "random": RandomBot(seed=2)}
    for name, fields in GAMES.items():
        totals = {"heuristic": 0.0, "random": 0.0}
        for seed in range(40):
            table = Table(Rules.from_dict(fields), seed=seed)
            players = table.rules.num_players
            names = ["heuristic" if (s + seed) % 2 else "random" for s in range(players)]
            while not table.is_over:
                assert table.seat is not None
                table.push(bots[names[table.seat]].act(table.view(table.seat)))
            for who, total in zip(names, table.totals, strict=True):
                totals[who] += total / names.count(who)
        assert totals["heuristic"] > totals["random"], name


# --- chance -----------------------------------------------------------------------------------


def test_random_takes_each_legal_action_as_often_as_every_other() -> None:
    table = Table("kachuful", seed=2, dealer=0)
    bid(table, 1, 1, 1)
    rows = np.zeros(20_000, np.int64)
    actions = RandomBot(seed=4).act_rows(table.rules_array, table.tables_array, rows)
    counts = np.bincount(actions, minlength=79)
    legal = table.legal()
    assert counts[legal].sum() == 20_000
    # Five standard deviations of a count.
    assert np.abs(counts[legal] - 20_000 / len(legal)).max() < 5 * (20_000 / len(legal)) ** 0.5


def test_random_draws_again_what_its_seed_says() -> None:
    views = [table.view(table.seat or 0) for table in tables_along_the_way({}, matches=1)]
    first, again, other = ([bot.act(view) for view in views] for bot in map(RandomBot, (8, 8, 9)))
    assert first == again != other


def test_policies_are_what_the_bots_do() -> None:
    table = Table("kachuful", seed=2, dealer=0)
    view = table.view(1)
    even = RandomBot().policy(view)
    assert even.shape == (79,)
    assert np.flatnonzero(even).tolist() == table.legal()
    assert np.ptp(even[table.legal()]) == 0
    sure = HeuristicBot().policy(view)
    assert sure[HeuristicBot().act(view)] == sure.sum() == 1


# --- every bot --------------------------------------------------------------------------------


class First(Bot):
    name = "first"
    closed = 0

    def act(self, view: Any) -> int:
        return int(view.legal[0])

    def close(self) -> None:
        self.closed += 1


def test_a_bot_needs_nothing_but_act_and_closes_itself_in_a_with_block() -> None:
    table = Table("kachuful", seed=2)
    with First() as bot:
        while not table.is_over:
            table.push(bot.act(table.view(table.seat or 0)))
        bot.match_over(table.record())
        assert bot.policy(table.view(0)) is None
        assert not bot.has_rows
    assert bot.closed == 1


def test_a_bot_that_defines_nothing_says_so() -> None:
    view = Table("kachuful", seed=2, dealer=0).view(1)
    with pytest.raises(NotImplementedError, match="Bot defines neither act nor act_rows"):
        Bot().act(view)


@pytest.mark.parametrize("spec", ["heuristic", "heuristic+", "random"])
def test_a_bot_refuses_to_act_out_of_turn(spec: str) -> None:
    table = Table({"cards": [1]}, seed=2, dealer=0)
    with pytest.raises(ValueError, match="seat 3 is not to act .*1, whose turn it is"):
        make_bot(spec).act(table.view(3))
    while not table.is_over:
        table.push(table.legal()[0])
    with pytest.raises(ValueError, match="seat 1 is not to act .*the match is over"):
        make_bot(spec).act(table.view(1))


# --- make_bot ---------------------------------------------------------------------------------


def test_make_bot_makes_the_bots_it_names() -> None:
    assert isinstance(make_bot("heuristic"), HeuristicBot)
    assert isinstance(make_bot("random", seed=3), RandomBot)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "heuristics",
            r"bot: 'heuristics' \(allowed: random, heuristic,.*did you mean 'heuristic'",
        ),
        ("ranom", "did you mean 'random'"),
        ("models/no-such-model", r"bot: 'models/no-such-model' \(allowed: random"),
        ("", r"bot: '' \(allowed: random"),
        ("heuristic:depth=3", r"bot: option 'depth' of 'heuristic' \(allowed: none\)"),
        ("heuristic:name=3", r"bot: option 'name' of 'heuristic' \(allowed: none\)"),
        ("search:seed=3", r"bot: option 'seed' of 'search' \(allowed: worlds, exact\)"),
        ("models/kachuful:seed=3", r"option 'seed' of 'models/kachuful' \(allowed: greedy\)"),
        ("random:=3", "bot: option '=3' of 'random:=3'"),
        (
            "ismcts:exact=2,exact=1",
            r"bot: option 'exact' of 'ismcts:exact=2,exact=1' comes twice \(allowed: once\)",
        ),
    ],
)
def test_make_bot_refuses_what_it_does_not_know(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_bot(spec)


@pytest.mark.parametrize("spec", ["random", "heuristic", "models/kachuful"])
@pytest.mark.parametrize("seed", [-1, 1 << 64, 2.5])
def test_make_bot_refuses_a_seed_that_is_none(spec: str, seed: Any) -> None:
    with pytest.raises(ValueError, match=rf"seed: {seed} \(allowed: a whole number from 0 to"):
        make_bot(spec, seed=seed)


def test_make_bot_refuses_an_unknown_option_and_a_thing_that_is_no_text() -> None:
    with pytest.raises(ValueError, match=r"option 'worlds' of 'random' \(allowed: none\)"):
        make_bot("random", worlds=3)
    with pytest.raises((TypeError, ValueError)):
        make_bot(7)  # type: ignore[arg-type]


def test_a_folder_without_a_card_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no card.json"):
        make_bot(tmp_path)


def test_a_folder_of_that_path_goes_before_the_shipped_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "kachuful").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"the folder 'models/kachuful' holds no card\.json"):
        make_bot("models/kachuful")


def test_shipped_models_are_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, folder in shipped_models().items():
        assert (folder / "card.json").is_file()
        with make_bot(f"models/{name}") as bot:
            table = Table("kachuful", seed=2, dealer=0)
            assert bot.act(table.view(1)) in table.legal()


# --- docs -------------------------------------------------------------------------------------


def python_blocks(page: str) -> list[str]:
    blocks = (ROOT / "docs" / page).read_text(encoding="utf-8").split("```python\n")[1:]
    return [block.split("```")[0] for block in blocks]


@pytest.mark.parametrize("number", [0, 1, 6])
def test_the_examples_in_the_docs_run(number: int) -> None:
    block = python_blocks("bots.md")[number]
    done = subprocess.run([sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) == 4


def test_the_comparison_in_the_docs_prints_a_table_of_both_bots() -> None:
    block = python_blocks("bots.md")[3]
    done = subprocess.run([sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Mixed tables" in done.stdout and "over them" in done.stdout


def test_your_bot_in_twenty_lines_is_no_longer() -> None:
    block = python_blocks("bots.md")[1]
    assert "class Cautious(Bot)" in block
    assert len([line for line in block.splitlines() if line.strip()]) <= 20
