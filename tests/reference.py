"""A second, slow rulebook of Judgement in plain Python, which shares nothing with the package.

Cards are text such as "AS"; a round is read like the score sheet of a table. Rules are a dict of
the fields `judgement_env.Rules` has; deals are always given, never drawn.

    match = Match(preset("kachuful"), deals, first_dealer=0)
    while not match.is_over:
        match.push(match.legal()[0])
    match.totals, match.winners, match.record()
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

SUITS = "CDHS"
RANKS = "23456789TJQKA"
# Which suits a small pack keeps, and in which order it gives them up.
KEPT_SUITS = "SHDC"
FIRST_BID = 52
NUM_ACTIONS = 79
LARGEST_HAND = 26

Fields = dict[str, Any]
Deals = list[list[list[str]]]

FIELDS = (
    "num_players",
    "player_range",
    "cards",
    "top",
    "trumps",
    "hook",
    "bidding",
    "scoring",
    "sweep_bonus",
    "blind_rounds",
    "direction",
    "packs",
    "suits",
    "ranks",
    "first_dealer",
)
_COMMON: Fields = {
    "top": None,
    "hook": True,
    "bidding": "in-turn",
    "sweep_bonus": 0,
    "blind_rounds": [],
    "direction": "clockwise",
    "packs": 1,
    "suits": 4,
    "ranks": 13,
    "first_dealer": None,
}
_SWEEP_TEN: Fields = {
    "player_range": [4, 4],
    "cards": "down",
    "top": 10,
    "trumps": ["H", "S", "D", "C"],
    "scoring": "ten-plus",
    "sweep_bonus": 10,
}
_OWN: dict[str, Fields] = {
    "blind-eight": {
        "player_range": [3, 7],
        "cards": [7, 6, 5, 4, 3, 2, 1, 1],
        "trumps": ["C", "H", "S", "D"],
        "scoring": "multiplied",
        "blind_rounds": [-1],
    },
    "up-and-down": {
        "player_range": [4, 10],
        "cards": "down-up",
        "trumps": ["S", "D", "C", "H", "NT"],
        "scoring": "high",
    },
    "kachuful": {
        "player_range": [3, 8],
        "cards": "down",
        "trumps": ["S", "D", "C", "H"],
        "scoring": "ten-plus",
    },
    "sweep-ten": _SWEEP_TEN,
    "sweep-ten-anticlockwise": {**_SWEEP_TEN, "direction": "anticlockwise"},
    "oh-hell": {
        "player_range": [3, 7],
        "cards": "single",
        "trumps": "turn-up",
        "scoring": "trick-points",
    },
}
PRESET_NAMES = tuple(_OWN)


def preset(name: str, **overrides: Any) -> Fields:
    """Every field of a preset, four players unless told otherwise, with the overrides in place."""
    values = {"num_players": 4, **_COMMON, **_OWN[name], **overrides}
    return {field_name: values.pop(field_name) for field_name in FIELDS} | values


def card_action(card: str) -> int:
    return SUITS.index(card[1]) * 13 + RANKS.index(card[0])


def action_card(action: int) -> str:
    return RANKS[action % 13] + SUITS[action // 13]


def pack_of(rules: Fields) -> list[str]:
    """Every card of the pack, each as often as there are packs."""
    suits = KEPT_SUITS[: rules["suits"]]
    ranks = RANKS[13 - rules["ranks"] :]
    return [rank + suit for suit in suits for rank in ranks] * int(rules["packs"])


def most_cards(rules: Fields) -> int:
    """The largest hand the pack can give to everyone, one card kept back where one is turned up."""
    cards = len(pack_of(rules)) - (1 if rules["trumps"] == "turn-up" else 0)
    return min(LARGEST_HAND, cards // int(rules["num_players"]))


def schedule(rules: Fields) -> list[int]:
    """Cards per seat, round by round."""
    cards = rules["cards"]
    if isinstance(cards, list):
        return [int(size) for size in cards]
    top = rules["top"]
    if top is None:
        top = min(7, most_cards(rules))
    elif top == "max":
        top = most_cards(rules)
    rising = list(range(1, top + 1))
    falling = rising[::-1]
    shapes = {
        "down": falling,
        "up": rising,
        "down-up": falling + rising[1:],
        "up-down": rising + falling[1:],
        "single": [top],
    }
    return shapes[cards]


def blind_numbers(rules: Fields) -> set[int]:
    """The blind rounds, counted from 1; a negative number counts from the end."""
    rounds = len(schedule(rules))
    return {number if number > 0 else rounds + 1 + number for number in rules["blind_rounds"]}


def objection(rules: Fields) -> str | None:
    """Why these rules cannot be played, or None where they can."""
    players = rules["num_players"]
    low, high = rules["player_range"]
    if not 2 <= players <= 10 or not low <= players <= high:
        return "num_players"
    if (
        not 1 <= rules["packs"] <= 2
        or not 1 <= rules["suits"] <= 4
        or not 2 <= rules["ranks"] <= 13
    ):
        return "packs, suits or ranks"
    sizes = schedule(rules)
    if not sizes or min(sizes) < 1 or max(sizes) > most_cards(rules):
        return "cards"
    if rules["trumps"] != "turn-up":
        allowed = set(KEPT_SUITS[: rules["suits"]]) | {"NT"}
        if not rules["trumps"] or not set(rules["trumps"]) <= allowed:
            return "trumps"
    if rules["hook"] and rules["bidding"] == "simultaneous":
        return "hook"
    for number in blind_numbers(rules):
        if not 1 <= number <= len(sizes) or sizes[number - 1] != 1:
            return "blind_rounds"
    dealer = rules["first_dealer"]
    if dealer is not None and not 0 <= dealer < players:
        return "first_dealer"
    return None


def _ten_plus(cards: int, bid: int, won: int) -> int:
    return 10 + bid if bid == won else 0


def _multiplied(cards: int, bid: int, won: int) -> int:
    return 10 * max(bid, 1) if bid == won else 0


def _multiplied_penalty(cards: int, bid: int, won: int) -> int:
    return 10 * max(bid, 1) if bid == won else -10 * abs(bid - won)


def _high(cards: int, bid: int, won: int) -> int:
    worth = 10 * (bid + 1) + bid
    return worth if bid == won else -worth


def _medium(cards: int, bid: int, won: int) -> int:
    return 10 * bid if bid == won else 0


def _low(cards: int, bid: int, won: int) -> int:
    return 2 * bid + 5 if bid == won else 0


def _trick_points(cards: int, bid: int, won: int) -> int:
    return won + (10 if bid == won else 0)


SCORINGS: dict[str, Callable[[int, int, int], int]] = {
    "ten-plus": _ten_plus,
    "multiplied": _multiplied,
    "multiplied-penalty": _multiplied_penalty,
    "high": _high,
    "medium": _medium,
    "low": _low,
    "trick-points": _trick_points,
}


def points(rules: Fields, cards: int, bid: int, won: int) -> int:
    """A seat's points, by name, function of (bid, won, cards) or table [cards][bid][won]."""
    scoring = rules["scoring"]
    if isinstance(scoring, str):
        worth = SCORINGS[scoring](cards, bid, won)
    elif callable(scoring):
        worth = scoring(bid, won, cards)
    else:
        worth = scoring[cards][bid][won]
    if bid == won == cards:
        worth += rules["sweep_bonus"] * bid
    return int(worth)


