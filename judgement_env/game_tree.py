"""A match as a tree: chance draws the dealer, every card and the turn-up, seats bid and play.

A `Position` never changes; `after` leads from one to the next, so that a tree may keep all of them.
The rules are the engine's. `recall` writes down all that a seat has seen so far, `write_recall`
the same as numbers.

>>> start = plan_of(Rules.preset("oh-hell", top=1)).start
>>> start.chances()
[(0, 0.25), (1, 0.25), (2, 0.25), (3, 0.25)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from math import comb
from typing import Any, Final, NamedTuple

import numpy as np

from judgement_env.cards import (
    BID_OFFSET,
    CARD_TEXTS,
    NONE,
    NUM_ACTIONS,
    NUM_RANKS,
    TRUMP_TEXTS,
    action_text,
)
from judgement_env.deals import lay
from judgement_env.record import Record
from judgement_env.rules import Rules
from judgement_env.scoring import shown
from judgement_env.state import TABLE_RECORD, Array, new_tables
from judgement_env.table import ILLEGAL, OPEN, next_row, open_match, push_row
from judgement_env.view import View, match_sheet, packed, write_row_mask

# What a position waits for.
DEALER, HANDS, TURNED, DECISION, END = range(5)
UNSEEN: Final = "?"
# Texts by action and by trump; NONE, the last of each, stands for what is not seen or not known.
_DONE: Final = (*CARD_TEXTS, *(str(bid) for bid in range(NUM_ACTIONS - BID_OFFSET)), UNSEEN)
_TRUMPS: Final = (*TRUMP_TEXTS, UNSEEN)

# --- chance -----------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 16)
def deal_chances(
    pack: tuple[int, ...], dealt: tuple[int, ...], cards: int
) -> list[tuple[int, float]]:
    """The next card of the deal and its probability.

    Hands of `cards` are dealt one after the other, each from its lowest card up, so that a deal is
    one history only. A card is the lowest of n drawn as often as the others can be drawn above it.
    """
    start = len(dealt) - len(dealt) % cards
    hand = dealt[start:]
    free = list(pack)
    for card in dealt[:start]:
        free.remove(card)
    last = hand[-1] if hand else NONE
    need = cards - len(hand)
    weights = []
    for card in sorted({card for card in free if card >= last}):
        held = hand.count(card)
        above = sum(1 for other in free if other > card)
        copies = free.count(card)
        ways = sum(
            comb(copies, held + more) * comb(above, need - more)
            for more in range(1, min(need, copies - held) + 1)
        )
        # The copies of the last card are settled once a higher card follows it.
        settled = 1 if card == last or not hand else comb(free.count(last), hand.count(last))
        weights.append((card, ways * settled))
    total = sum(weight for _, weight in weights)
    return [(card, weight / total) for card, weight in weights if weight]


@lru_cache(maxsize=1 << 12)
def turn_up_chances(pack: tuple[int, ...], dealt: tuple[int, ...]) -> list[tuple[int, float]]:
    """The card turned up: any that is left, a card of two copies twice as often."""
    free = list(pack)
    for card in dealt:
        free.remove(card)
    return [(card, free.count(card) / len(free)) for card in sorted(set(free))]


# --- positions --------------------------------------------------------------------------------


class Deal(NamedTuple):
    """One round as far as it has come: what was dealt, hand after hand, and every bid and play."""

    dealer: int
    dealt: tuple[int, ...]
    turn_up: int
    actions: tuple[int, ...]


class Plan:
    """What every position under one set of rules shares."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.rules_array = packed(rules)
        self.num_players = rules.num_players
        self.players = tuple(f"player_{seat}" for seat in range(rules.num_players))
        self.no_rewards = (0.0,) * rules.num_players
        # the place of each card among the different cards of the pack
        self.kind = {card: k for k, card in enumerate(sorted(set(rules.pack)))}

    @cached_property
    def start(self) -> Position:
        """The position before anything is dealt."""
        dealer = self.rules.first_dealer
        position = Position(self, new_tables(1), DEALER, NONE, EMPTY, (), (), self.no_rewards)
        return position if dealer is None else position.after(dealer)

    def __reduce__(self) -> tuple[Any, ...]:
        return plan_of, (self.rules,)


@lru_cache(maxsize=64)
def plan_of(rules: Rules) -> Plan:
    """The plan of these rules, made once."""
    return Plan(rules)


EMPTY: Final = Deal(NONE, (), NONE, ())


def _copied(row: Array) -> Array:
    """A row of its own; numpy's own copy goes field by field, which takes 15 times as long."""
    return np.frombuffer(bytearray(row.tobytes()), TABLE_RECORD)


