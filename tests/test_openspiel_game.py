"""The game that OpenSpiel loads: the engine's tree, information states that keep what is hidden
hidden, a fair resampler, and the values that OpenSpiel's own game of equal rules has."""

from __future__ import annotations

import pickle
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from math import comb, prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judgement_env import Rules, Table
from judgement_env.game_tree import deal_chances, turn_up_chances
from judgement_env.observation import SIZE, as_float

pyspiel = pytest.importorskip(
    "pyspiel", reason="OpenSpiel is not installed: pip install 'judgement-env[openspiel]'"
)

from judgement_env.integrations import openspiel as adapter  # noqa: E402 -- it needs pyspiel

ROOT = Path(__file__).resolve().parent.parent
TINY = "rules=oh-hell,num_players=3,suits=2,ranks=3,top=1"
GAMES = (
    TINY,
    "cards=3 1,num_players=3",
    "rules=blind-eight,cards=2 1,num_players=5,trumps=NT S",
    "rules=up-and-down,num_players=6,round=5",
    "cards=[2 1],packs=2,suits=1,ranks=5,num_players=3,trumps=S NT,first_dealer=2",
    "bidding=simultaneous,cards=3 2,direction=anticlockwise,scoring=multiplied-penalty",
    "rules=oh-hell,hook=off,top=2,packs=2,suits=3,sweep_bonus=10",
)


def load(text: str = TINY) -> Any:
    return pyspiel.load_game(f"python_judgement({text})")


def walk(game: Any, seed: int) -> Iterator[tuple[Any, int]]:
    """The states of a random game, each with the action that is taken there, then the last."""
    rng = random.Random(seed)
    state = game.new_initial_state()
    while not state.is_terminal():
        if state.is_chance_node():
            cards, chances = zip(*state.chance_outcomes(), strict=True)
            action = rng.choices(cards, chances)[0]
        else:
            action = rng.choice(state.legal_actions())
        yield state, action
        state.apply_action(action)
    yield state, -1


def decisions(game: Any, seed: int) -> Iterator[tuple[Any, int]]:
    for state, action in walk(game, seed):
        if state.is_player_node():
            yield state, action


# --- the tree is the engine's -------------------------------------------------------------------


@pytest.mark.parametrize("text", GAMES)
def test_openspiels_own_checks_pass(text: str) -> None:
    pyspiel.random_sim_test(load(text), num_sims=2, serialize=True, verbose=False)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["kachuful", "blind-eight", "up-and-down", "sweep-ten"])
def test_openspiels_own_checks_pass_on_whole_matches(preset: str) -> None:
    pyspiel.random_sim_test(load(f"rules={preset}"), num_sims=1, serialize=True, verbose=False)


@pytest.mark.parametrize("text", GAMES)
def test_legal_actions_rewards_and_returns_are_those_of_a_table(text: str) -> None:
    game = load(text)
    for seed in range(8):
        asked, rewards = [], np.zeros(game.num_players())
        for state, action in walk(game, seed):
            # Rewards last through chance nodes, where nobody reads them.
            if not state.is_chance_node():
                rewards += state.rewards()
            if state.is_player_node():
                asked.append((state.current_player(), state.legal_actions(), action))
        record = state.record()
        table = Table(
            game.rules,
            dealer=record["rounds"][0]["dealer"],
            deals=[sheet["hands"] for sheet in record["rounds"]],
            turn_ups=[sheet["turn_up"] for sheet in record["rounds"]],
        )
        for seat, legal, action in asked:
            assert (table.seat, table.legal()) == (seat, legal)
            table.push(action)
        assert table.is_over
        assert state.returns() == table.totals == record["totals"] == rewards.tolist()
        assert Table.from_record(record).totals == record["totals"]


def test_rewards_come_with_the_round_that_gives_them() -> None:
    game = load("cards=1 1 1,num_players=3")
    given = [state.rewards() for state, _ in walk(game, 3) if not state.is_chance_node()]
    sheets = state_at_the_end(game, 3).record()["rounds"]
    rounds = [rewards for rewards in given if any(rewards)]
    assert rounds == [sheet["points"] for sheet in sheets if any(sheet["points"])]
    assert len(given) == 3 * 6 + 1


def state_at_the_end(game: Any, seed: int) -> Any:
    *_, (state, _) = walk(game, seed)
    return state


