"""How the benchmark takes time: contestants in turn, in small slices, and what came of them.

A contestant is a function that does one unit of work and returns how many decisions it made and
how many seconds they took; it leaves out of the seconds what is not to be timed. Taking turns lets
whatever else the machine does hit all of them alike, so their ratios hold where their rates do not.

    >>> race([lambda: (10, 0.5), lambda: (10, 2.0)], Plan(repeats=3, slices=1, seconds=0))
    [[20.0, 20.0, 20.0], [5.0, 5.0, 5.0]]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Contestant = Callable[[], tuple[int, float]]

# Seconds of the calling thread: other work on the machine does not count.
thread_clock = time.thread_time
# Seconds that pass, for what runs in several threads.
wall_clock = time.perf_counter


@dataclass(frozen=True)
class Plan:
    """How much is measured: `repeats` samples, each of `slices` turns of `seconds` a contestant."""

    repeats: int = 5
    slices: int = 5
    seconds: float = 0.06
    num_tables: int = 4096
    many_tables: int = 65_536
    # decisions between two updates of a learner; seconds it learns, more than 0: one update or more
    learning_batch: int = 4096
    learning_seconds: float = 4


FULL = Plan()
QUICK = Plan(slices=1, seconds=0.01, learning_batch=512, learning_seconds=0.001)


def race(contestants: Sequence[Contestant], plan: Plan) -> list[list[float]]:
    """Return the rates of each contestant, decisions a second, `plan.repeats` of them.

    One unit of each is done beforehand, so that nothing is compiled or loaded while time runs.
    """
    rates: list[list[float]] = [[] for _ in contestants]
    for contestant in contestants:
        contestant()
    for _ in range(plan.repeats):
        sums = [[0.0, 0.0] for _ in contestants]
        for _ in range(plan.slices):
            for contestant, total in zip(contestants, sums, strict=True):
                _take_turn(contestant, plan.seconds, total)
        for rate, (count, seconds) in zip(rates, sums, strict=True):
            rate.append(count / seconds)
    return rates


def _take_turn(contestant: Contestant, length: float, total: list[float]) -> None:
    spent = 0.0
    while True:
        count, seconds = contestant()
        total[0] += count
        total[1] += seconds
        spent += seconds
        if spent >= length:
            return


@dataclass(frozen=True)
class Target:
    """What is to be reached: so many times the peer, at least so much, at most so much."""

    ratio: float | None = None
    at_least: float | None = None
    at_most: float | None = None

    def is_met(self, ours: float, ratio: float | None) -> bool | None:
        """Whether it is; None where that cannot be said, for the peer was not measured."""
        if self.at_least is not None and ours < self.at_least:
            return False
        if self.at_most is not None and ours > self.at_most:
            return False
        if self.ratio is None:
            return True
        return None if ratio is None else ratio >= self.ratio


@dataclass(frozen=True)
class Line:
    """One measured thing: samples of ours, those of a peer taken in turn with them, the target.

    row: the name that chooses it. unit: "decisions/s", "MB" or "s".
    is_peer_meant: whether the peer is the one that the target speaks of, not one in its place.
    """

    row: str
    what: str
    unit: str
    ours: Sequence[float]
    peer_name: str = ""
    peer: Sequence[float] = ()
    target: Target | None = None
    is_peer_meant: bool = True
    notes: Sequence[str] = ()

    @property
    def ratios(self) -> list[float]:
        """Ours to the peer's, sample by sample."""
        return [a / b for a, b in zip(self.ours, self.peer, strict=True)] if self.peer else []

    @property
    def ratio(self) -> float | None:
        """The median of the ratios."""
        return median(self.ratios) if self.peer else None

    @property
    def holds(self) -> bool | None:
        """Whether the target is reached, None without one or where that cannot be said."""
        if self.target is None or not self.ours:
            return None
        return self.target.is_met(median(self.ours), self.ratio if self.is_peer_meant else None)

    def to_dict(self) -> dict[str, Any]:
        """Medians and all samples as JSON types."""
        target = (
            None
            if self.target is None
            else {name: value for name, value in vars(self.target).items() if value is not None}
        )
        return {
            "row": self.row,
            "what": self.what,
            "unit": self.unit,
            "ours": median(self.ours) if self.ours else None,
            "peer_name": self.peer_name or None,
            "peer": median(self.peer) if self.peer else None,
            "ratio": self.ratio,
            "target": target,
            "is_peer_meant": self.is_peer_meant,
            "holds": self.holds,
            "notes": list(self.notes),
            "samples": {
                "ours": list(self.ours),
                "peer": list(self.peer),
                "ratio": self.ratios,
            },
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Line:
        """The line that `to_dict` wrote; its medians are taken anew."""
        samples = data["samples"]
        return cls(
            row=data["row"],
            what=data["what"],
            unit=data["unit"],
            ours=samples["ours"],
            peer_name=data["peer_name"] or "",
            peer=samples["peer"],
            target=None if data["target"] is None else Target(**data["target"]),
            is_peer_meant=data["is_peer_meant"],
            notes=data["notes"],
        )
