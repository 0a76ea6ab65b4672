"""What a seat may not know never changes what it is shown: its view, observation, mask and infos.

A position is reached by random play in the slow rulebook. Then all that the seat cannot see is
made anew: the others' unplayed cards and the stock (so that each play made so far stays legal), its
own cards while they lie face down, the rounds to come, hidden bids, and the seed. Both worlds are
played to the same position through the package and compared.
"""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from judgement_env import Rules, Table, judgement_v0
from judgement_env.state import TABLE_RECORD
from tests.reference import (
    FIRST_BID,
    PRESET_NAMES,
    Deals,
    Fields,
    Match,
    pack_of,
    preset,
    random_deals,
)

WIDE = {"player_range": [2, 10]}
FINGERS = {"hook": False, "bidding": "simultaneous"}
CASES: dict[str, Fields] = {
    **{name: preset(name) for name in PRESET_NAMES},
    "ten players": preset("up-and-down", num_players=10),
    "fingers": preset("kachuful", **FINGERS, num_players=3, top=4),
    "two packs": preset("kachuful", packs=2, num_players=5, top=5),
    "two packs, all cards out": preset(
        "kachuful", **WIDE, packs=2, suits=1, ranks=6, num_players=3, cards=[4, 2], trumps=["S"]
    ),
    "two packs, fingers, turned up": preset(
        "kachuful", **FINGERS, packs=2, trumps="turn-up", num_players=3, cards=[3, 2]
    ),
    "blind rounds": preset(
        "blind-eight", cards=[1, 2, 1, 1], blind_rounds=[1, 3, -1], num_players=5
    ),
    "blind, turned up": preset(
        "blind-eight", cards=[1, 3, 1], blind_rounds=[1, 3], trumps="turn-up", num_players=3
    ),
    "blind, fingers, two packs": preset(
        "blind-eight", **FINGERS, cards=[1, 3, 1], blind_rounds=[1, 3], packs=2, num_players=4
    ),
    "anticlockwise, no trump": preset(
        "kachuful", direction="anticlockwise", trumps=["NT", "S"], num_players=5, top=5
    ),
    "small pack": preset(
        "kachuful", suits=2, ranks=7, trumps=["S", "H"], num_players=3, top=4, hook=False
    ),
}
POSITIONS_PER_CASE = 24


@dataclass
class World:
    """One way the cards may lie, and the actions that lead to the position."""

    deals: Deals
    turn_ups: list[str | None]
    dealer: int
    actions: list[int]
    seed: int


def reach(
    rules: Fields, deals: Deals, turn_ups: list[Any], dealer: int, actions: list[int]
) -> Match:
    match = Match(rules, deals, dealer, turn_ups)
    for action in actions:
        match.push(action)
    return match


def random_position(rules: Fields, rng: random.Random) -> World:
    """A position with a seat to act: any round alike, every other one blind where some are."""
    deals, turn_ups = random_deals(rules, rng)
    dealer = rng.randrange(rules["num_players"])
    match = Match(rules, deals, dealer, turn_ups)
    actions: list[int] = []
    positions: list[list[int]] = []
    while not match.is_over:
        if len(positions) < len(match.rounds):
            positions.append([])
        positions[-1].append(len(actions))
        actions.append(rng.choice(match.legal()))
        match.push(actions[-1])
    blind = [places for places, entry in zip(positions, match.rounds, strict=True) if entry.blind]
    places = rng.choice(blind if blind and rng.random() < 0.5 else positions)
    count = rng.choice(places)
    return World(deals, turn_ups, dealer, actions[:count], rng.randrange(10**6))


def shown_void(match: Match) -> list[set[str]]:
    """The suits each seat has failed to follow in the round being played."""
    voids: list[set[str]] = [set() for _ in range(match.num_players)]
    for trick in match.round.tricks:
        led = trick.plays[0][1]
        for place, card in enumerate(trick.plays):
            if card[1] != led:
                voids[(trick.leader + match.step * place) % match.num_players].add(led)
    return voids


