"""Judgement as an OpenSpiel game, `python_judgement`, on this package's engine.

Importing this file registers it. A game is a match, or one round of it, under any rules; who deals,
every card and the turned-up card are chance nodes. Information states recall everything a seat has
seen, and `resample_from_infostate` deals the hidden cards anew.

    import judgement_env.integrations.openspiel
    game = pyspiel.load_game("python_judgement(rules=oh-hell,num_players=3,suits=2,ranks=3,top=1)")
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import chain
from typing import Any, Final
from urllib.parse import quote, unquote

import numpy as np
import yaml

from judgement_env.cards import (
    BID_OFFSET,
    CARD_TEXTS,
    NONE,
    NUM_ACTIONS,
    NUM_CARDS,
    action_text,
)
from judgement_env.game_tree import (
    DEALER,
    DECISION,
    END,
    TURNED,
    Position,
    plan_of,
    recall,
    recall_shapes,
    write_recall,
)
from judgement_env.observation import SIZE, as_float, decode
from judgement_env.record import Record
from judgement_env.rules import MAX_PLAYERS, MIN_PLAYERS, Rules, make_rules
from judgement_env.scoring import nearest, shown
from judgement_env.state import Array
from judgement_env.view import View, encode_row
from judgement_env.worlds import Random, sample_bids, sample_deal

try:
    import pyspiel
except ImportError as error:
    raise ImportError(
        "judgement_env.integrations.openspiel needs open-spiel;"
        " pip install 'judgement-env[openspiel]'"
    ) from error

SHORT_NAME: Final = "python_judgement"
# What leaves the rules as they are, for each parameter: OpenSpiel fixes the type of each by its
# default. Lists are texts as "3 2 1" or "[1]", `hook` is "on" or "off", `top` -1 is "max".
UNSET: Final[Mapping[str, Any]] = {
    "rules": "kachuful",
    "round": 0,
    "num_players": 0,
    "player_range": "",
    "cards": "",
    "top": 0,
    "trumps": "",
    "hook": "",
    "bidding": "",
    "scoring": "",
    "sweep_bonus": -1,
    "blind_rounds": "",
    "direction": "",
    "packs": 0,
    "suits": 0,
    "ranks": 0,
    "first_dealer": -1,
}
_LISTS: Final = ("player_range", "cards", "trumps", "blind_rounds")
TOP_MAX: Final = -1


# --- parameters -------------------------------------------------------------------------------


def rules_of(parameters: Mapping[str, Any]) -> Rules:
    """The rules that game parameters ask for; ValueError naming field, value and allowed range."""
    for name in parameters:
        if name not in UNSET:
            hint = nearest(name, UNSET)
            raise ValueError(f"unknown parameter {shown(name)} (allowed: {', '.join(UNSET)}){hint}")
    given = {name: value for name, value in parameters.items() if value != UNSET[name]}
    number = given.pop("round", 0)
    base = make_rules(_base_of(given.pop("rules", UNSET["rules"])))
    if given.get("top") == TOP_MAX:
        given["top"] = "max"
    rules = base.replace(**{name: _value(name, value) for name, value in given.items()})
    if not 0 <= number <= rules.num_rounds:
        raise ValueError(
            f"round: {number} (allowed: 1 to {rules.num_rounds}, or 0 for the whole match)"
        )
    return rules if number == 0 else rules.only_round(number - 1)


def game_parameters(rules: Rules) -> dict[str, Any]:
    """Parameters for `pyspiel.load_game` that ask for exactly these rules, tables included."""
    return {"rules": quote(json.dumps(rules.to_dict()), safe="")}


def _base_of(text: str) -> Any:
    """A preset's name or a file's path as it is; fields written as JSON or YAML as a mapping."""
    written = unquote(text) if text.startswith("%7B") else text
    return _read("rules", written) if written.lstrip().startswith("{") else text


def _value(field: str, value: Any) -> Any:
    """A field's value from its text; a list's items may stand apart by spaces."""
    if not isinstance(value, str):
        return value
    if field in _LISTS and not re.search("[a-z]", value):
        return [_read(field, item) for item in re.split(r"[\s,;]+", value.strip("[] ")) if item]
    return _read(field, value)


def _read(field: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ValueError(f"{field}: {text!r} (allowed: a value as in YAML)") from None


def _written(name: str, value: Any) -> Any:
    """A parameter in a form that a game's text can hold: it may have no comma and no equals."""
    if name == "rules" and value.lstrip().startswith("{"):
        return quote(value, safe="")
    return re.sub(r"[\s,;]+", " ", value) if name in _LISTS else value