@pytest.mark.parametrize("text", GAMES)
def test_what_the_game_says_of_itself_holds(text: str) -> None:
    game = load(text)
    for seed in range(5):
        state = state_at_the_end(game, seed)
        chosen = [a for s, a in decisions(game, seed)]
        assert len(chosen) <= game.max_game_length()
        assert len(state.history()) - len(chosen) <= game.max_chance_nodes_in_history()
        assert all(game.min_utility() <= n <= game.max_utility() for n in state.returns())
    models = pyspiel.GameType.RewardModel
    is_round = game.rules.num_rounds == 1
    assert game.get_type().reward_model == (models.TERMINAL if is_round else models.REWARDS)


@pytest.mark.parametrize(("suits", "ranks", "packs", "cards"), [(2, 3, 1, 2), (1, 3, 2, 2)])
def test_every_deal_of_the_physical_cards_is_equally_likely(
    suits: int, ranks: int, packs: int, cards: int
) -> None:
    rules = Rules(num_players=2, player_range=(2, 2), suits=suits, ranks=ranks, packs=packs,
                  cards=[cards], trumps=["S"])  # fmt: skip
    chances: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(2 * cards):
        chances = {
            (*dealt, card): chance * p
            for dealt, chance in chances.items()
            for card, p in deal_chances(rules.pack, dealt, cards)
        }
    copies = Counter(rules.pack)
    size = len(rules.pack)
    deals = comb(size, cards) * comb(size - cards, cards)
    for dealt, chance in chances.items():
        first, second = Counter(dealt[:cards]), Counter(dealt[cards:])
        ways = prod(
            comb(copies[card], first[card]) * comb(copies[card] - first[card], second[card])
            for card in copies
        )
        assert chance == pytest.approx(ways / deals)
        assert all(list(hand) == sorted(hand) for hand in (dealt[:cards], dealt[cards:]))
    assert sum(chances.values()) == pytest.approx(1)


def test_the_card_turned_up_is_any_physical_card_left() -> None:
    pack = (49, 49, 50, 50, 51, 51)
    assert turn_up_chances(pack, (50, 51)) == [(49, 0.5), (50, 0.25), (51, 0.25)]


# --- what a seat sees -----------------------------------------------------------------------------


@pytest.mark.parametrize("text", GAMES)
def test_a_resampled_state_looks_the_same_to_its_seat_and_plays_on(text: str) -> None:
    game = load(text)
    rng = random.Random(4)
    num_other = 0
    for seed in range(4):
        for state, _ in decisions(game, seed):
            for seat in range(game.num_players()):
                other = state.resample_from_infostate(seat, rng.random)
                num_other += other.history() != state.history()
                for look in ("information_state_string", "observation_string",
                             "information_state_tensor", "observation_tensor"):  # fmt: skip
                    assert getattr(other, look)(seat) == getattr(state, look)(seat)
                assert other.current_player() == state.current_player()
                assert len(other.history()) == len(state.history())
                again = game.new_initial_state()
                for action in other.history():
                    assert action in again.legal_actions()
                    again.apply_action(action)
                assert str(again) == str(other)
                if seat == state.current_player():
                    assert other.legal_actions() == state.legal_actions()
    assert num_other > 20


@pytest.mark.parametrize("text", GAMES)
def test_the_resampler_knows_no_more_than_the_seat(text: str) -> None:
    """States that look alike to a seat are resampled alike, whatever truly lies hidden."""
    game = load(text)
    for seed in range(3):
        for state, _ in decisions(game, seed):
            for seat in range(game.num_players()):
                twin = state.resample_from_infostate(seat, random.Random(seed).random)
                first = state.resample_from_infostate(seat, random.Random(8).random)
                second = twin.resample_from_infostate(seat, random.Random(8).random)
                assert first.history() == second.history()


def test_resampling_takes_openspiels_own_sampler() -> None:
    state, _ = next(decisions(load("top=5"), 1))
    sampler = pyspiel.UniformProbabilitySampler(7, 0.0, 1.0)
    histories = {str(state.resample_from_infostate(0, sampler).history()) for _ in range(5)}
    assert len(histories) == 5


def test_simultaneous_bids_are_hidden_until_all_are_in() -> None:
    state = load("bidding=simultaneous,cards=[2],first_dealer=3").new_initial_state()
    while state.is_chance_node():
        state.apply_action(state.legal_actions()[0])
    for bid in (2, 0, 1):
        state.apply_action(52 + bid)
    assert state.information_state_string(3).endswith("; ? ? ?")
    assert state.information_state_string(1).endswith("; ? 0 ?")
    state.apply_action(54)
    assert state.information_state_string(1).endswith("; 2 0 1 2")


