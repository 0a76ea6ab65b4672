"""Random matches agree with the slow rulebook on every mask, trick winner, point and total.

Each match is played through Table, PettingZoo and BatchEnv. Its deals are read from the package's
record (or from the cards a batch row played) and given to the rulebook, which shares no code
with the package. `digest` is also run without compilation, in another process.
"""

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from judgement_env import BatchEnv, Rules, Table, judgement_v0
from tests.reference import (
    FIRST_BID,
    NUM_ACTIONS,
    PRESET_NAMES,
    Deals,
    Fields,
    Match,
    action_card,
    preset,
    schedule,
)
from tests.strategies import (
    VALUES,
    all_pairs,
    covering_rules,
    house_rules,
    pairs_of,
    playable_pairs,
)

Step = tuple[int, list[int], int]

PRESETS_AND_PLAYERS = [
    (name, players)
    for name in PRESET_NAMES
    for players in range(preset(name)["player_range"][0], preset(name)["player_range"][1] + 1)
]


def playing_rules(fields: Fields) -> Rules:
    return Rules.preset("kachuful", **fields)


def mask_of(legal: list[int]) -> list[int]:
    mask = [0] * NUM_ACTIONS
    for action in legal:
        mask[action] = 1
    return mask


def choose(legal: list[int], rng: random.Random) -> int:
    """A legal action; bids lean low, so that some are made."""
    if legal[0] >= FIRST_BID:
        return legal[min(rng.randrange(len(legal)), rng.randrange(len(legal)))]
    return rng.choice(legal)


def deals_in(record: dict[str, Any]) -> tuple[Deals, int, list[str | None]]:
    rounds = record["rounds"]
    return (
        [entry["hands"] for entry in rounds],
        rounds[0]["dealer"],
        [entry["turn_up"] for entry in rounds],
    )


def without_heading(record: dict[str, Any]) -> dict[str, Any]:
    """What the rules decide in a record."""
    return {key: record[key] for key in ("format", "players", "rounds", "totals", "winners")}


def play_table(rules: Rules, seed: int, rng: random.Random) -> tuple[dict[str, Any], list[Step]]:
    """A match at a `Table`: its record, and (seat, legal actions, action) of every decision."""
    table = Table(rules, seed=seed)
    steps: list[Step] = []
    while not table.is_over:
        legal = [int(action) for action in table.legal()]
        action = choose(sorted(legal), rng)
        steps.append((int(table.seat), legal, action))
        table.push(action)
    return table.record(), steps


def check_table(fields: Fields, record: dict[str, Any], steps: list[Step]) -> None:
    deals, dealer, turn_ups = deals_in(record)
    match = Match(fields, deals, dealer, turn_ups)
    if fields["first_dealer"] is not None:
        assert dealer == fields["first_dealer"]
    for seat, legal, action in steps:
        assert (seat, sorted(legal)) == (match.seat, match.legal())
        match.push(action)
    assert match.is_over
    assert without_heading(match.record()) == without_heading(record)


def check_views(fields: Fields, record: dict[str, Any], steps: list[Step], every: int) -> None:
    """Views and records in mid-match say what the rulebook says, for every seat."""
    deals, dealer, turn_ups = deals_in(record)
    match = Match(fields, deals, dealer, turn_ups)
    table = Table(playing_rules(fields), seed=record["seed"])
    for count, (_, _, action) in enumerate(steps):
        if count % every == 0:
            heading = {
                key: table.record()[key]
                for key in ("env_version", "rules", "seed", "table", "match")
            }
            assert table.record() == match.record(**heading)
            for seat in range(match.num_players):
                assert json.loads(table.view(seat).to_json()) == match.view(seat, **heading)
        table.push(action)
        match.push(action)


def check_aec(
    fields: Fields, record: dict[str, Any], steps: list[Step], seen_before: list[Any], wrapped: bool
) -> None:
    """The same match through PettingZoo: turns, masks, rewards, observations, record."""
    env = (judgement_v0.env if wrapped else judgement_v0.raw_env)(rules=playing_rules(fields))
    env.reset(seed=record["seed"])
    totals = dict.fromkeys(env.possible_agents, 0.0)
    points = iter([entry["points"] for entry in record["rounds"]])
    last_of_round = {id(decisions[-1]) for decisions in rounds_of(fields, steps)}
    nothing = [0] * fields["num_players"]
    for step, observation in zip(steps, seen_before, strict=True):
        seat, legal, action = step
        agent = f"player_{seat}"
        assert env.agent_selection == agent
        seen, _, terminated, truncated, info = env.last()
        assert not terminated and not truncated
        assert seen["action_mask"].tolist() == mask_of(legal)
        assert info["action_mask"].tolist() == mask_of(legal)
        assert np.array_equal(seen["observation"], observation)
        for other in env.agents:
            if other != agent:
                assert not env.infos[other]["action_mask"].any()
        env.step(action)
        gained = [env.rewards[name] for name in env.possible_agents]
        assert gained == (next(points) if id(step) in last_of_round else nothing)
        for name in env.possible_agents:
            totals[name] += env.rewards[name]
    assert all(env.terminations.values())
    assert list(totals.values()) == record["totals"]
    while env.agents:
        env.step(None)
    assert without_heading(env.unwrapped.record()) == without_heading(record)