def deal_hidden(match: Match, seat: int, rng: random.Random) -> list[list[str]]:
    """Hands of this round that `seat` cannot tell from the real ones."""
    now = match.round
    face_down = now.blind and match.is_bidding
    unseen = [other for other in range(match.num_players) if other != seat or face_down]
    pool = pack_of(match.rules)
    if now.turn_up is not None:
        pool.remove(now.turn_up)
    played = [list(hand) for hand in now.hands]
    for other in range(match.num_players):
        for card in now.held[other]:
            played[other].remove(card)
        for card in played[other] if other in unseen else now.hands[other]:
            pool.remove(card)
    voids = shown_void(match)
    # The seat with the fewest cards to choose from chooses first; a dead end starts again.
    for _ in range(500):
        hands = [list(hand) for hand in now.hands]
        left = list(pool)
        rng.shuffle(left)
        for other in sorted(unseen, key=lambda o: (-len(voids[o]), rng.random())):
            fitting = [card for card in left if card[1] not in voids[other]]
            wanted = len(now.held[other])
            if len(fitting) < wanted:
                break
            for card in fitting[:wanted]:
                left.remove(card)
            hands[other] = played[other] + fitting[:wanted]
        else:
            return hands
    # So tightly constrained a position has, for all we know, one world only.
    return [list(hand) for hand in now.hands]


def other_bids(match: Match, seat: int, actions: list[int], rng: random.Random) -> list[int]:
    """The same actions, the bids of others made anew where they are hidden at this moment."""
    if match.rules["bidding"] != "simultaneous" or not match.is_bidding:
        return actions
    made = sum(bid is not None for bid in match.round.bids)
    bidders = [
        (match.round.dealer + match.step * place) % match.num_players
        for place in range(1, made + 1)
    ]
    changed = list(actions)
    for place, bidder in enumerate(bidders):
        if bidder != seat:
            index = len(actions) - made + place
            changed[index] = FIRST_BID + rng.randint(0, match.round.cards)
    return changed


def other_world(rules: Fields, world: World, seat: int, rng: random.Random) -> World:
    """A world that looks the same to `seat` and differs in all it may not know."""
    match = reach(rules, world.deals, world.turn_ups, world.dealer, world.actions)
    index = len(match.rounds) - 1
    later, later_turn_ups = random_deals(rules, rng)
    deals = [*world.deals[:index], deal_hidden(match, seat, rng), *later[index + 1 :]]
    turn_ups = [*world.turn_ups[: index + 1], *later_turn_ups[index + 1 :]]
    actions = other_bids(match, seat, world.actions, rng)
    return World(deals, turn_ups, world.dealer, actions, world.seed + 1)


def table_of(rules: Rules, world: World) -> Table:
    table = Table(
        rules, seed=world.seed, dealer=world.dealer, deals=world.deals, turn_ups=world.turn_ups
    )
    for action in world.actions:
        table.push(action)
    return table


def plain(value: Any) -> Any:
    """Any attribute of a view as something to compare; records by field, for padding is noise."""
    if isinstance(value, bytes):
        return plain(np.frombuffer(value, TABLE_RECORD))
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        names = value.dtype.names
        return {name: value[name].tolist() for name in names} if names else value.tolist()
    return value


def seen_at_table(table: Table, seat: int) -> dict[str, Any]:
    """Everything a view tells."""
    view = table.view(seat)
    # The object itself too, for a bot may look anywhere in it.
    shown = {f"attribute {name}": plain(value) for name, value in vars(view).items()}
    names = ("seat", "hand", "legal", "bids", "won", "trick", "history")
    names += ("trump", "turn_up", "dealer", "totals", "rules")
    for name in names:
        value = getattr(view, name)
        shown[name] = repr(value() if callable(value) else value)
    shown["json"] = view.to_json()
    shown["observation"] = np.asarray(view.observation()).tobytes().hex()
    shown["text"] = str(view)
    return shown


def env_of(rules: Rules, world: World) -> Any:
    env = judgement_v0.raw_env(rules=rules, render_mode="ansi")
    env.reset(
        seed=world.seed,
        options={"dealer": world.dealer, "deals": world.deals, "turn_ups": world.turn_ups},
    )
    for action in world.actions:
        env.step(action)
    return env


def seen_in_env(env: Any, seat: int) -> dict[str, Any]:
    """Everything the environment tells the agent of this seat."""
    agent = f"player_{seat}"
    seen = env.observe(agent)
    shown = {
        "observation": np.asarray(seen["observation"]).tobytes().hex(),
        "mask": np.asarray(seen["action_mask"]).tolist(),
        "reward": (env.rewards[agent], env._cumulative_rewards[agent]),
        "ended": (env.terminations[agent], env.truncations[agent], env.agent_selection),
        "infos": {
            key: value.tolist() if isinstance(value, np.ndarray) else value
            for key, value in env.infos[agent].items()
        },
    }
    if env.agent_selection == agent:
        shown["render"] = env.render()
    return shown