def test_a_blind_round_shows_no_card_before_the_bids_are_in() -> None:
    game = load("rules=blind-eight,round=8,num_players=3")
    bidding = [
        state.information_state_string(p) for state, _ in decisions(game, 2) for p in range(3)
    ]
    assert len(bidding) == 9 and all("hand ;" in text for text in bidding)
    end = state_at_the_end(game, 2)
    sheet = end.record()["rounds"][0]
    assert f"hand {sheet['hands'][1][0]};" in end.information_state_string(1)


def test_information_states_recall_every_own_decision() -> None:
    """Perfect recall: two histories that look alike to a seat looked alike at all its decisions."""
    game = load("num_players=2,player_range=2 2,suits=1,ranks=4,cards=2 1,trumps=S")
    came_by: dict[str, tuple[str, ...]] = {}
    for seed in range(300):
        path: dict[int, list[str]] = {0: [], 1: []}
        for state, action in decisions(game, seed):
            seat = state.current_player()
            text = state.information_state_string()
            tensor = str(state.information_state_tensor())
            assert came_by.setdefault(text, (tensor, *path[seat])) == (tensor, *path[seat])
            path[seat] += [text, str(action)]
    assert 100 < len(came_by)
    assert len({v[0] for v in came_by.values()}) == len(came_by)


def test_the_observation_tensor_is_our_observation() -> None:
    game = load("rules=blind-eight,num_players=3")
    assert game.observation_tensor_shape() == [SIZE]
    for state, _ in decisions(game, 5):
        view = state.view(1)
        assert np.array_equal(
            np.float32(state.observation_tensor(1)), as_float(view.observation("uint8"))
        )
    assert not any(game.new_initial_state().observation_tensor(0))


def test_clones_and_pickles_go_their_own_way() -> None:
    game = load("cards=2 1,num_players=3")
    for state, action in walk(game, 6):
        copies = [state.clone(), pyspiel.deserialize_game_and_state(
            pyspiel.serialize_game_and_state(game, state))[1]]  # fmt: skip
        before = str(state)
        for copy in copies:
            assert (str(copy), copy.history()) == (before, state.history())
            if not copy.is_terminal():
                copy.apply_action(action)
                assert (str(state), copy.history()) == (before, [*state.history(), action])


# --- parameters -----------------------------------------------------------------------------------


def test_parameters_are_the_fields_of_rules() -> None:
    assert set(adapter.UNSET) == set(Rules().to_dict()) | {"rules", "round"}
    assert load("").rules == Rules()
    assert load("top=-1,num_players=3").rules.sizes[0] == 17
    house = load("cards=3 2 1,trumps=S NT,hook=off,blind_rounds=[3],first_dealer=0").rules
    assert house == Rules(cards=[3, 2, 1], trumps=["S", "NT"], hook=False, blind_rounds=[3],
                          first_dealer=0)  # fmt: skip
    third = load("rules=up-and-down,num_players=5,round=3").rules
    assert third.schedule == (Rules.preset("up-and-down", num_players=5).schedule[2],)


def test_any_rules_survive_the_games_text() -> None:
    rules = Rules(cards=[2, 1], scoring=lambda bid, won, cards: bid * won - cards, num_players=3)
    game = pyspiel.load_game("python_judgement", adapter.game_parameters(rules))
    assert game.rules == rules
    assert pyspiel.load_game(str(game)).rules == rules
    assert pickle.loads(pickle.dumps(game)).rules == rules
    written = pyspiel.load_game(
        "python_judgement", {"rules": '{"cards": [2, 1], "num_players": 3}'}
    )
    assert pyspiel.load_game(str(written)).rules == Rules(cards=[2, 1], num_players=3)
    commas = pyspiel.load_game("python_judgement", {"cards": "[2, 1]", "trumps": "S,NT"})
    assert pyspiel.load_game(str(commas)).rules == Rules(cards=[2, 1], trumps=["S", "NT"])


def test_wrong_parameters_name_field_value_and_allowed_range() -> None:
    with pytest.raises(ValueError, match="num_players: 11 .*allowed.*3 to 8"):
        load("num_players=11")
    with pytest.raises(ValueError, match="round: 8 .*1 to 7"):
        load("round=8")
    with pytest.raises(ValueError, match="rules: 'kachufool'"):
        load("rules=kachufool")
    with pytest.raises(ValueError, match="trumps"):
        load("trumps=X")
    with pytest.raises(ValueError, match="unknown parameter 'player'.*num_players"):
        adapter.JudgementGame({"player": 3})
    state = load().new_initial_state()
    with pytest.raises(ValueError, match="chance node"):
        state.resample_from_infostate(0, random.random)
    with pytest.raises(ValueError, match="player: 3 .*0 to 2"):
        state.information_state_string(3)
    while state.is_chance_node():
        state.apply_action(state.legal_actions()[0])
    with pytest.raises(ValueError, match="action: 60 .*bid 0, bid 1"):
        state.apply_action(60)
    kinds = pyspiel.IIGObservationType(public_info=False, perfect_recall=True)
    with pytest.raises(ValueError, match="iig_obs_type"):
        load().make_py_observer(kinds)