class Row:
    """What one row of a batch did since its match began."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.rewards: list[list[float]] = []
        self.observations: list[Any] = []


def play_batch(
    rules: Rules,
    num_tables: int,
    seed: int,
    rng: random.Random,
    first_row: list[Step],
    matches: int,
) -> list[list[Row]]:
    """Every row played for so many matches, row 0 beginning with the given steps."""
    batch = BatchEnv(rules, num_tables=num_tables, seed=seed)
    batch.reset()
    rows: list[list[Row]] = [[Row()] for _ in range(num_tables)]
    actions = np.zeros(num_tables, np.int64)
    forced = iter(first_row)
    while any(len(history) <= matches for history in rows):
        for i in range(num_tables):
            legal = np.flatnonzero(batch.action_mask[i]).tolist()
            action = choose(legal, rng)
            if i == 0:
                action = next(forced, (0, legal, action))[2]
            actions[i] = action
            rows[i][-1].steps.append((int(batch.seat[i]), legal, action))
            rows[i][-1].observations.append(batch.observation[i].copy())
        batch.step(actions)
        for i in range(num_tables):
            rows[i][-1].rewards.append(batch.reward[i, : rules.num_players].tolist())
            if batch.done[i]:
                rows[i].append(Row())
    return [history[:matches] for history in rows]


def observations_of(rules: Rules, seed: int, steps: list[Step]) -> list[Any]:
    """What the view of the seat to act shows before every decision of a match at a `Table`."""
    table = Table(rules, seed=seed)
    seen = []
    for seat, _, action in steps:
        seen.append(table.view(seat).observation())
        table.push(action)
    return seen


def rounds_of(fields: Fields, steps: list[Step]) -> Iterator[list[Step]]:
    """The decisions of a match, round by round; a blind round has its bids only."""
    players = fields["num_players"]
    blind = {n if n > 0 else len(schedule(fields)) + 1 + n for n in fields["blind_rounds"]}
    start = 0
    for number, size in enumerate(schedule(fields), 1):
        count = players if number in blind else players * (1 + size)
        yield steps[start : start + count]
        start += count
    assert start == len(steps)


def check_row_by_its_plays(fields: Fields, row: Row) -> None:
    """Deal the rulebook the cards each seat went on to play, and compare masks and points."""
    players = fields["num_players"]
    deals: Deals = []
    for decisions in rounds_of(fields, row.steps):
        hands: list[list[str]] = [[] for _ in range(players)]
        for seat, _, action in decisions:
            if action < FIRST_BID:
                hands[seat].append(action_card(action))
        deals.append(hands)
    forward = fields["direction"] == "clockwise"
    dealer = (row.steps[0][0] + (-1 if forward else 1)) % players
    match = Match(fields, deals, dealer)
    for (seat, legal, action), rewards in zip(row.steps, row.rewards, strict=True):
        assert (seat, legal) == (match.seat, match.legal())
        before = list(match.totals)
        match.push(action)
        assert rewards == [now - then for now, then in zip(match.totals, before, strict=True)]
    assert match.is_over


def check_row_at_its_table(fields: Fields, seed: int, i: int, number: int, row: Row) -> None:
    """Row `i` of a batch, in its match `number` from 0, is the table of that name."""
    table = Table(playing_rules(fields), seed=seed, table=i, match=number)
    for (seat, legal, action), seen in zip(row.steps, row.observations, strict=True):
        assert (table.seat, table.legal()) == (seat, legal)
        assert np.array_equal(table.view(seat).observation(), seen)
        table.push(action)
    record = table.record()
    assert (record["table"], record["match"]) == (i, number)
    check_table(fields, record, row.steps)
    assert np.sum(row.rewards, axis=0).tolist() == record["totals"]


def check_everywhere(fields: Fields, seed: int) -> int:
    """One match on every surface; the number of decisions compared."""
    rng = random.Random(seed)
    rules = playing_rules(fields)
    record, steps = play_table(rules, seed, rng)
    check_table(fields, record, steps)
    check_views(fields, record, steps, every=max(1, len(steps) // 6))
    seen = observations_of(rules, seed, steps)
    check_aec(fields, record, steps, seen, wrapped=seed % 2 == 0)
    rows = play_batch(rules, 3, seed, rng, steps, matches=1)
    assert rows[0][0].steps == steps
    assert np.array_equal(rows[0][0].observations, seen)
    assert np.sum(rows[0][0].rewards, axis=0).tolist() == record["totals"]
    for i in (1, 2):
        check_row_at_its_table(fields, seed, i, 0, rows[i][0])
        # A blind trick is nobody's decision and a turned-up card nobody's play, so the plays
        # of such a row do not tell its deal.
        if fields["trumps"] != "turn-up" and not fields["blind_rounds"]:
            check_row_by_its_plays(fields, rows[i][0])
    return len(steps)


@pytest.mark.parametrize(("name", "players"), PRESETS_AND_PLAYERS)
def test_every_preset_agrees_with_the_slow_rulebook_for_every_player_count(
    name: str, players: int
) -> None:
    for seed in (players, players + 101):
        check_everywhere(preset(name, num_players=players), seed)


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_the_package_knows_a_preset_by_the_same_fields(name: str) -> None:
    assert playing_rules(preset(name)) == Rules.preset(name)


def test_every_pair_of_values_that_can_be_played_together_meets_in_the_covering_rules() -> None:
    met = set()
    for fields in covering_rules():
        places = {name: values.index(fields[name]) for name, values in VALUES.items()}
        met |= pairs_of(places)
    assert met == set(playable_pairs())
    assert len(met) > 2000


def test_pairs_that_never_meet_contradict_each_other_and_are_refused() -> None:
    never = set(all_pairs()) - set(playable_pairs())
    named = {
        (first, str(VALUES[first][i]), second, str(VALUES[second][j]))
        for (first, i), (second, j) in never
    }
    lists = [str(value) for value in VALUES["cards"] if isinstance(value, list)]
    expected = {("hook", "True", "bidding", "simultaneous")}
    expected |= {("cards", sizes, "top", top) for sizes in lists for top in ("1", "3", "max")}
    expected |= {("cards", sizes, "blind_rounds", "[1]") for sizes in lists if sizes != "[1]"}
    expected |= {("trumps", str(["S", "D", "C", "H"]), "suits", n) for n in "123"}
    expected |= {("trumps", str(["H", "NT", "S"]), "suits", "1")}
    assert named == expected
    for (first, i), (second, j) in never:
        with pytest.raises(ValueError, match=rf"^({first}|{second}|trumps|top)\b"):
            Rules.preset(
                "kachuful", **{"top": 1, first: VALUES[first][i], second: VALUES[second][j]}
            )


@pytest.mark.parametrize("index", range(len(covering_rules())))
def test_house_rules_agree_with_the_slow_rulebook_in_every_pair(index: int) -> None:
    assert check_everywhere(covering_rules()[index], seed=index) > 0


@settings(max_examples=60)
@given(fields=house_rules())
def test_any_mixture_of_house_rules_agrees_with_the_slow_rulebook(fields: Fields) -> None:
    check_everywhere(fields, seed=3)


@pytest.mark.slow
@given(fields=house_rules())
def test_many_mixtures_of_house_rules_agree_with_the_slow_rulebook(fields: Fields) -> None:
    check_everywhere(fields, seed=4)


@pytest.mark.parametrize("name", ["kachuful", "up-and-down"])
def test_rows_of_a_batch_go_on_to_further_matches_by_the_same_rules(name: str) -> None:
    fields = preset(name, num_players=5, top=3)
    rows = play_batch(playing_rules(fields), 7, 5, random.Random(1), [], matches=4)
    for i, history in enumerate(rows):
        for number, row in enumerate(history):
            check_row_by_its_plays(fields, row)
            check_row_at_its_table(fields, 5, i, number, row)
    deals = {str([step[1] for step in row.steps]) for history in rows for row in history}
    assert len(deals) == 28


def test_a_reset_without_a_seed_goes_on_to_the_next_match_of_the_same_seed() -> None:
    rules = Rules.preset("kachuful", num_players=5, top=2)
    env = judgement_v0.raw_env(rules=rules)
    env.reset(seed=11)
    for number in range(3):
        assert env.record()["rounds"] == Table(rules, seed=11, match=number).record()["rounds"]
        assert env.record()["match"] == number
        while not all(env.terminations.values()):
            env.step(int(env.observe(env.agent_selection)["action_mask"].argmax()))
        env.reset()


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_a_match_read_back_from_its_record_goes_on_to_the_same_deals(name: str) -> None:
    rules = Rules.preset(name)
    table = Table(rules, seed=13, table=3, match=2)
    rng = random.Random(name)
    actions = []
    while not table.is_over:
        actions.append(choose(table.legal(), rng))
        table.push(actions[-1])
    for count in rng.sample(range(len(actions)), 5):
        again = Table(rules, seed=13, table=3, match=2)
        for action in actions[:count]:
            again.push(action)
        copy = Table.from_record(json.loads(json.dumps(again.record())))
        assert copy.record() == again.record()
        assert Table.from_record(table.record(), decisions=count).record() == again.record()
        for action in actions[count:]:
            copy.push(action)
        assert copy.record() == table.record()


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_a_row_deals_the_same_cards_at_any_number_of_tables(name: str) -> None:
    rules = Rules.preset(name)
    small = play_batch(rules, 3, 9, random.Random(2), [], matches=1)
    batches = [BatchEnv(rules, num_tables=count, seed=9) for count in (3, 64)]
    for batch in batches:
        batch.reset()
    for step in range(len(small[1][0].steps)):
        for batch in batches:
            assert batch.observation[1].tolist() == small[1][0].observations[step].tolist()
            actions = np.array([np.flatnonzero(mask)[0] for mask in batch.action_mask])
            actions[1] = small[1][0].steps[step][2]
            batch.step(actions)


def test_the_same_seed_deals_the_same_cards_at_every_surface() -> None:
    rules = Rules.preset("kachuful", num_players=5)
    for seed in (0, 1, 7, 2**31, 2**40 + 3):
        record = Table(rules, seed=seed).record()
        env = judgement_v0.raw_env(rules=rules)
        env.reset(seed=seed)
        assert env.record()["rounds"] == record["rounds"]
        batch = BatchEnv(rules, num_tables=2, seed=seed)
        batch.reset()
        table = Table(rules, seed=seed)
        assert batch.seat[0] == table.seat
        assert np.array_equal(batch.observation[0], table.view(table.seat).observation())


@pytest.mark.parametrize("name", ["kachuful", "blind-eight", "up-and-down", "oh-hell"])
def test_an_episode_of_one_round_is_that_round_of_the_schedule(name: str) -> None:
    fields = preset(name)
    env = judgement_v0.raw_env(rules=playing_rules(fields), episode="round")
    rng = random.Random(name)
    for number in range(1, len(schedule(fields)) + 1):
        env.reset(seed=number, options={"round": number})
        steps: list[Step] = []
        while not all(env.terminations.values()):
            seat = int(env.agent_selection.rsplit("_", 1)[1])
            seen = env.observe(env.agent_selection)
            legal = np.flatnonzero(seen["action_mask"]).tolist()
            steps.append((seat, legal, choose(legal, rng)))
            env.step(steps[-1][2])
        record = env.record()
        assert len(record["rounds"]) == 1
        deals, dealer, turn_ups = deals_in(record)
        match = Match(fields, deals, dealer, turn_ups, only_round=number)
        for seat, legal, action in steps:
            assert (seat, legal) == (match.seat, match.legal())
            match.push(action)
        assert match.is_over
        assert without_heading(match.record()) == without_heading(record)


def digest() -> str:
    """A hash of masks, observations, rewards and records of a varied set of matches."""
    total = hashlib.sha256()
    cases = [
        preset("kachuful", num_players=3, top=4),
        preset("blind-eight", num_players=5),
        preset("oh-hell", num_players=7, top=3),
        preset("up-and-down", top=3),
        preset("sweep-ten-anticlockwise", top=3),
        *covering_rules()[::20],
    ]
    for seed, fields in enumerate(cases):
        rules = playing_rules(fields)
        rng = random.Random(seed)
        record, steps = play_table(rules, seed, rng)
        total.update(json.dumps([record, steps]).encode())
        for history in play_batch(rules, 2, seed, rng, steps, matches=1):
            for row in history:
                total.update(json.dumps([row.steps, row.rewards]).encode())
                total.update(np.array(row.observations).tobytes())
    return total.hexdigest()


def test_results_are_the_same_without_compilation() -> None:
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    done = subprocess.run(
        [sys.executable, "-c", "from tests.test_parity import digest; print(digest())"],
        cwd=root,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == digest()
