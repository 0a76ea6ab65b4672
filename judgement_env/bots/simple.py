"""The two bots that need no training: chance, and rules of thumb.

>>> from judgement_env import Table
>>> HeuristicBot().act(Table("kachuful", seed=7, dealer=0).view(1))
53
"""

from __future__ import annotations

import numpy as np

from judgement_env._jit import njit
from judgement_env.bots.base import Bot, check_turn, one_hot
from judgement_env.bots.rule_player import heuristic_action
from judgement_env.cards import NUM_ACTIONS
from judgement_env.engine import write_mask
from judgement_env.state import Array
from judgement_env.view import View


@njit
def heuristic_rows(rules: Array, tables: Array, rows: Array, actions: Array) -> None:
    """Write the heuristic's action at each of `rows` into `actions`, both (J,) int64."""
    for j in range(len(rows)):
        t = tables[rows[j]]
        actions[j] = heuristic_action(rules[t.rules], t)


@njit
def random_rows(
    rules: Array, tables: Array, rows: Array, draws: Array, mask: Array, actions: Array
) -> None:
    """Write a legal action at each of `rows`, each as likely; draws (J,) lie in [0, 1).

    `mask` (79,) int8 is room to work in.
    """
    for j in range(len(rows)):
        t = tables[rows[j]]
        num_legal = write_mask(rules[t.rules], t, mask)
        skip = int(draws[j] * num_legal)
        for action in range(NUM_ACTIONS):
            if mask[action]:
                if skip == 0:
                    actions[j] = action
                    break
                skip -= 1


class RandomBot(Bot):
    """Takes every legal action as often as every other; equal seeds give equal draws."""

    name = "random"
    has_rows = True

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self._mask = np.zeros(NUM_ACTIONS, np.int8)

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        actions = np.empty(len(rows), np.int64)
        draws = self._rng.random(len(rows))
        random_rows(rules, tables, rows, draws, self._mask, actions)
        return actions

    def policy(self, view: View) -> Array:
        check_turn(view)
        mask = view.action_mask().astype(np.float64)
        return np.asarray(mask / mask.sum())


class HeuristicBot(Bot):
    """Plays by the rules of thumb of `rule_player`: equal views, equal actions."""

    name = "heuristic"
    has_rows = True

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        actions = np.empty(len(rows), np.int64)
        heuristic_rows(rules, tables, rows, actions)
        return actions

    def policy(self, view: View) -> Array:
        return one_hot(self.act(view))