@pytest.mark.parametrize("case", CASES)
def test_hidden_cards_bids_and_seed_change_nothing_a_view_shows(case: str) -> None:
    fields = CASES[case]
    rules = Rules.from_dict(fields)
    rng = random.Random(f"view {case}")
    changed = 0
    for _ in range(POSITIONS_PER_CASE):
        world = random_position(fields, rng)
        table = table_of(rules, world)
        for seat in range(fields["num_players"]):
            other = other_world(fields, world, seat, rng)
            changed += other.deals != world.deals
            assert seen_at_table(table, seat) == seen_at_table(table_of(rules, other), seat), (
                case,
                seat,
                world,
                other,
            )
    assert changed > POSITIONS_PER_CASE


@pytest.mark.parametrize("case", CASES)
def test_hidden_cards_bids_and_seed_change_nothing_the_environment_shows(case: str) -> None:
    fields = CASES[case]
    rules = Rules.from_dict(fields)
    rng = random.Random(f"env {case}")
    for _ in range(POSITIONS_PER_CASE // 4):
        world = random_position(fields, rng)
        env = env_of(rules, world)
        for seat in range(fields["num_players"]):
            other = other_world(fields, world, seat, rng)
            assert seen_in_env(env, seat) == seen_in_env(env_of(rules, other), seat), (
                case,
                seat,
                world,
                other,
            )


@pytest.mark.parametrize("case", CASES)
def test_the_seed_alone_changes_nothing_while_the_given_deals_last(case: str) -> None:
    fields = CASES[case]
    rules = Rules.from_dict(fields)
    rng = random.Random(f"seed {case}")
    for _ in range(POSITIONS_PER_CASE // 4):
        world = random_position(fields, rng)
        dealt = len(reach(fields, world.deals, world.turn_ups, world.dealer, world.actions).rounds)
        short = World(
            world.deals[:dealt], world.turn_ups[:dealt], world.dealer, world.actions, world.seed + 1
        )
        one, other = table_of(rules, world), table_of(rules, short)
        for seat in range(fields["num_players"]):
            assert seen_at_table(one, seat) == seen_at_table(other, seat)


def test_later_rounds_do_differ_with_the_seed_in_these_tests() -> None:
    rules = Rules.preset("kachuful")
    first = [Table(rules, seed=seed).record()["rounds"][0]["hands"] for seed in (1, 2)]
    assert first[0] != first[1]


@pytest.mark.parametrize("case", ["blind-eight", "blind rounds", "blind, turned up"])
def test_nobody_sees_a_card_of_a_blind_round_before_the_last_bid(case: str) -> None:
    fields = CASES[case]
    rng = random.Random(5)
    seen = 0
    for _ in range(200):
        world = random_position(fields, rng)
        match = reach(fields, world.deals, world.turn_ups, world.dealer, world.actions)
        if not match.round.blind:
            continue
        seen += 1
        table = table_of(Rules.from_dict(fields), world)
        for seat in range(fields["num_players"]):
            assert len(table.view(seat).hand) == 0
            assert match.view(seat)["rounds"][-1]["hands"] == [None] * fields["num_players"]
            for card in match.round.hands[seat]:
                # It may have been played openly in an earlier round; this round must not name it.
                this_round = table.view(seat).to_json().rsplit('"cards"', 1)[1]
                assert f'"{card}"' not in this_round
    assert seen > 10


def test_every_kind_of_hidden_thing_was_changed_somewhere() -> None:
    rng = random.Random(8)
    kinds = set()
    for case, fields in CASES.items():
        for _ in range(POSITIONS_PER_CASE):
            world = random_position(fields, rng)
            match = reach(fields, world.deals, world.turn_ups, world.dealer, world.actions)
            seat = rng.randrange(fields["num_players"])
            other = other_world(fields, world, seat, rng)
            now = len(match.rounds) - 1
            phase = "bidding" if match.is_bidding else "play"
            if other.deals[now] != world.deals[now]:
                kinds.add(("hands", phase))
            if other.deals[now][seat] != world.deals[now][seat]:
                assert match.round.blind, case
                kinds.add(("own card", "blind"))
            if sorted(sum(other.deals[now], [])) != sorted(sum(world.deals[now], [])):
                kinds.add(("stock", phase))
            if other.deals[now + 1 :] != world.deals[now + 1 :]:
                kinds.add(("later", phase))
            if other.actions != world.actions:
                kinds.add(("bids", phase))
    assert kinds == {
        ("hands", "bidding"),
        ("hands", "play"),
        ("own card", "blind"),
        ("stock", "bidding"),
        ("stock", "play"),
        ("later", "bidding"),
        ("later", "play"),
        ("bids", "bidding"),
    }
