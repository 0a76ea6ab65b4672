"""Strong mode: a trained policy that looks ahead by playing on with itself, `NetSearchBot`.

Each action the policy finds plausible is taken in the same likely worlds (`beliefs`), in which the
policy then plays every seat to the end of the round. The action with the highest policy * exp(mean
points / temperature) is taken, a step of mirror descent (Sokota et al., arXiv 2304.13138): where
points differ little, the policy decides. Equal views get equal answers.
"""

from __future__ import annotations

import numpy as np

from judgement_env.arguments import finite, whole
from judgement_env.bots.beliefs import NUM_WORK
from judgement_env.bots.neural import PolicyBot
from judgement_env.bots.rollouts import advance_copies, deal_likely
from judgement_env.bots.search import MAX_COUNT, LookAheadBot
from judgement_env.sampler import WORLDS_RECORD
from judgement_env.state import BIDDING, Array, RulesRecord, TableRecord, new_tables

# Standard deviation of a round's points in units of points (`state.points_unit`), about.
POINTS_SD = 6.0
# Actions less likely than this are not tried, nor more than so many.
PLAUSIBLE = 0.02
MOST_ACTIONS = 6
# Decisions of the policy in one search at most, which keeps it below 50 ms on one core: with long
# hands or many players there are fewer worlds, but eight at least: two packs are 104 plays.
MOST_DECISIONS = 6000


def decisions_left(r: RulesRecord, t: TableRecord) -> int:
    """Return how many bids and plays the round has left."""
    plays = int(r.num_players) * (int(t.cards) - int(t.trick)) - int(t.turn)
    bids = int(r.num_players) - int(t.num_bids) if t.phase == BIDDING else 0
    return plays + bids


class NetSearchBot(LookAheadBot):
    """Looks ahead with a policy in `worlds` worlds a decision, at most, and acts at once if sure.

    `tau` is the temperature, in standard deviations of a round's points: the higher it is, the
    more points a change of mind must promise.
    """

    def __init__(self, model: PolicyBot, seed: int = 0, worlds: int = 48, tau: float = 0.1) -> None:
        """Take the policy, a seed for the worlds and the options; ValueError naming a wrong one."""
        super().__init__(seed)
        self.model = model
        self.name = f"{model.name}+search"
        self.worlds = whole("worlds", worlds, 1, MAX_COUNT)
        self.tau = finite("tau", tau, above=0)

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        chances = self.model.policy_rows(rules, tables, rows)
        actions: Array = chances.argmax(axis=1)
        for j, row in enumerate(rows):
            actions[j] = self._improved(rules, tables, int(row), chances[j])
        return actions

    def _improved(self, rules: Array, tables: Array, row: int, chances: Array) -> int:
        """The action to take at a row for which the policy gives `chances` (79,)."""
        likely = np.argsort(-chances, kind="stable")[:MOST_ACTIONS]
        likely = likely[chances[likely] >= min(PLAUSIBLE, chances.max())]
        if len(likely) == 1:
            return int(likely[0])
        values = self._values(rules, tables, row, likely)
        temperature = self.tau * POINTS_SD * rules[tables[row]["rules"]]["unit"]
        return int(likely[(np.log(chances[likely]) + values / temperature).argmax()])

    def _values(self, rules: Array, tables: Array, row: int, likely: Array) -> Array:
        """The own points to expect from each of `likely` (A,) actions."""
        viewer = int(tables[row]["seat"])
        worlds = self._worlds(rules, tables, row, len(likely))
        copies = np.repeat(worlds, len(likely))
        rows = np.arange(len(copies))
        left = advance_copies(rules, copies, rows, np.tile(likely, len(worlds)))
        while left:
            here = rows[:left]
            actions = self.model.policy_rows(rules, copies, here).argmax(axis=1)
            left = advance_copies(rules, copies, here, actions)
        values: Array = copies["points"][:, viewer].reshape(len(worlds), len(likely)).mean(axis=0)
        return values

    def _worlds(self, rules: Array, tables: Array, row: int, num_actions: int) -> Array:
        """Likely worlds (W,) as tables: as many as there is time for with so many actions."""
        t = tables[row]
        most = MOST_DECISIONS // (num_actions * decisions_left(rules[t["rules"]], t))
        worlds = new_tables(min(self.worlds, most))
        work, stock = new_tables(NUM_WORK), np.zeros(1, WORLDS_RECORD)
        deal_likely(rules, tables, row, self.seed, work, stock, worlds)
        return worlds
