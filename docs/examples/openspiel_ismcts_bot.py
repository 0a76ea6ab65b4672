"""OpenSpiel's ISMCTS as a bot for the `oh-hell` preset, behind the process protocol.

It needs nothing but OpenSpiel 1.6, which goes into an environment of its own:

    python3 -m venv os16 && os16/bin/pip install "open_spiel==1.6.*"
    judgement arena --rules=oh-hell heuristic \\
        "process:os16/bin/python docs/examples/openspiel_ismcts_bot.py"

OpenSpiel 2.0 is refused: there `oh_hell` deals the hidden cards of its search out of those that are
in play, so that the search knows which cards nobody holds. 1.6 takes all unseen cards.
"""

import argparse
import json
import random
import sys

WANTED = "1.6."
# What the game and the search can play; everything else about the rules is free.
RULES = {
    "trumps": "turn-up",
    "hook": True,
    "bidding": "in-turn",
    "scoring": "trick-points",
    "sweep_bonus": 0,
    "blind_rounds": [],
    "direction": "clockwise",
    "packs": 1,
    "suits": 4,
    "ranks": 13,
}
PLAYERS = range(3, 8)
SUITS, RANKS = "CDSH", "23456789TJQKA"
FIRST_BID = len(SUITS) * len(RANKS)


def stop(text):
    """End the program, saying why."""
    sys.exit(f"openspiel_ismcts_bot: {text}")


def load():
    """Return the library, of the version whose search is fair."""
    try:
        import pyspiel
    except ImportError:
        stop(f'open_spiel is not installed (pip install "open_spiel=={WANTED}*")')
    version = getattr(pyspiel, "__version__", "unknown")
    if not version.startswith(WANTED):
        stop(
            f"open_spiel {version} is installed (allowed: {WANTED}*; from 2.0 on the search of"
            " oh_hell knows which cards were not dealt)"
        )
    return pyspiel


def check_rules(rules):
    """Stop where OpenSpiel's game has other rules."""
    for field, allowed in RULES.items():
        if rules[field] != allowed:
            stop(f"{field}: {rules[field]!r} (allowed: {allowed!r}, as in the preset oh-hell)")
    if rules["num_players"] not in PLAYERS:
        stop(f"num_players: {rules['num_players']} (allowed: {PLAYERS[0]} to {PLAYERS[-1]})")


def card_number(text):
    """Return OpenSpiel's number of a card."""
    return RANKS.index(text[0]) * len(SUITS) + SUITS.index(text[1])


def card_text(number):
    """Return a card of OpenSpiel's as the protocol writes it."""
    return RANKS[number // len(SUITS)] + SUITS[number % len(SUITS)]


def shown_cards(this):
    """Return the cards each seat has played, and the suits each has shown to lack."""
    num_players = len(this["hands"])
    played = [[] for _ in range(num_players)]
    voids = [set() for _ in range(num_players)]
    for trick in this["tricks"]:
        for turn, card in enumerate(trick["plays"]):
            seat = (trick["leader"] + turn) % num_players
            played[seat].append(card)
            if card[1] != trick["plays"][0][1]:
                voids[seat].add(trick["plays"][0][1])
    return played, voids


def guess(this, seat, chance):
    """Return a hand for every seat, as dealt: its own, and any that fit for the others.

    The view holds no card of theirs but those played, so the true ones are not at hand. A place in
    a hand that no card is left for takes one that another place can do without.
    """
    played, voids = shown_cards(this)
    seen = {card for cards in played for card in cards} | {*this["hands"][seat], this["turn_up"]}
    unseen = [rank + suit for rank in RANKS for suit in SUITS if rank + suit not in seen]
    chance.shuffle(unseen)
    hands = [list(cards) for cards in played]
    hands[seat] = list(this["hands"][seat])
    holder = {}

    def fill(other, tried):
        for card in unseen:
            if card[1] not in voids[other] and card not in tried:
                tried.add(card)
                if card not in holder or fill(holder[card], tried):
                    holder[card] = other
                    return True
        return False

    for other, hand in enumerate(hands):
        for _ in range(this["cards"] - len(hand)):
            if not fill(other, set()):
                stop("the view fits no deal")
    for card, other in holder.items():
        hands[other].append(card)
    return hands


def history(this, hands):
    """Return the actions of OpenSpiel's game that lead to this moment."""
    seats = range(len(hands))
    actions = [this["cards"], this["dealer"]]
    # Cards go round one by one from seat 0, whoever deals; the last one is turned up.
    actions += [card_number(hands[k][turn]) for turn in range(this["cards"]) for k in seats]
    actions.append(card_number(this["turn_up"]))
    order = [(this["dealer"] + 1 + turn) % len(hands) for turn in seats]
    actions += [FIRST_BID + this["bids"][k] for k in order if this["bids"][k] is not None]
    actions += [card_number(card) for trick in this["tricks"] for card in trick["plays"]]
    return actions


def decide(library, view, options, chance):
    """Return the action that the search visits most.

    The search orders equals by where they lie in memory, so that no seed makes it repeat itself.
    """
    this, seat = view["rounds"][-1], view["seat"]
    seed = chance.randrange(1 << 24)
    num_players = len(this["hands"])
    game = library.load_game(f"oh_hell(players={num_players},num_tricks_fixed={this['cards']})")
    state = game.new_initial_state()
    for action in history(this, guess(this, seat, chance)):
        state.apply_action(action)
    bot = library.ISMCTSBot(
        seed,
        library.RandomRolloutEvaluator(1, seed),
        options.uct,
        options.simulations,
        -1,
        library.ISMCTSFinalPolicyType.MAX_VISIT_COUNT,
        False,
        False,
    )
    action = bot.step(state)
    return action - FIRST_BID if action >= FIRST_BID else card_text(action)


def main():
    """Answer each line on standard input with one on standard output."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", type=int, default=1000, help="a decision (default: 1000)")
    parser.add_argument("--uct", type=float, default=10.0, help="exploration (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="of the search (default: 0)")
    options = parser.parse_args()
    library, chance = load(), random.Random(options.seed)
    name = f"open_spiel {library.__version__} ISMCTS-{options.simulations}"
    for line in sys.stdin:
        message = json.loads(line)
        answer = {"ok": True, "name": name}
        if message["type"] == "start":
            check_rules(message["rules"])
        elif message["type"] == "act":
            answer = {"action": decide(library, message["view"], options, chance)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