def winning_play(plays: list[str], trump: str | None) -> int:
    """The place in the trick, 0 for the leader, of the card that takes it."""
    best = 0
    for place in range(1, len(plays)):
        card, taking = plays[place], plays[best]
        if card[1] == taking[1]:
            # Equal ranks happen with two packs only: the later of two identical cards takes it.
            if RANKS.index(card[0]) >= RANKS.index(taking[0]):
                best = place
        elif card[1] == trump:
            best = place
    return best


@dataclass
class Trick:
    leader: int
    plays: list[str] = field(default_factory=list)
    winner: int | None = None


@dataclass
class Round:
    cards: int
    trump: str | None
    dealer: int
    blind: bool
    turn_up: str | None
    hands: list[list[str]]
    held: list[list[str]]
    bids: list[int | None]
    won: list[int]
    tricks: list[Trick] = field(default_factory=list)
    points: list[int] | None = None


class Match:
    """One match from `deals[round][seat]`, with a turned-up card per round where one is due."""

    def __init__(
        self,
        rules: Fields,
        deals: Deals,
        first_dealer: int,
        turn_ups: list[str | None] | None = None,
        only_round: int | None = None,
    ) -> None:
        self.rules = rules
        self.num_players = int(rules["num_players"])
        self.step = 1 if rules["direction"] == "clockwise" else -1
        numbers = range(1, len(schedule(rules)) + 1)
        # `only_round` is counted from 1; its one deal is then deals[0].
        self.numbers = list(numbers) if only_round is None else [only_round]
        self.deals = deals
        self.turn_ups = turn_ups or [None] * len(self.numbers)
        self.totals = [0] * self.num_players
        self.rounds: list[Round] = []
        self._deal(first_dealer)

    def _next(self, seat: int) -> int:
        return (seat + self.step) % self.num_players

    def _deal(self, dealer: int) -> None:
        index = len(self.rounds)
        number = self.numbers[index]
        turn_up = None
        if self.rules["trumps"] == "turn-up":
            turn_up = self.turn_ups[index]
            assert turn_up is not None
            trump: str | None = turn_up[1]
        else:
            cycle = self.rules["trumps"]
            trump = cycle[(number - 1) % len(cycle)]
            if trump == "NT":
                trump = None
        self.rounds.append(
            Round(
                cards=schedule(self.rules)[number - 1],
                trump=trump,
                dealer=dealer,
                blind=number in blind_numbers(self.rules),
                turn_up=turn_up,
                hands=[list(hand) for hand in self.deals[index]],
                held=[list(hand) for hand in self.deals[index]],
                bids=[None] * self.num_players,
                won=[0] * self.num_players,
            )
        )

    @property
    def round(self) -> Round:
        return self.rounds[-1]

    @property
    def is_bidding(self) -> bool:
        return None in self.round.bids

    @property
    def is_over(self) -> bool:
        return len(self.rounds) == len(self.numbers) and self.round.points is not None

    @property
    def winners(self) -> list[int]:
        if not self.is_over:
            return []
        return [seat for seat, total in enumerate(self.totals) if total == max(self.totals)]

    @property
    def seat(self) -> int | None:
        """The seat to act, None when the match is over."""
        if self.is_over:
            return None
        now = self.round
        if self.is_bidding:
            seat = self._next(now.dealer)
            while now.bids[seat] is not None:
                seat = self._next(seat)
            return seat
        if not now.tricks:
            return self._next(now.dealer)
        trick = now.tricks[-1]
        if trick.winner is not None:
            return trick.winner
        return (trick.leader + self.step * len(trick.plays)) % self.num_players

    def legal(self) -> list[int]:
        """The action ids open to the seat to act, rising; none when the match is over."""
        seat = self.seat
        if seat is None:
            return []
        return sorted(self._legal_bids(seat) if self.is_bidding else self._legal_cards(seat))

    def _legal_bids(self, seat: int) -> list[int]:
        now = self.round
        bids = list(range(now.cards + 1))
        if self.rules["hook"] and seat == now.dealer:
            others = sum(bid for bid in now.bids if bid is not None)
            if now.cards - others in bids:
                bids.remove(now.cards - others)
        return [FIRST_BID + bid for bid in bids]

    def _legal_cards(self, seat: int) -> list[int]:
        now = self.round
        held = now.held[seat]
        if now.tricks and now.tricks[-1].winner is None:
            led = now.tricks[-1].plays[0][1]
            held = [card for card in held if card[1] == led] or held
        return list({card_action(card) for card in held})

    def push(self, action: int) -> None:
        """Make the bid or play the card, and do what the rules then do by themselves."""
        assert action in self.legal(), (
            f"seat {self.seat}: action {action} is not one of {self.legal()}"
        )
        seat = self.seat
        assert seat is not None
        if action >= FIRST_BID:
            self.round.bids[seat] = action - FIRST_BID
            if self.round.blind and not self.is_bidding:
                for _ in range(self.num_players):
                    player = self.seat
                    assert player is not None
                    self._play(player, self.round.held[player][0])
        else:
            self._play(seat, action_card(action))
        if self.round.points is not None and not self.is_over:
            self._deal(self._next(self.round.dealer))

    def _play(self, seat: int, card: str) -> None:
        now = self.round
        if not now.tricks or now.tricks[-1].winner is not None:
            now.tricks.append(Trick(leader=seat))
        trick = now.tricks[-1]
        now.held[seat].remove(card)
        trick.plays.append(card)
        if len(trick.plays) < self.num_players:
            return
        place = winning_play(trick.plays, now.trump)
        trick.winner = (trick.leader + self.step * place) % self.num_players
        now.won[trick.winner] += 1
        if len(now.tricks) == now.cards:
            self._settle()

    def _settle(self) -> None:
        now = self.round
        now.points = [
            points(self.rules, now.cards, bid, won)
            for bid, won in zip(now.bids, now.won, strict=True)
            if bid is not None
        ]
        for seat, gained in enumerate(now.points):
            self.totals[seat] += gained

    def record(self, **heading: Any) -> Fields:
        """The match so far as a `judgement-record/1`; `heading` comes after the format."""
        return {
            "format": "judgement-record/1",
            **heading,
            "players": [f"player_{seat}" for seat in range(self.num_players)],
            "rounds": [self._sheet(entry) for entry in self.rounds],
            "totals": list(self.totals),
            "winners": self.winners,
        }

    def _sheet(self, entry: Round) -> Fields:
        return {
            "cards": entry.cards,
            "trump": entry.trump,
            "dealer": entry.dealer,
            "blind": entry.blind,
            "turn_up": entry.turn_up,
            "hands": [list(hand) for hand in entry.hands],
            "bids": list(entry.bids),
            "tricks": [
                {
                    "leader": trick.leader,
                    "plays": list(trick.plays),
                    "winner": trick.winner,
                }
                for trick in entry.tricks
            ],
            "won": list(entry.won),
            "points": None if entry.points is None else list(entry.points),
        }

    def view(self, seat: int, **heading: Any) -> Fields:
        """What `seat` may know: the record, its seed, hidden hands and hidden bids null."""
        seen = self.record(**{**heading, "seed": None})
        now = seen["rounds"][-1]
        if self.round.points is None:
            for other in range(self.num_players):
                if other != seat or (self.round.blind and self.is_bidding):
                    now["hands"][other] = None
            if self.rules["bidding"] == "simultaneous" and self.is_bidding:
                for other in range(self.num_players):
                    if other != seat:
                        now["bids"][other] = None
        legal = self.legal() if seat == self.seat else []
        seen["seat"] = seat
        seen["legal"] = [
            action - FIRST_BID if action >= FIRST_BID else action_card(action) for action in legal
        ]
        return seen


def random_deals(rules: Fields, rng: random.Random) -> tuple[Deals, list[str | None]]:
    """Shuffled hands for every round, and the cards turned up (None where the rules turn none)."""
    deals: Deals = []
    turn_ups: list[str | None] = []
    for size in schedule(rules):
        pack = pack_of(rules)
        rng.shuffle(pack)
        players = rules["num_players"]
        deals.append([pack[seat * size : (seat + 1) * size] for seat in range(players)])
        turn_ups.append(pack[players * size] if rules["trumps"] == "turn-up" else None)
    return deals, turn_ups
