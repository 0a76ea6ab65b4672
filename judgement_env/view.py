"""What one seat may know of a match: a snapshot that people and bots decide from.

A `View` holds a table record from which everything hidden has been removed, not covered: others'
cards, the own card in a blind round, hidden bids, the generator's key. Kernels that read only what
a seat may know therefore work on it unchanged. Also the plain form of a round, for records.

>>> from judgement_env import Table
>>> Table("kachuful", seed=7, dealer=0).view(1).legal
(52, 53, 54, 55, 56, 57, 58, 59)
"""

from __future__ import annotations

import json
import random
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from judgement_env import ENV_VERSION
from judgement_env._jit import njit
from judgement_env.arguments import refuse, whole
from judgement_env.cards import (
    BID_OFFSET,
    CARD_TEXTS,
    NONE,
    NUM_ACTIONS,
    NUM_CARDS,
    SUIT_NAMES,
    action_text,
    action_to_plain,
    trump_text,
)
from judgement_env.engine import forbidden_bid, write_mask
from judgement_env.observation import SIZE, as_float, encode
from judgement_env.record import FORMAT, Record
from judgement_env.rules import Rules
from judgement_env.sampler import WORLDS_RECORD, sample_tables, strip
from judgement_env.state import (
    BIDDING,
    OVER,
    PLAYING,
    SETTLED,
    TABLE_RECORD,
    Array,
    RulesRecord,
    TableRecord,
    new_tables,
    pack_rules,
)

# Worlds dealt in one call at most: a record takes a kilobyte.
MAX_WORLDS = 1_000_000


class Trick(NamedTuple):
    """A finished trick: its leader, its cards in order of play from the leader, its winner."""

    leader: int
    plays: tuple[int, ...]
    winner: int


# --- kernels on arrays of one record (a record alone costs Python ten times as much to pass) ----


@njit
def write_row_mask(rules: Array, tables: Array, mask: Array) -> int:
    """Write the legal actions of row 0 into `mask` (79,); return how many there are."""
    return write_mask(rules[0], tables[0], mask)


@njit
def encode_row(rules: Array, tables: Array, viewer: int, out: Array) -> None:
    """Write what `viewer` knows of row 0 into `out` (SIZE,) uint8."""
    encode(rules[0], tables[0], viewer, out)


@njit
def row_forbidden_bid(rules: Array, tables: Array) -> int:
    """Return the bid the hook takes from the seat to act in row 0, NONE where it takes none."""
    t = tables[0]
    return forbidden_bid(rules[0], t) if t.phase == BIDDING else NONE


@njit
def redact(rules: Array, tables: Array, viewer: int, out: Array) -> None:
    """Copy row 0 into row 0 of `out` with all that `viewer` may not know removed."""
    out[0] = tables[0]
    strip(rules[0], out[0], viewer)


# --- plain forms ------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def packed(rules: Rules) -> Array:
    """The rules as an array (1,) for kernels, made once for equal rules; not to be written to."""
    return pack_rules([rules])


def cards_in(words: Array) -> list[int]:
    """The card ids in a hand's words (packs,), rising, copies side by side."""
    held = words.tolist()
    return [c for c in range(NUM_CARDS) for word in held if word >> c & 1]


def round_sheet(row: Array, num_players: int) -> Record:
    """The round that lies open in a row (1,), as records write it; hands rise by card id."""
    t = row[0]
    is_settled = t["phase"] >= SETTLED
    leaders, plays = t["leaders"].tolist(), t["plays"].tolist()
    # The leader field has moved on to the winner of the last finished trick.
    winners = [*leaders[1 : t["trick"]], int(t["leader"])]
    tricks = []
    for k in range(t["trick"] + (t["turn"] > 0)):
        played = [CARD_TEXTS[card] for card in plays[k] if card != NONE]
        winner = winners[k] if k < t["trick"] else None
        tricks.append({"leader": leaders[k], "plays": played, "winner": winner})
    turn_up = int(t["turn_up"])
    return {
        "cards": int(t["cards"]),
        "trump": trump_text(int(t["trump"])),
        "dealer": int(t["dealer"]),
        "blind": bool(t["is_blind"]),
        "turn_up": None if turn_up == NONE else CARD_TEXTS[turn_up],
        "hands": [[CARD_TEXTS[c] for c in cards_in(words)] for words in t["dealt"][:num_players]],
        "bids": [None if bid == NONE else bid for bid in t["bid"][:num_players].tolist()],
        "tricks": tricks,
        "won": t["won"][:num_players].tolist(),
        "points": t["points"][:num_players].tolist() if is_settled else None,
    }