class Position:
    """One moment of a match. It never changes: an action leads to a new one, copies share it.

    `row` (1,) TABLE_RECORD, never written to once the position is made; `seat` the one to act, NONE
    at chance nodes and the end; `past` and `settled` the finished rounds, as told and as rows.
    """

    __slots__ = ("deal", "past", "plan", "rewards", "row", "seat", "settled", "waits")

    def __init__(
        self,
        plan: Plan,
        row: Array,
        waits: int,
        seat: int,
        deal: Deal,
        past: tuple[Deal, ...],
        settled: tuple[bytes, ...],
        rewards: tuple[float, ...],
    ) -> None:
        self.plan = plan
        self.row = row
        self.waits = waits
        self.seat = seat
        self.deal = deal
        self.past = past
        self.settled = settled
        self.rewards = rewards

    def after(self, action: int) -> Position:
        """The position after a chance outcome or an action; ValueError where it is not legal."""
        if self.waits == DECISION:
            return self._decided(action)
        if self.waits == END:
            raise ValueError(f"action: {action!r} (allowed: none, the match is over)")
        outcomes = [outcome for outcome, _ in self.chances()]
        if action not in outcomes:
            what = "seats" if self.waits == DEALER else "cards"
            raise ValueError(f"action: {action!r} (allowed: the {what} {outcomes})")
        plan = self.plan
        if self.waits == DEALER:
            row = new_tables(1)
            open_match(plan.rules_array, row, action)
            return self._dealing(row, self.past, self.settled, plan.no_rewards)
        deal = self.deal
        if self.waits == TURNED:
            return self._laid(deal._replace(turn_up=action))
        deal = deal._replace(dealt=(*deal.dealt, action))
        if len(deal.dealt) < self.cards * plan.num_players:
            return self._with(self.row, HANDS, NONE, deal)
        if plan.rules.is_turn_up:
            return self._with(self.row, TURNED, NONE, deal)
        return self._laid(deal)

    @property
    def cards(self) -> int:
        """Cards a hand of the round that is dealt or played."""
        return self.plan.rules.sizes[min(len(self.past), self.plan.rules.num_rounds - 1)]

    def _with(self, row: Array, waits: int, seat: int, deal: Deal) -> Position:
        # Rewards last until somebody has decided: a library may not look at chance nodes.
        plan, is_dealing = self.plan, self.waits != DECISION
        rewards = self.rewards if is_dealing else plan.no_rewards
        return Position(plan, row, waits, seat, deal, self.past, self.settled, rewards)

    def _dealing(
        self,
        row: Array,
        past: tuple[Deal, ...],
        settled: tuple[bytes, ...],
        rewards: tuple[float, ...],
    ) -> Position:
        """A round about to be dealt: the engine's own deal is taken off the table again."""
        row["hand"] = 0
        row["dealt"] = 0
        deal = EMPTY._replace(dealer=int(row["dealer"][0]))
        return Position(self.plan, row, HANDS, NONE, deal, past, settled, rewards)

    def _laid(self, deal: Deal) -> Position:
        row = _copied(self.row)
        size = self.cards
        hands = [deal.dealt[k : k + size] for k in range(0, len(deal.dealt), size)]
        lay(row, tuple(hands), deal.turn_up)
        return self._with(row, DECISION, int(row["seat"][0]), deal)

    def _decided(self, action: int) -> Position:
        plan = self.plan
        row = _copied(self.row)
        result = push_row(plan.rules_array, row, action)
        deal = self.deal._replace(actions=(*self.deal.actions, action))
        if result == OPEN:
            return self._with(row, DECISION, int(row["seat"][0]), deal)
        if result == ILLEGAL:
            legal = ", ".join(action_text(a) for a in self.legal())
            raise ValueError(f"action: {shown(action)} of seat {self.seat} (allowed: {legal})")
        return self._settled(row, deal)

    def _settled(self, row: Array, deal: Deal) -> Position:
        """The position after a round: the next one is dealt, or the match is over."""
        plan = self.plan
        # A blind round's cards were played by the engine.
        plays = row["plays"][0, : self.cards, : plan.num_players].ravel().tolist()
        deal = deal._replace(actions=(*deal.actions[: plan.num_players], *plays))
        rewards = tuple(map(float, row["points"][0, : plan.num_players].tolist()))
        past, settled = (*self.past, deal), (*self.settled, row.tobytes())
        if next_row(plan.rules_array, row):
            return Position(plan, row, END, NONE, deal, past, settled, rewards)
        return self._dealing(row, past, settled, rewards)

    def legal(self) -> list[int]:
        """The actions of the seat to act, rising."""
        mask = np.zeros(NUM_ACTIONS, np.int8)
        write_row_mask(self.plan.rules_array, self.row, mask)
        legal: list[int] = mask.nonzero()[0].tolist()
        return legal

    def chances(self) -> list[tuple[int, float]]:
        """The outcomes of a chance node, rising, with their probabilities."""
        plan, dealt = self.plan, self.deal.dealt
        if self.waits == DEALER:
            return [(seat, 1 / plan.num_players) for seat in range(plan.num_players)]
        if self.waits == TURNED:
            return list(turn_up_chances(plan.rules.pack, dealt))
        return list(deal_chances(plan.rules.pack, dealt, self.cards))

    def totals(self) -> list[float]:
        """The points of each seat so far."""
        return [float(n) for n in self.row["total"][0, : self.plan.num_players].tolist()]

    def view(self, seat: int) -> View:
        """What a seat knows, as bots are given it; ValueError while cards are being dealt."""
        self._check_dealt()
        plan = self.plan
        return View(plan.rules, seat, self.row, self.settled, plan.players)

    def record(self) -> Record:
        """The match so far as a record with no seed; ValueError while cards are being dealt."""
        self._check_dealt()
        plan = self.plan
        return match_sheet(plan.rules, None, 0, plan.players, self.settled, self.row)

    def _check_dealt(self) -> None:
        if self.waits not in (DECISION, END):
            raise ValueError(
                "state: a chance node (allowed: one where a seat is to act, or an end)"
            )

    def rounds(self) -> tuple[Deal, ...]:
        """The rounds begun, the one being dealt included."""
        return self.past if self.waits == END else (*self.past, self.deal)

    def __copy__(self) -> Position:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Position:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Position, tuple(
            getattr(self, name)
            for name in ("plan", "row", "waits", "seat", "deal", "past", "settled", "rewards")
        )