# --- algorithms -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "simulations"), [(TINY, 40), ("round=5", 25)])
def test_ismcts_plays_a_whole_round(text: str, simulations: int) -> None:
    from open_spiel.python.algorithms.ismcts import ISMCTSBot
    from open_spiel.python.algorithms.mcts import RandomRolloutEvaluator

    game = load(text)
    rng = np.random.RandomState(1)
    bot = ISMCTSBot(
        game, RandomRolloutEvaluator(1, rng), uct_c=10.0, max_simulations=simulations,
        random_state=rng,
    )  # fmt: skip
    bot.set_resampler(lambda state, seat: state.resample_from_infostate(seat, rng.random_sample))
    state = game.new_initial_state()
    while not state.is_terminal():
        if state.is_chance_node():
            cards, chances = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(int(rng.choice(cards, p=chances)))
            continue
        action = int(bot.step(state))
        assert action in state.legal_actions()
        state.apply_action(action)
    assert state.returns() == [float(n) for n in state.record()["totals"]]


def own_game(ranks: int) -> Any:
    """OpenSpiel's own game of three seats, two suits and one trick."""
    return pyspiel.load_game(
        f"oh_hell(players=3,num_suits=2,num_cards_per_suit={ranks},num_tricks_fixed=1)"
    )


def our_game(ranks: int, more: str = "") -> Any:
    """The same game here.

    Both draw the dealer, deal a card to each and turn one up; its suit is trump. Both bid 0 or 1
    from the dealer's next on, the last not so as to make one in all; the trick follows suit, and
    pays one, and ten to each bid made. Only the names of suits, ranks and actions differ, and an
    information state of either tells the same: dealer, own card, turn-up, bids and plays.
    """
    return load(f"rules=oh-hell,num_players=3,suits=2,ranks={ranks},top=1{more}")


def uniform_nash_conv(game: Any) -> float:
    return float(pyspiel.nash_conv(game, pyspiel.UniformRandomPolicy(game)))


def solved_nash_conv(game: Any, iterations: int) -> float:
    solver = pyspiel.CFRPlusSolver(game)
    for _ in range(iterations):
        solver.evaluate_and_update_policy()
    return float(pyspiel.nash_conv(game, solver.average_policy()))


def test_four_cards_have_the_value_of_openspiels_own_game_and_are_solved() -> None:
    game = our_game(2)
    value = uniform_nash_conv(own_game(2))
    assert uniform_nash_conv(game) == pytest.approx(value, abs=1e-9)
    assert value > 1
    assert solved_nash_conv(game, 12) < value / 10


@pytest.mark.slow
def test_six_cards_have_the_value_of_openspiels_own_game() -> None:
    assert uniform_nash_conv(own_game(3)) == pytest.approx(8.25, abs=1e-9)
    assert uniform_nash_conv(our_game(3)) == pytest.approx(8.25, abs=1e-9)


@pytest.mark.slow
def test_cfr_solves_six_cards() -> None:
    """The dealer is fixed, which makes a third of the tree: everybody knows who deals, so the game
    with a drawn dealer is three such games side by side, alike but for the seats' numbers."""
    game = our_game(3, ",first_dealer=0")
    assert uniform_nash_conv(game) == pytest.approx(8.25, abs=1e-9)
    assert solved_nash_conv(game, 6) < 8.25 / 10


# --- the page -------------------------------------------------------------------------------------


def test_the_pages_code_runs() -> None:
    page = (ROOT / "docs" / "openspiel.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert len(blocks) == 1
    run = subprocess.run(
        [sys.executable, "-c", blocks[0]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("seat ") and "NashConv of uniform play:" in run.stdout


def test_the_example_runs_and_learns() -> None:
    example = ROOT / "docs" / "examples" / "openspiel_example.py"
    options = ["--iterations", "6", "--rounds", "2", "--simulations", "10"]
    run = subprocess.run(
        [sys.executable, str(example), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    uniform, learnt = map(float, re.findall(r"(?:uniform|CFR\+) (\d+\.\d+)", run.stdout))
    assert learnt < uniform / 2
    assert "Points a round: ISMCTS" in run.stdout
