"""Ratings from matches of many seats, by openskill's Plackett-Luce model (Weng and Lin, JMLR 2011).

For display: one number a bot, from who finished before whom. What a match was won by, and that its
seats share their cards, is not in it, so sigma is no interval; decide by the arena's differences.
A bot that sits twice at a table is rated as two, whose new ratings are averaged.

    rate(2, seating, totals)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from judgement_env.state import Array

try:
    from openskill.models import PlackettLuce
except ImportError as error:
    raise ImportError(
        "judgement_env.ratings needs openskill; pip install 'judgement-env[ratings]'"
    ) from error


class Rating(NamedTuple):
    """Strength mu (25 at the start, by convention) and what is not known of it, sigma."""

    mu: float
    sigma: float


def rate(num_bots: int, seating: Array, totals: Array) -> list[Rating]:
    """Rate bots by matches in the order they are given; Rating(25, 25/3) where one played none.

    seating: (N, P) the bot of each seat, totals: (N, P) what its seat ended with; equal totals
    share a place. Bots do not change, so ratings do not forget (tau is 0).
    """
    model = PlackettLuce(tau=0.0)
    current = [model.rating() for _ in range(num_bots)]
    for bots, points in zip(seating.tolist(), totals.tolist(), strict=True):
        teams = [[current[bot]] for bot in bots]
        rated = model.rate(teams, scores=[float(value) for value in points])
        for bot in set(bots):
            mine = [team[0] for team, sitting in zip(rated, bots, strict=True) if sitting == bot]
            mu, sigma = _mean([r.mu for r in mine]), _mean([r.sigma for r in mine])
            current[bot] = model.create_rating([mu, sigma])
    return [Rating(float(rating.mu), float(rating.sigma)) for rating in current]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
