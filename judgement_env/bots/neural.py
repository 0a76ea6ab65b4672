"""A trained policy as a bot: reads a model folder and plays it without torch.

A model folder holds ``policy.safetensors``, ``policy.onnx`` and ``card.json``. The card says what
the network was trained for and which layout of observations it reads; a folder that does not fit
this package is refused with both sides named.

    bot = NeuralBot("models/kachuful")
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from judgement_env import ENV_VERSION, MODELS_SINCE
from judgement_env._jit import njit
from judgement_env.bots.base import Bot, check_turn
from judgement_env.bots.policy import PolicyNetwork
from judgement_env.cards import NUM_ACTIONS
from judgement_env.engine import write_mask
from judgement_env.observation import SIZE, encode, layout_hash
from judgement_env.state import Array
from judgement_env.view import View

CARD_FORMAT = "judgement-model/1"
WEIGHTS_FILE, ONNX_FILE, CARD_FILE = "policy.safetensors", "policy.onnx", "card.json"


@njit
def observe_rows(rules: Array, tables: Array, rows: Array, raw: Array, masks: Array) -> None:
    """Write what the seats to act of ``tables[rows]`` see and may do."""
    for b in range(rows.shape[0]):
        t = tables[rows[b]]
        r = rules[t.rules]
        encode(r, t, t.seat, raw[b])
        write_mask(r, t, masks[b])


def read_card(folder: Path) -> dict[str, Any]:
    """Return the card of a model folder.

    Raises FileNotFoundError where there is none, ValueError where it is not one this package reads.
    """
    path = folder / CARD_FILE
    if not path.is_file():
        is_run = (folder / "checkpoint.pt").is_file()
        hint = f"; python -m training.export {folder} makes a model of the run" if is_run else ""
        raise FileNotFoundError(f"{folder}: not a model folder, it has no {CARD_FILE}{hint}")
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from None
    if not isinstance(card, dict) or card.get("format") != CARD_FORMAT:
        found = card.get("format") if isinstance(card, dict) else type(card).__name__
        raise ValueError(f"{path}: format {found!r} is not {CARD_FORMAT!r}")
    for field, here in (
        ("layout_hash", layout_hash()),
        ("env_version", ENV_VERSION),
        ("num_actions", NUM_ACTIONS),
    ):
        found = card.get(field)
        is_alike = field == "env_version" and found in range(MODELS_SINCE, ENV_VERSION)
        if found != here and not is_alike:
            raise ValueError(
                f"{path}: {field} of the model is {found!r}, of this package {here!r};"
                " train the model again or install the version it was made with"
            )
    return card


def read_weights(folder: Path, card: dict[str, Any]) -> dict[str, Array]:
    """Return the tensors of a model folder; ValueError where they are not those of the card."""
    path = folder / WEIGHTS_FILE
    if not path.is_file():
        raise FileNotFoundError(f"{folder}: the model has no {WEIGHTS_FILE}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if card.get("weights_sha256") != digest:
        raise ValueError(
            f"{path}: not the weights of its card (sha256 {digest[:12]}…, the card says"
            f" {str(card.get('weights_sha256'))[:12]}…); the file is damaged or was exchanged"
        )
    try:
        return dict(load_file(path))
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"{path}: not a whole safetensors file ({error})") from None


class PolicyBot(Bot):
    """Plays the likeliest action of a policy over observations, or draws one (``greedy=False``)."""

    has_rows = True
    greedy: bool
    generator: np.random.Generator

    @abstractmethod
    def chances(self, raw: Array, masks: Array) -> Array:
        """Return the probabilities (B, 79) of raw observations (B, D) and masks (B, 79)."""

    def policy_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        """Return the probabilities (B, 79) of the seats to act of ``tables[rows]``."""
        raw = np.empty((len(rows), SIZE), np.uint8)
        masks = np.empty((len(rows), NUM_ACTIONS), np.int8)
        observe_rows(rules, tables, rows, raw, masks)
        return self.chances(raw, masks)

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        """Return the actions (B,) of the seats to act of ``tables[rows]``."""
        chances = self.policy_rows(rules, tables, rows)
        if not self.greedy:
            # The largest of log probabilities plus Gumbel noise is a draw from them.
            with np.errstate(divide="ignore"):
                chances = np.log(chances) + self.generator.gumbel(size=chances.shape)
        actions: Array = chances.argmax(axis=1)
        return actions

    def policy(self, view: View) -> Array:
        """Return the probabilities (79,) of the view's seat, which must be the seat to act."""
        check_turn(view)
        rows = np.zeros(1, np.int64)
        chances: Array = self.policy_rows(view.rules_array, view.tables_array, rows)[0]
        return chances


class NeuralBot(PolicyBot):
    """Plays a model folder, without torch."""

    def __init__(self, path: str | Path, seed: int | None = 0, greedy: bool = True) -> None:
        """Load a model folder.

        Raises FileNotFoundError or ValueError saying what is missing, damaged or does not fit.
        """
        folder = Path(path)
        self.card = read_card(folder)
        network = PolicyNetwork(read_weights(folder, self.card))
        self._set_up(network, str(self.card.get("name", folder.name)), seed, greedy)

    @classmethod
    def from_network(
        cls, network: PolicyNetwork, name: str = "network", seed: int = 0, greedy: bool = True
    ) -> NeuralBot:
        """Return a bot that plays a network in memory, one in training for example."""
        bot = cls.__new__(cls)
        bot.card = {}
        bot._set_up(network, name, seed, greedy)
        return bot

    def _set_up(self, network: PolicyNetwork, name: str, seed: int | None, greedy: bool) -> None:
        self.name = name
        self.network = network
        self.greedy = greedy
        self.generator = np.random.default_rng(seed)

    def chances(self, raw: Array, masks: Array) -> Array:
        return self.network.probabilities(raw, masks)