# --- what a seat remembers --------------------------------------------------------------------


def shown_actions(position: Position, deal: Deal, seat: int) -> Sequence[int]:
    """The bids and plays of a round in order, NONE for each bid that `seat` has not seen yet."""
    rules, actions = position.plan.rules, deal.actions
    if not rules.is_simultaneous or len(actions) >= rules.num_players:
        return actions
    own = (seat - deal.dealer) * rules.step % rules.num_players
    return [
        action if (k + 1 - own) % rules.num_players == 0 else NONE
        for k, action in enumerate(actions)
    ]


def shown_hand(position: Position, number: int, deal: Deal, seat: int) -> tuple[int, ...]:
    """The cards `seat` was dealt in round `number` (from 0), as far as it has looked at them.

    It takes up its hand when all are dealt, in a blind round when all bids are made.
    """
    plan = position.plan
    cards, _, is_blind = plan.rules.schedule[number]
    if len(deal.dealt) < cards * plan.num_players:
        return ()
    if is_blind and len(deal.actions) < plan.num_players:
        return ()
    return deal.dealt[seat * cards : (seat + 1) * cards]


def recall(position: Position, seat: int) -> str:
    """All that `seat` has seen in this match, a line for each round: no two differ in it and look
    the same."""
    lines = [f"seat {seat}"]
    schedule = position.plan.rules.schedule
    for number, deal in enumerate(position.rounds()):
        trump = schedule[number].trump if deal.turn_up == NONE else deal.turn_up // NUM_RANKS
        turned = "" if deal.turn_up == NONE else f" ({CARD_TEXTS[deal.turn_up]} turned up)"
        dealer = "" if deal.dealer == NONE else f" dealer {deal.dealer}"
        hand = " ".join(CARD_TEXTS[card] for card in shown_hand(position, number, deal, seat))
        done = " ".join(_DONE[action] for action in shown_actions(position, deal, seat))
        lines.append(f"{number + 1}:{dealer} trump {_TRUMPS[trump]}{turned} hand {hand}; {done}")
    return "\n".join(lines)


def recall_shapes(rules: Rules) -> dict[str, tuple[int, ...]]:
    """The blocks of `write_recall` in order: one-hot by seat, bid and card, for every round."""
    seats, kinds = rules.num_players, len(set(rules.pack))
    shapes: dict[str, tuple[int, ...]] = {"seat": (seats,)}
    for number, plan in enumerate(rules.schedule, start=1):
        shapes[f"dealer_{number}"] = (seats,)
        if rules.is_turn_up:
            shapes[f"turn_up_{number}"] = (kinds,)
        shapes[f"hand_{number}"] = (kinds,)
        shapes[f"bids_{number}"] = (seats, plan.cards + 1)
        shapes[f"plays_{number}"] = (plan.cards * seats, kinds)
    return shapes


def write_recall(position: Position, seat: int, out: Mapping[str, Array]) -> None:
    """Write all that `seat` has seen into zeroed blocks: hands count copies, bids and plays stand
    in the order they were made."""
    plan = position.plan
    kind, num_players = plan.kind, plan.num_players
    out["seat"][seat] = 1
    for number, deal in enumerate(position.rounds(), start=1):
        if deal.dealer != NONE:
            out[f"dealer_{number}"][deal.dealer] = 1
        if deal.turn_up != NONE:
            out[f"turn_up_{number}"][kind[deal.turn_up]] = 1
        for card in shown_hand(position, number - 1, deal, seat):
            out[f"hand_{number}"][kind[card]] += 1
        bids, plays = out[f"bids_{number}"], out[f"plays_{number}"]
        for turn, action in enumerate(shown_actions(position, deal, seat)):
            if turn >= num_players:
                plays[turn - num_players, kind[action]] = 1
            elif action != NONE:
                bids[turn, action - BID_OFFSET] = 1