# --- states -----------------------------------------------------------------------------------

# Who acts, by what a position waits for; a seat where it waits for a decision.
_NOBODY: Final[Mapping[int, Any]] = {
    waits: pyspiel.PlayerId.TERMINAL if waits == END else pyspiel.PlayerId.CHANCE
    for waits in range(DECISION + 2)
}


class JudgementState(pyspiel.State):
    """A moment of a game. Its position never changes, so that a clone costs no copy of it."""

    def __init__(self, game: JudgementGame) -> None:
        super().__init__(game)
        self._position = plan_of(game.rules).start

    @property
    def position(self) -> Position:
        """The moment in the terms of this package."""
        return self._position

    # What OpenSpiel asks.

    def current_player(self) -> Any:
        position = self._position
        return position.seat if position.waits == DECISION else _NOBODY[position.waits]

    def is_terminal(self) -> bool:
        return self._position.waits == END

    def _legal_actions(self, player: int) -> list[int]:
        return self._position.legal() if player == self._position.seat else []

    def chance_outcomes(self) -> list[tuple[int, float]]:
        return self._position.chances()

    def _apply_action(self, action: int) -> None:
        self._position = self._position.after(action)

    def returns(self) -> list[float]:
        return self._position.totals()

    def rewards(self) -> list[float]:
        return list(self._position.rewards)

    def _action_to_string(self, player: int, action: int) -> str:
        if player >= 0:
            return action_text(action)
        position = self._position
        if position.waits == DEALER:
            return f"seat {action} deals"
        if position.waits == TURNED:
            return f"turn up {CARD_TEXTS[action]}"
        return f"{CARD_TEXTS[action]} to seat {len(position.deal.dealt) // position.cards}"

    def __str__(self) -> str:
        position = self._position
        seats = range(position.plan.num_players)
        return "\n".join(recall(position, seat) for seat in seats)

    def information_state_string(self, player: int | None = None) -> str:
        """All that a seat has seen; OpenSpiel's C++ comes by the same text through the observer."""
        return recall(self._position, self._seat(player))

    def resample_from_infostate(self, player_id: int, probability_sampler: Random) -> Any:
        """A state that `player_id` could as well be in, each deal that fits equally likely.

        Its history holds the new deal. Hidden simultaneous bids are drawn from 0 to the cards.
        `probability_sampler` draws from 0 up to 1. Raises ValueError while cards are dealt.
        """
        position = self._position
        if position.waits == END:
            return self.clone()
        view = position.view(self._seat(player_id))
        hands = sample_deal(view, probability_sampler)
        bids = sample_bids(view, probability_sampler)
        deal, rules = position.deal, position.plan.rules
        turn_up = [] if deal.turn_up == NONE else [deal.turn_up]
        num_bids = min(len(deal.actions), rules.num_players)
        order = [(deal.dealer + k * rules.step) % rules.num_players for k in range(1, num_bids + 1)]
        done = [BID_OFFSET + bids[seat] for seat in order] + list(deal.actions[num_bids:])
        dealt = list(chain(*hands))
        past = self.history()[: -(len(dealt) + len(turn_up) + len(done))]
        state = self.get_game().new_initial_state()
        for action in (*past, *dealt, *turn_up, *done):
            state.apply_action(action)
        return state

    # What this package adds.

    def view(self, player: int) -> View:
        """What a seat knows, for `bot.act`; ValueError while cards are dealt."""
        return self._position.view(self._seat(player))

    def record(self) -> Record:
        """The match so far as a record with no seed; ValueError while cards are being dealt."""
        return self._position.record()

    def _seat(self, player: Any) -> int:
        num_players = self._position.plan.num_players
        seat = self._position.seat if player is None else player
        if not 0 <= seat < num_players:
            raise ValueError(f"player: {player!r} (allowed: a seat from 0 to {num_players - 1})")
        return int(seat)


# --- observers --------------------------------------------------------------------------------