def winners_of(row: Array, num_players: int) -> list[int]:
    """The seats with the highest total, none before the match is over."""
    if row["phase"][0] != OVER:
        return []
    totals = row["total"][0, :num_players].tolist()
    return [seat for seat, total in enumerate(totals) if total == max(totals)]


def match_sheet(
    rules: Rules,
    seed: int | None,
    table: int,
    players: tuple[str, ...],
    settled: tuple[bytes, ...],
    row: Array,
) -> Record:
    """The match so far as a record; `settled` holds the rows of the settled rounds."""
    rounds = [round_sheet(np.frombuffer(b, TABLE_RECORD), rules.num_players) for b in settled]
    if row["phase"][0] != OVER:
        rounds.append(round_sheet(row, rules.num_players))
    return {
        "format": FORMAT,
        "env_version": ENV_VERSION,
        "rules": rules.to_dict(),
        "seed": seed,
        "table": table,
        "match": int(row["match"][0]),
        "players": list(players),
        "rounds": rounds,
        "totals": row["total"][0, : rules.num_players].tolist(),
        "winners": winners_of(row, rules.num_players),
    }


# --- the view ---------------------------------------------------------------------------------


class View:
    """What `seat` knows at one moment; later moves at the table do not change it.

    Cards, actions and trump are ids (trump 4 = no-trump), seats absolute, NONE = -1 a bid that is
    not made or not known, or no turned-up card. `rules_array` and `tables_array` (1,) are its
    records for kernels, the table's with everything hidden removed.
    """

    def __init__(
        self,
        rules: Rules,
        seat: int,
        tables: Array,
        settled: tuple[bytes, ...],
        players: tuple[str, ...],
        table: int = 0,
    ) -> None:
        """Take what `seat` may know from `tables` (1,) and the rows of the rounds settled before.

        `settled` must hold no key: all else about a round is public once it is settled.
        """
        self.rules = rules
        self.seat = seat
        self.players = players
        self.table = table
        self.rules_array = packed(rules)  # (1,) RULES_RECORD
        self.tables_array = new_tables(1)  # (1,) TABLE_RECORD
        self._settled = settled
        redact(self.rules_array, tables, seat, self.tables_array)

    @property
    def rules_record(self) -> RulesRecord:
        """The rules as kernels read them."""
        return self.rules_array[0]

    @property
    def table_record(self) -> TableRecord:
        """The table as kernels read it, everything hidden removed."""
        return self.tables_array[0]

    def _get(self, field: str) -> int:
        return int(self.tables_array[field][0])

    def _by_seat(self, field: str) -> tuple[int, ...]:
        return tuple(self.tables_array[field][0, : self.rules.num_players].tolist())

    @cached_property
    def hand(self) -> tuple[int, ...]:
        """The cards this seat holds, rising; empty while they lie face down in a blind round."""
        return tuple(cards_in(self.tables_array["hand"][0, self.seat]))

    @cached_property
    def legal(self) -> tuple[int, ...]:
        """The actions this seat may take, rising; empty when it is not to act."""
        if self.seat_to_act != self.seat:
            return ()
        return tuple(self.action_mask().nonzero()[0].tolist())

    def action_mask(self) -> Array:
        """The legal actions as a mask (79,) int8, all zeros when this seat is not to act."""
        mask = np.zeros(NUM_ACTIONS, np.int8)
        if self.seat_to_act == self.seat:
            write_row_mask(self.rules_array, self.tables_array, mask)
        return mask

    @property
    def seat_to_act(self) -> int | None:
        """The seat to act, None when the match is over."""
        seat = self._get("seat")
        return None if seat == NONE else seat

    @property
    def is_bidding(self) -> bool:
        """Whether bids are being made."""
        return self._get("phase") == BIDDING

    @property
    def is_playing(self) -> bool:
        """Whether a trick is being played."""
        return self._get("phase") == PLAYING

    @property
    def is_over(self) -> bool:
        """Whether the match is over."""
        return self._get("phase") == OVER

    @cached_property
    def bids(self) -> tuple[int, ...]:
        """The bids by seat."""
        return self._by_seat("bid")

    @cached_property
    def won(self) -> tuple[int, ...]:
        """Tricks won by seat in this round."""
        return self._by_seat("won")

    @cached_property
    def totals(self) -> tuple[int, ...]:
        """Totals of the match by seat, settled rounds only."""
        return self._by_seat("total")

    @cached_property
    def trick(self) -> tuple[tuple[int, int], ...]:
        """The trick in progress as (seat, card), in order of play."""
        t = self.tables_array[0]
        if t["turn"] == 0:
            return ()
        plays = t["plays"][t["trick"], : t["turn"]].tolist()
        return tuple(zip(self._seats_from(int(t["leader"])), plays, strict=False))

    def _seats_from(self, seat: int) -> list[int]:
        num_players = self.rules.num_players
        return [(seat + k * self.rules.step) % num_players for k in range(num_players)]

    @cached_property
    def history(self) -> tuple[Trick, ...]:
        """The finished tricks of this round."""
        t = self.tables_array[0]
        leaders = [*t["leaders"][: t["trick"]].tolist(), int(t["leader"])]
        plays = t["plays"][: t["trick"], : self.rules.num_players].tolist()
        return tuple(
            Trick(leaders[k], tuple(cards), leaders[k + 1]) for k, cards in enumerate(plays)
        )

    @property
    def trump(self) -> int:
        """The trump suit 0..3 = C D H S, 4 = no-trump."""
        return self._get("trump")

    @property
    def turn_up(self) -> int:
        """The turned-up card, NONE where there is none."""
        return self._get("turn_up")

    @property
    def led(self) -> int:
        """The suit led to the trick in progress, NONE before the lead."""
        return self._get("led")

    @property
    def leader(self) -> int:
        """The seat that leads the trick in progress."""
        return self._get("leader")

    @property
    def dealer(self) -> int:
        """The dealer of this round."""
        return self._get("dealer")

    @property
    def num_cards(self) -> int:
        """Cards dealt to each seat in this round."""
        return self._get("cards")

    @property
    def round_index(self) -> int:
        """This round's place in `rules.schedule`, from 0."""
        return self._get("round")

    @property
    def is_blind(self) -> bool:
        """Whether this is a blind round."""
        return bool(self._get("is_blind"))

    @property
    def forbidden_bid(self) -> int:
        """The bid the hook takes from the seat to act, NONE where it takes none."""
        return int(row_forbidden_bid(self.rules_array, self.tables_array))

    @property
    def winners(self) -> tuple[int, ...]:
        """The seats with the highest total, none before the match is over."""
        return tuple(winners_of(self.tables_array, self.rules.num_players))

    def observation(self, dtype: Any = "float32") -> Array:
        """The observation (SIZE,), as float32 or as its raw uint8; ValueError for another dtype."""
        name = np.dtype(dtype).name
        if name not in ("float32", "uint8"):
            raise ValueError(f"dtype: {name!r} (allowed: 'float32', 'uint8')")
        raw = np.empty(SIZE, np.uint8)
        encode_row(self.rules_array, self.tables_array, self.seat, raw)
        return raw if name == "uint8" else as_float(raw)

    def sample_tables(self, rng: np.random.Generator | random.Random, count: int) -> Array:
        """Deal `count` worlds as table records (count,), for kernels; see `sample_worlds`.

        A record is that of this view with every hand filled; key and hidden bids stay removed.
        """
        worlds = new_tables(whole("count", count, 0, MAX_WORLDS))
        if isinstance(rng, np.random.Generator):
            state = rng.integers(1 << 64, dtype=np.uint64)
        elif isinstance(rng, random.Random):
            state = np.uint64(rng.getrandbits(64))
        else:
            refuse("rng", rng, "a numpy.random.Generator or a random.Random")
        stock = np.zeros(1, WORLDS_RECORD)
        sample_tables(self.rules_array, self.tables_array, self.seat, state, stock, worlds)
        return worlds

    def sample_worlds(
        self, rng: np.random.Generator | random.Random, count: int
    ) -> list[tuple[tuple[int, ...], ...]]:
        """Deal `count` worlds: the cards each seat may hold now, by seat, rising.

        Every deal of the hidden cards that fits what the seat knows is equally likely: its own
        hand, the cards played, the turned-up card, hand sizes, shown voids. A hidden card may be
        with any other seat or in the undealt stock. One number is drawn from `rng`, so equal
        generators give equal worlds. Raises ValueError naming the argument.
        """
        hands = self.sample_tables(rng, count)["hand"][:, : self.rules.num_players]
        return [tuple(tuple(cards_in(words)) for words in world) for world in hands]

    def to_dict(self) -> Record:
        """The record of the match so far, what the seat may not see null, and `seat`, `legal`."""
        sheet = match_sheet(
            self.rules, None, self.table, self.players, self._settled, self.tables_array
        )
        if not self.is_over:
            hands = sheet["rounds"][-1]["hands"]
            for seat in range(self.rules.num_players):
                if seat != self.seat or (self.is_blind and self.is_bidding):
                    hands[seat] = None
        sheet["seat"] = self.seat
        sheet["legal"] = [action_to_plain(action) for action in self.legal]
        return sheet

    def to_json(self) -> str:
        """`to_dict` as JSON: what a bot in another process is asked with."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def __str__(self) -> str:
        """The view in a few plain lines."""
        trump = trump_text(self.trump) or "no trump"
        shown = [str(bid) if bid != NONE else "-" for bid in self.bids]
        hand = " ".join(CARD_TEXTS[card] for card in self.hand) or "-"
        trick = " ".join(f"{seat}:{CARD_TEXTS[card]}" for seat, card in self.trick) or "-"
        turned = "" if self.turn_up == NONE else f" (turned up {CARD_TEXTS[self.turn_up]})"
        lines = [
            f"round {self.round_index + 1} of {self.rules.num_rounds}, {self.num_cards} cards,"
            f" trump {trump}{turned}, dealer {self.dealer}",
            f"seat {self.seat}: {hand}",
            f"bids {' '.join(shown)}, won {' '.join(map(str, self.won))},"
            f" totals {' '.join(map(str, self.totals))}",
            f"trick {trick}",
        ]
        if self.legal:
            lines.append("legal " + ", ".join(action_text(action) for action in self.legal))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<View of seat {self.seat}, round {self.round_index + 1}>"

    def __getstate__(self) -> dict[str, Any]:
        return {
            "rules": self.rules,
            "seat": self.seat,
            "players": self.players,
            "table": self.table,
            "row": self.tables_array.tobytes(),
            "settled": self._settled,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.rules = state["rules"]
        self.seat = state["seat"]
        self.players = state["players"]
        self.table = state["table"]
        self.rules_array = packed(self.rules)
        self.tables_array = np.frombuffer(state["row"], TABLE_RECORD).copy()
        self._settled = state["settled"]


def explain(view: View, action: int) -> str:
    """Which rule keeps the seat of this view from an action that is not legal, in words."""
    cards = view.num_cards
    if view.seat_to_act is None:
        return "the match is over"
    if view.is_bidding:
        if action < BID_OFFSET:
            return "bidding is not over, so a bid is due"
        if action - BID_OFFSET > cards:
            return f"with {cards} card{'s' if cards != 1 else ''} a bid is 0 to {cards}"
        return f"the hook forbids it: the bids may not add up to {cards}, the cards of each seat"
    if action >= BID_OFFSET:
        return "bidding is over, so a card is due"
    if action not in view.hand:
        return "the seat does not hold it"
    return "it must follow suit: it holds " + SUIT_NAMES[view.led]
