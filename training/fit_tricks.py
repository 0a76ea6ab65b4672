"""Fit the constants of `heuristic+` to rounds it plays: python -m training.fit_tricks [options]

In each pass one seat among rule players, or all seats, play rounds of many games by the constants
of the pass before. Two seats in three take one bid or card at random; that and a seat's later
decisions are kept with how the round ended for it, and both networks are fitted to them. Equal
seeds give equal files on the same machine.

    python -m training.fit_tricks --passes=3 --rows=2000000
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from safetensors.numpy import save
from torch import Tensor, nn

from judgement_env._jit import njit, stack_numbers
from judgement_env.bots.rule_player import CARDS, LOST, heuristic_action, standing
from judgement_env.bots.sharp_player import (
    BID_INPUTS,
    FARTHEST,
    FILE,
    FIRST,
    OUTCOMES,
    PLAY_INPUTS,
    SECOND,
    sharp_action,
)
from judgement_env.bots.trick_inputs import (
    BID_SHARED,
    PLAY_SHARED,
    begin_bid,
    begin_play,
    write_bid,
    write_card,
    write_choice,
    write_play,
)
from judgement_env.cards import BID_OFFSET, NONE
from judgement_env.engine import (
    apply_action,
    begin_match,
    draw_below,
    forbidden_bid,
    legal_cards,
    lowest,
    popcount,
    stream,
    table_key,
)
from judgement_env.files import whole_file
from judgement_env.observation import knows_hand, unseen_words
from judgement_env.rules import TURN_UP, Rules
from judgement_env.scoring import SCHEMES
from judgement_env.state import (
    BIDDING,
    SETTLED,
    Array,
    Bits,
    RulesRecord,
    TableRecord,
    new_tables,
    pack_rules,
)

MAX_SEATS = 10
BATCH = 2048
BID_EPOCHS, PLAY_EPOCHS = 4, 3
FIRST_RATE, LATER_RATE = 2e-3, 1e-3
# Passes whose decisions a fit sees, the newest included.
KEPT = 2

# --- rounds -----------------------------------------------------------------------------------


@njit
def stray_action(r: RulesRecord, t: TableRecord, usual: int, key: Bits) -> int:
    """Return an action drawn by lot: a bid up to two off the usual one, or any legal card."""
    if t.phase == BIDDING:
        cards = int(t.cards)
        bid = usual - BID_OFFSET + draw_below(key, 1, 5) - 2
        if bid < 0 or bid > cards or bid == forbidden_bid(r, t):
            return usual
        return BID_OFFSET + bid
    legal = legal_cards(t)
    skip = draw_below(key, 1, popcount(legal))
    while skip > 0:
        legal &= legal - np.uint64(1)
        skip -= 1
    return int(np.int64(lowest(legal)))


@njit
def keep_decision(r: RulesRecord, t: TableRecord, action: int, row: Array) -> bool:
    """Write the inputs of an action that is taken; False where they would not be asked for."""
    room = stack_numbers()
    x = stack_numbers()
    if t.phase == BIDDING:
        if not knows_hand(t):
            return False
        begin_bid(r, t, room)
        write_bid(r, t, room, x)
        write_choice(r, t, action - BID_OFFSET, room, x, BID_SHARED)
        for k in range(BID_INPUTS):
            row[k] = x[k]
        return True
    seat = int(t.seat)
    legal = legal_cards(t)
    if not legal & (legal - np.uint64(1)) or standing(t, seat, t.cards - t.trick) == LOST:
        return False
    once, twice = unseen_words(r, t, seat)
    need = int(t.bid[seat] - t.won[seat])
    num_cards = begin_play(r, t, need, room)
    write_play(r, t, need, num_cards, room, x)
    for i in range(num_cards):
        if int(room[CARDS + i]) == action:
            write_card(r, t, need, i, num_cards, once, twice, room, x, PLAY_SHARED)
            for k in range(PLAY_INPUTS):
                row[k] = x[k]
            return True
    return False


@njit
def play_rounds(
    rules: Array,
    tables: Array,
    seed: Bits,
    bid_net: Array,
    play_net: Array,
    is_sharp: bool,
    bids: Array,
    bid_ends: Array,
    plays: Array,
    play_ends: Array,
    filled: Array,
) -> int:
    """Play rounds until an array is nearly full; return how many.

    `filled` (2,) counts the rows written of `bids` and `plays`.
    """
    t = tables[0]
    bid_at = np.empty(MAX_SEATS, np.int64)
    play_at = np.empty((MAX_SEATS, 32), np.int64)
    num_plays = np.empty(MAX_SEATS, np.int64)
    stray = np.empty(MAX_SEATS, np.int64)
    own = np.empty(MAX_SEATS, np.int64)
    number = 0
    while True:
        key = table_key(seed, number)
        which = draw_below(key, 0, rules.shape[0])
        r = rules[which]
        players = int(r.num_players)
        if filled[0] + players > bids.shape[0] or filled[1] + players * 27 > plays.shape[0]:
            return number
        number += 1
        t.key = key
        t.rules = which
        begin_match(r, t, 0, 0, NONE)
        learner = draw_below(key, 1, 2 * players)
        for seat in range(players):
            # One seat among rule players, or all of them.
            own[seat] = int(learner >= players or learner == seat)
            bid_at[seat] = NONE
            num_plays[seat] = 0
            # No decision, the bid, or one of the plays: a third each.
            stray[seat] = draw_below(key, 10 + seat, 3) - 1
            if stray[seat] > 0:
                stray[seat] += draw_below(key, 30 + seat, int(t.cards))
        step = 0
        while t.phase < SETTLED:
            seat = int(t.seat)
            step += 1
            is_bid = t.phase == BIDDING
            if not own[seat]:
                apply_action(r, t, heuristic_action(r, t))
                continue
            action = sharp_action(r, t, bid_net, play_net) if is_sharp else heuristic_action(r, t)
            when = 0 if is_bid else int(t.trick) + 1
            if when == stray[seat]:
                action = stray_action(r, t, action, stream(key, 100 + step))
            if when >= stray[seat]:
                if is_bid:
                    if keep_decision(r, t, action, bids[filled[0]]):
                        bid_at[seat] = filled[0]
                        filled[0] += 1
                elif keep_decision(r, t, action, plays[filled[1]]):
                    play_at[seat, num_plays[seat]] = filled[1]
                    num_plays[seat] += 1
                    filled[1] += 1
            apply_action(r, t, action)
        for seat in range(players):
            over = int(t.won[seat]) - int(t.bid[seat])
            end = min(max(over, -FARTHEST), FARTHEST) + FARTHEST
            if bid_at[seat] != NONE:
                bid_ends[bid_at[seat]] = end
            for k in range(num_plays[seat]):
                play_ends[play_at[seat, k]] = end


# --- games ------------------------------------------------------------------------------------


# How often so many players sit at a table of the games drawn; of four, so many cards a hand.
PLAYERS = {4: 0.5, 2: 0.05, 3: 0.1, 5: 0.1, 6: 0.08, 7: 0.04, 8: 0.06, 9: 0.02, 10: 0.05}
SIZES = {1: 0.04, 2: 0.06, 3: 0.1, 4: 0.12, 5: 0.14, 6: 0.16, 7: 0.2, 8: 0.06, 9: 0.06, 10: 0.06}


def games(number: int, seed: int) -> list[Rules]:
    """Draw the rules of single rounds: all players, sizes and house rules, four players most."""
    rng = np.random.default_rng(seed)
    return [draw_game(rng) for _ in range(number)]


def draw_game(rng: np.random.Generator) -> Rules:
    """Draw the rules of one single round."""
    players = int(rng.choice(list(PLAYERS), p=list(PLAYERS.values())))
    packs = 2 if rng.random() < 0.08 else 1
    cards = 1 + int(min(13, (52 * packs - 1) // players) * rng.random() ** 0.9)
    if players == 4 and rng.random() < 0.7:
        cards = int(rng.choice(list(SIZES), p=list(SIZES.values())))
    is_turn_up = rng.random() < 0.15
    is_simultaneous = rng.random() < 0.08
    trump = str(rng.choice(["S", "NT"], p=[0.8, 0.2]))
    scoring = "trick-points" if is_turn_up and rng.random() < 0.7 else "ten-plus"
    if rng.random() < 0.5:
        scoring = str(rng.choice(list(SCHEMES)[:-1]))
    return Rules(
        num_players=players,
        player_range=(2, 10),
        cards=(cards,),
        trumps=TURN_UP if is_turn_up else (trump,),
        packs=packs,
        bidding="simultaneous" if is_simultaneous else "in-turn",
        hook=not is_simultaneous and rng.random() < 0.8,
        scoring=scoring,
        sweep_bonus=10 if rng.random() < 0.1 else 0,
    )


# --- fitting ----------------------------------------------------------------------------------


def make_net(num_inputs: int) -> nn.Sequential:
    """A network of the shape that `sharp_player` reads."""
    return nn.Sequential(
        nn.Linear(num_inputs, FIRST),
        nn.ReLU(),
        nn.Linear(FIRST, SECOND),
        nn.ReLU(),
        nn.Linear(SECOND, OUTCOMES),
    )


def flat(net: nn.Sequential) -> Array:
    """The constants of a network in the order `sharp_player` reads them."""
    parts = []
    for layer in net:
        if isinstance(layer, nn.Linear):
            parts += [layer.weight.detach().T.reshape(-1), layer.bias.detach()]
    values: Array = torch.cat(parts).numpy().astype(np.float64)
    return values


def fit(net: nn.Sequential, rows: Array, ends: Array, epochs: int, rate: float) -> float:
    """Fit a network to rows (N, F) and their outcomes (N,); return the mean loss of the end."""
    inputs, targets = torch.from_numpy(rows), torch.from_numpy(ends)
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    starts = range(0, max(1, len(rows) - BATCH + 1), BATCH)
    steps = epochs * len(starts)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: max(0.01, 1 - k / steps))
    mean = 0.0
    for _ in range(epochs):
        order = torch.randperm(len(rows))
        total = 0.0
        for start in starts:
            index = order[start : start + BATCH]
            loss: Tensor = nn.functional.cross_entropy(net(inputs[index]), targets[index])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += float(loss.detach())
        mean = total / len(starts)
    return mean


# --- passes -----------------------------------------------------------------------------------


class Rows:
    """Decisions that were kept, with how their rounds ended."""

    def __init__(self, num_plays: int) -> None:
        """Make room for about as many plays, and a third as many bids."""
        self.bids = np.empty((num_plays // 3, BID_INPUTS), np.float32)
        self.bid_ends = np.empty(len(self.bids), np.int64)
        self.plays = np.empty((num_plays, PLAY_INPUTS), np.float32)
        self.play_ends = np.empty(len(self.plays), np.int64)

    def fill(self, rules: Array, seed: int, nets: tuple[Array, Array], is_sharp: bool) -> int:
        """Play until there is no more room; return how many rounds that took."""
        filled = np.zeros(2, np.int64)
        bids, ends, plays, play_ends = self.bids, self.bid_ends, self.plays, self.play_ends
        rounds = play_rounds(
            rules,
            new_tables(1),
            np.uint64(seed),
            *nets,
            is_sharp,
            bids,
            ends,
            plays,
            play_ends,
            filled,
        )
        self.bids, self.bid_ends = bids[: filled[0]], ends[: filled[0]]
        self.plays, self.play_ends = plays[: filled[1]], play_ends[: filled[1]]
        return int(rounds)


def fit_passes(passes: int, num_rows: int, num_games: int, seed: int) -> dict[str, Array]:
    """Run all passes and return both networks' constants, float32."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rules = pack_rules(games(num_games, seed))
    bid, play = make_net(BID_INPUTS), make_net(PLAY_INPUTS)
    kept: list[Rows] = []
    for number in range(passes):
        begun = time.monotonic()
        new = Rows(num_rows)
        rounds = new.fill(rules, seed * 1000 + number, (flat(bid), flat(play)), number > 0)
        kept = [*kept[1 - KEPT :], new]
        rate = FIRST_RATE if number == 0 else LATER_RATE
        bids = np.concatenate([part.bids for part in kept])
        bid_ends = np.concatenate([part.bid_ends for part in kept])
        bid_loss = fit(bid, bids, bid_ends, BID_EPOCHS, rate)
        plays = np.concatenate([part.plays for part in kept])
        play_ends = np.concatenate([part.play_ends for part in kept])
        play_loss = fit(play, plays, play_ends, PLAY_EPOCHS, rate)
        print(
            f"pass {number + 1} of {passes}: {rounds:,} rounds, {len(bids):,} bids of loss"
            f" {bid_loss:.4f}, {len(plays):,} cards of loss {play_loss:.4f},"
            f" {time.monotonic() - begun:.0f} s",
            flush=True,
        )
    return {name: flat(net).astype(np.float32) for name, net in (("bid", bid), ("play", play))}


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m training.fit_tricks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--passes", type=int, default=3, help="default: %(default)s")
    parser.add_argument(
        "--rows", type=int, default=2_000_000, help="cards kept of a pass (default: %(default)s)"
    )
    parser.add_argument("--games", type=int, default=600, help="rules drawn (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--out", type=Path, default=FILE, help="the file (default: the bot's own)")
    given = parser.parse_args(arguments)
    for name, least in (("passes", 1), ("rows", 1000), ("games", 1), ("seed", 0)):
        if getattr(given, name) < least:
            parser.error(f"--{name}: {getattr(given, name)} (allowed: a whole number from {least})")
    found = fit_passes(given.passes, given.rows, given.games, given.seed)
    with whole_file(given.out) as file:
        file.write(save(found))
    print(given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