class JudgementObserver:
    """What a seat sees now (the package's observation), or with perfect recall has ever seen.

    `tensor` is float32, flat; `dict` holds views of its blocks. While cards are dealt the
    observation is all zeros.
    """

    def __init__(self, rules: Rules, is_recall: bool) -> None:
        self._is_recall = is_recall
        shapes = recall_shapes(rules) if is_recall else {"observation": (SIZE,)}
        ends = np.cumsum([np.prod(shape) for shape in shapes.values()])
        self.tensor = np.zeros(ends[-1], np.float32)
        parts = np.split(self.tensor, ends[:-1])
        self.dict = {
            name: part.reshape(shape)
            for (name, shape), part in zip(shapes.items(), parts, strict=True)
        }
        self._raw = np.empty(SIZE, np.uint8)

    def set_from(self, state: JudgementState, player: int) -> None:
        """Write what `player` sees of a state into `tensor`."""
        position = state.position
        self.tensor.fill(0)
        if self._is_recall:
            write_recall(position, player, self.dict)
        elif position.waits in (DECISION, END):
            as_float(self._encoded(position, player), out=self.tensor)

    def string_from(self, state: JudgementState, player: int) -> str:
        """What `player` sees of a state in words; equal texts are equal tensors."""
        position = state.position
        if self._is_recall:
            return recall(position, player)
        if position.waits not in (DECISION, END):
            return "the cards are being dealt"
        return json.dumps(decode(self._encoded(position, player)))

    def _encoded(self, position: Position, player: int) -> Array:
        encode_row(position.plan.rules_array, position.row, player, self._raw)
        return self._raw


# --- the game ---------------------------------------------------------------------------------


def _type(reward_model: Any) -> Any:
    return pyspiel.GameType(
        short_name=SHORT_NAME,
        long_name="Judgement (Kachuful, Oh Hell)",
        dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL,
        chance_mode=pyspiel.GameType.ChanceMode.EXPLICIT_STOCHASTIC,
        information=pyspiel.GameType.Information.IMPERFECT_INFORMATION,
        utility=pyspiel.GameType.Utility.GENERAL_SUM,
        reward_model=reward_model,
        max_num_players=MAX_PLAYERS,
        min_num_players=MIN_PLAYERS,
        provides_information_state_string=True,
        provides_information_state_tensor=True,
        provides_observation_string=True,
        provides_observation_tensor=True,
        parameter_specification=dict(UNSET),
    )


def _info(rules: Rules) -> Any:
    points = [rules.points[size, : size + 1, : size + 1] for size in rules.sizes]
    decisions = [
        rules.num_players * (1 if plan.is_blind else 1 + plan.cards) for plan in rules.schedule
    ]
    return pyspiel.GameInfo(
        num_distinct_actions=NUM_ACTIONS,
        max_chance_outcomes=NUM_CARDS,
        num_players=rules.num_players,
        min_utility=float(sum(table.min() for table in points)),
        max_utility=float(sum(table.max() for table in points)),
        max_game_length=sum(decisions),
    )


class JudgementGame(pyspiel.Game):
    """One match (or round) under the rules its parameters ask for; see `rules_of`."""

    def __init__(self, params: Mapping[str, Any] | None = None) -> None:
        given = dict(params or {})
        rules = rules_of(given)
        # With one round all points come at the end, which some algorithms insist on.
        models = pyspiel.GameType.RewardModel
        model = models.TERMINAL if rules.num_rounds == 1 else models.REWARDS
        written = {name: _written(name, value) for name, value in given.items()}
        super().__init__(_type(model), _info(rules), written)
        self.rules = rules

    def __reduce__(self) -> tuple[Any, ...]:
        # OpenSpiel's own way leaves `rules` behind, and would not import this file elsewhere.
        return _loaded, (str(self),)

    def new_initial_state(self) -> JudgementState:
        """The state before anything is dealt."""
        return JudgementState(self)

    def make_py_observer(
        self, iig_obs_type: Any = None, params: Mapping[str, Any] | None = None
    ) -> JudgementObserver:
        """An observer of a seat's own and all public information, of now or with perfect recall."""
        if params:
            raise ValueError(f"params: {dict(params)!r} (allowed: none)")
        if iig_obs_type is None:
            return JudgementObserver(self.rules, is_recall=False)
        single = pyspiel.PrivateInfoType.SINGLE_PLAYER
        if not iig_obs_type.public_info or iig_obs_type.private_info != single:
            raise ValueError(
                f"iig_obs_type: {iig_obs_type} (allowed: public_info, private_info SINGLE_PLAYER)"
            )
        return JudgementObserver(self.rules, bool(iig_obs_type.perfect_recall))


def _loaded(text: str) -> Any:
    return pyspiel.load_game(text)


pyspiel.register_game(_type(pyspiel.GameType.RewardModel.REWARDS), JudgementGame)
