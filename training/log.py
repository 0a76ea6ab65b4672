"""What a run says of itself: metrics.csv, TensorBoard events, the progress line."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
from torch.utils.tensorboard import SummaryWriter

from training.config import RunConfig
from training.rollout import Rollout


class Log:
    """Writes metrics.csv, TensorBoard events and the progress line."""

    def __init__(self, folder: Path, decisions: int = 0, opponents: str = "rule bots") -> None:
        """Open the files, going on after `decisions`; later rows are of batches played again."""
        self.path = folder / "metrics.csv"
        keep_rows(self.path, decisions)
        self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=decisions + 1)
        self.is_terminal = sys.stderr.isatty()
        self.opponents = opponents
        self.versus: dict[str, float] = {}

    def write(self, metrics: dict[str, float]) -> None:
        """Add one row; the file's header is that of its first row."""
        is_new = not self.path.exists()
        row = {k: v if isinstance(v, int) else f"{v:.6g}" for k, v in metrics.items()}
        try:
            with self.path.open("a", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(row), lineterminator="\n")
                if is_new:
                    writer.writeheader()
                writer.writerow(row)
        except OSError as error:
            raise OSError(f"{self.path}: cannot be written ({error.strerror})") from error
        for name, value in metrics.items():
            self.board.add_scalar(name, value, int(metrics["decisions"]))

    def progress(self, metrics: dict[str, float], left: float, is_due: bool) -> None:
        """Show how the run stands: a live line on a terminal, else a line each evaluation."""
        error = metrics["versus_error"]
        versus = (
            f"versus {self.opponents} {metrics['versus_points']:+.2f}"
            f" ±{f'{error:.2f}' if np.isfinite(error) else '?'} points a round,"
            f" {metrics['versus_made']:.0%} of bids made"
        )
        if np.isnan(metrics["versus_points"]):
            versus = "not measured yet"
        text = (
            f"{metrics['decisions'] / 1e6:7.2f} M decisions"
            f"  {metrics['decisions_per_second'] / 1e3:5.1f} k/s"
            f"  {versus}  {max(left, 0) / 60:4.1f} min left"
        )
        if self.is_terminal:
            print("\r" + text, end="\n" if is_due else "", file=sys.stderr, flush=True)
        elif is_due:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Write out what TensorBoard still holds back."""
        self.board.close()


def keep_rows(path: Path, decisions: int) -> None:
    """Drop the rows of metrics.csv after `decisions`, and a row that was not written whole."""
    if path.exists():
        header, *rows = path.read_text(encoding="utf-8").splitlines(keepends=True) or [""]
        whole = [row for row in rows if row.endswith("\n")]
        kept = [row for row in whole if float(row.split(",")[0]) <= decisions]
        path.write_text("".join([header, *kept]), encoding="utf-8")


def self_play_metrics(rollouts: list[Rollout], most_cards: int) -> dict[str, float]:
    """Return bids made and points per round in self-play by cards, and the share of zero bids."""
    tallies = [rollout.tally for rollout in rollouts]
    rounds, made, points = (np.sum([tally[k] for tally in tallies], axis=0) for k in range(3))
    bids = np.sum([tally.bids for tally in tallies], axis=0)
    metrics = {}
    for cards in range(1, most_cards + 1):
        metrics[f"made_{cards}"] = made[cards] / rounds[cards] if rounds[cards] else np.nan
        metrics[f"points_{cards}"] = points[cards] / rounds[cards] if rounds[cards] else np.nan
    metrics["zero_bids"] = float(bids[:, 0].sum() / max(1, bids.sum()))
    return metrics


def time_left(config: RunConfig, decisions: int, seconds: float) -> float:
    """Return the seconds to the nearer of the run's limits at its pace so far."""
    limits = []
    if config.decisions:
        limits.append((config.decisions - decisions) * seconds / max(1, decisions))
    if config.minutes:
        limits.append(60 * config.minutes - seconds)
    return min(limits)
