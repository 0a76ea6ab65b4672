"""Match records as arrays for imitation and offline learning: one row for each decision.

Each record is replayed through the engine, which verifies it; what the seat to act saw, what it did
and what came of it become rows of `.npz` files, one or many shards. A file is there whole or not at
all, and says what it holds. `FIELDS` lists the arrays.

    >>> summary = write_dataset(["match.json"], "out.npz")
    >>> for shard in read_dataset("out.npz"):
    ...     print(shard.observation.shape, shard.action.shape)
    (140, 894) (140,)
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from judgement_env import ENV_VERSION
from judgement_env import record as records
from judgement_env.cards import NUM_ACTIONS, is_bid, whole_number
from judgement_env.files import whole_file
from judgement_env.observation import ORACLE_SIZE, SIZE, layout_hash
from judgement_env.record import Record
from judgement_env.rules import Rules
from judgement_env.scoring import counted, shown
from judgement_env.state import Array
from judgement_env.table import Table

FORMAT: Final = "judgement-dataset/1"
META: Final = "meta"
# name: dtype, shape of a row, meaning
FIELDS: Final[Mapping[str, tuple[str, tuple[int, ...], str]]] = {
    "observation": ("uint8", (SIZE,), "what the seat to act saw, raw values"),
    "action_mask": ("int8", (NUM_ACTIONS,), "1 = legal for it"),
    "action": ("int64", (), "the action id it took"),
    "seat": ("int8", (), "the seat to act"),
    "is_bid": ("bool", (), "whether the action is a bid, else a card"),
    "won": ("int8", (), "tricks the seat had won when the round was over"),
    "points": ("int32", (), "points of the round for the seat"),
    "oracle": ("uint8", (ORACLE_SIZE,), "all hands by relative seat: not for players"),
    "match": ("int32", (), "which match of the data set, from 0"),
    "round": ("int16", (), "which round of the match, from 0"),
    "decision": ("int32", (), "which decision of the match, from 0, forced ones counted"),
}
# Buffered rows, written out when so many are there: a few megabytes.
CHUNK: Final = 2048
# What numpy and zipfile raise for files that are cut short, garbage, or something else.
UNREADABLE: Final = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
)
_SHARD: Final = re.compile(r"-(\d{5,})\.npz")

Source = str | os.PathLike[str] | Mapping[str, Any]
Progress = Callable[[int, int | None], None]


class DatasetError(ValueError):
    """Records that cannot be used, or files that cannot be written or read; says which."""


@dataclass(frozen=True)
class Summary:
    """What was written: `skipped` says of each record left out why."""

    files: tuple[Path, ...]
    decisions: int
    matches: int
    unfinished_rounds: int
    skipped: tuple[str, ...]

    def __str__(self) -> str:
        """The counts in a line or two."""
        text = f"{counted(self.decisions, 'decision')} of {counted(self.matches, 'match')}"
        text += f" in {self.files[0]}"
        if len(self.files) > 1:
            text += f" to {self.files[-1].name}, {len(self.files)} files"
        if self.unfinished_rounds:
            text += f"; {counted(self.unfinished_rounds, 'unfinished round')} left out"
        if self.skipped:
            text += f"; {counted(len(self.skipped), 'broken record')} left out"
        return text


@dataclass(frozen=True)
class Shard:
    """The arrays of one file, D decisions in the order of play, as `FIELDS` describes them.

    `matches` says of each match in it: "match" (its index), "source", "rules" (index into
    `rules`), "seed", "table", "number" (`match` of the record), "players", "totals", "winners".
    """

    path: Path
    rules: tuple[Rules, ...]
    matches: tuple[dict[str, Any], ...]
    is_last: bool
    observation: Array
    action_mask: Array
    action: Array
    seat: Array
    is_bid: Array
    won: Array
    points: Array
    oracle: Array
    match: Array
    round: Array
    decision: Array

    def __len__(self) -> int:
        return len(self.action)


# --- writing ----------------------------------------------------------------------------------


def write_dataset(
    sources: Iterable[Source],
    out: str | os.PathLike[str],
    *,
    shard_size: int | None = None,
    skip_forced: bool = False,
    keep_going: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Write the decisions of match records to `out`, a name that ends in .npz.

    sources: record files, folders (all *.json in them, by name) or records; read one by one.
    shard_size: decisions a file, then numbered out-00000.npz, out-00001.npz ...; None = one file.
        Memory does not grow with it: rows wait on disk, in the folder of `out`.
    skip_forced: leave out decisions with one legal action.
    keep_going: leave out records that are broken, instead of stopping at the first.
    overwrite: replace a data set of this name; else DatasetError where there is one.
    progress: called with the records done and, where it is known, how many there are.
    Rounds that were not played to their end are left out, for nothing is known of what came of
    them. Raises DatasetError naming file, round and trick of a broken record, or what could not be
    written; files finished before stay.
    """
    target = _target(out)
    if shard_size is not None and (whole_number(shard_size) or 0) < 1:
        raise DatasetError(f"shard_size: {shown(shard_size)} (allowed: a whole number from 1)")
    old = _files_of(target)
    if old and not overwrite:
        raise DatasetError(
            f"{os.fspath(old[0])} is there already (allowed: a name that is free, or to overwrite)"
        )
    expanded = _expanded(sources)
    total = len(expanded) if isinstance(expanded, Sequence) else None
    with _Writer(target, shard_size, old) as writer:
        for done, source in enumerate(expanded):
            if progress is not None:
                progress(done, total)
            _add(writer, source, done, skip_forced, keep_going)
        writer.finish()
        if progress is not None:
            progress(writer.count_of_records(), total)
    return writer.summary()


def _target(out: str | os.PathLike[str]) -> Path:
    target = Path(out)
    if target.suffix != ".npz" or not target.stem:
        raise DatasetError(f"out: {os.fspath(out)!r} (allowed: a name that ends in .npz)")
    if not target.parent.is_dir():
        raise DatasetError(f"out: the folder {os.fspath(target.parent)!r} does not exist")
    return target


def _expanded(sources: Iterable[Source]) -> Iterable[Source]:
    """The sources with the files of folders in their place; a list stays one."""
    if isinstance(sources, str | os.PathLike | Mapping):
        sources = [sources]
    if not isinstance(sources, Sequence):
        return sources
    found: list[Source] = []
    for source in sources:
        if not isinstance(source, Mapping) and Path(source).is_dir():
            inside = sorted(Path(source).glob("*.json"))
            if not inside:
                raise DatasetError(f"{os.fspath(source)}: no *.json in this folder")
            found += inside
        else:
            found.append(source)
    return found


def _add(writer: _Writer, source: Source, index: int, skip_forced: bool, keep_going: bool) -> None:
    """Add a record's decisions; a broken one is told of, or stops everything."""
    is_record = isinstance(source, Mapping)
    name = f"record {index}" if isinstance(source, Mapping) else os.fspath(source)
    try:
        record = source if isinstance(source, Mapping) else records.read(source)
        table = Table.from_record(record)
    except (ValueError, FileNotFoundError) as error:
        text = str(error)
        text = text if name in text and not is_record else f"{name}: {text}"
        if not keep_going:
            raise DatasetError(text) from None
        writer.skip(text)
        return
    writer.begin_match(table.record(), None if is_record else name)
    for row in rows_of(table, skip_forced):
        writer.add(row)


def rows_of(table: Table, skip_forced: bool = False) -> Iterator[dict[str, Any]]:
    """A row of `FIELDS`, `match` left out, for each decision of the rounds that are settled.

    The arrays in it are new for each row.
    """
    sheet = table.record()
    is_turn_up = table.rules.is_turn_up
    again = Table(
        table.rules,
        seed=0,
        dealer=sheet["rounds"][0]["dealer"],
        deals=[entry["hands"] for entry in sheet["rounds"]],
        turn_ups=[entry["turn_up"] for entry in sheet["rounds"]] if is_turn_up else None,
    )
    for decision, action in enumerate(table.actions):
        entry = sheet["rounds"][again.round_index]
        if entry["points"] is None:
            return
        seat, index = again.seat or 0, again.round_index
        mask = np.zeros(NUM_ACTIONS, np.int8)
        if again.write_mask(mask) > 1 or not skip_forced:
            yield {
                "observation": again.observe(seat),
                "action_mask": mask,
                "action": action,
                "seat": seat,
                "is_bid": is_bid(action),
                "won": entry["won"][seat],
                "points": entry["points"][seat],
                "oracle": again.observe_all_hands(seat),
                "round": index,
                "decision": decision,
            }
        again.push(action)


@dataclass
class _Spool:
    """The rows of the shard being filled, waiting in unnamed files of the target's folder."""

    files: dict[str, IO[bytes]]
    rows: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0
    matches: list[dict[str, Any]] = field(default_factory=list)
    rules: list[Rules] = field(default_factory=list)

    def flush(self) -> None:
        """Write the buffered rows behind those before."""
        for name, file in self.files.items():
            dtype, shape, _ = FIELDS[name]
            block = np.array([row[name] for row in self.rows], dtype).reshape(-1, *shape)
            file.write(block.tobytes())
        self.rows.clear()

    def close(self) -> None:
        """Let the waiting rows go."""
        for file in self.files.values():
            with contextlib.suppress(OSError):
                file.close()


class _Writer:
    """Fills one shard after the other. A shard that is full is written when the next row comes,
    or the end, so that the last one can say that it is the last."""

    def __init__(self, target: Path, shard_size: int | None, old: Sequence[Path]) -> None:
        self.target = target
        self.shard_size = shard_size
        self.old = list(old)
        self.files: list[Path] = []
        self.written = 0
        self.num_matches = 0
        self.unfinished = 0
        self.skipped: list[str] = []
        self._match: dict[str, Any] = {}
        self._rules = Rules()
        self._spool: _Spool | None = None

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self._spool is not None:
            self._spool.close()
        if isinstance(error, OSError):
            raise DatasetError(
                f"{self._next_path()} could not be written: {error}; {self._standing()}"
            ) from error
        if error is not None:
            error.add_note(self._standing())

    def _standing(self) -> str:
        """What there is after a failure, in words."""
        if not self.files:
            return f"nothing was written to {self.target}"
        names = self.files[0].name
        if len(self.files) > 1:
            names += f" to {self.files[-1].name}"
        is_or_are = "is" if len(self.files) == 1 else "are"
        written = counted(self.written, "decision")
        return f"{names} {is_or_are} whole ({written}), the rest was not written"

    def count_of_records(self) -> int:
        """Records read, those skipped too."""
        return self.num_matches + len(self.skipped)

    def skip(self, reason: str) -> None:
        """Take note of a record that is left out."""
        self.skipped.append(reason)

    def begin_match(self, record: Record, source: str | None) -> None:
        """The rows to come are of this record."""
        self._rules = Rules.from_dict(record["rules"])
        self._match = {
            "match": self.num_matches,
            "source": source,
            "seed": record["seed"],
            "table": record["table"],
            "number": record["match"],
            "players": record["players"],
            "totals": record["totals"],
            "winners": record["winners"],
        }
        self.num_matches += 1
        self.unfinished += sum(entry["points"] is None for entry in record["rounds"])

    def add(self, row: dict[str, Any]) -> None:
        """Add a decision."""
        if self._spool is not None and self._spool.count == self.shard_size:
            self._write(is_last=False)
        spool = self._spool = self._spool or self._new_spool()
        if not spool.matches or spool.matches[-1]["match"] != self._match["match"]:
            if self._rules not in spool.rules:
                spool.rules.append(self._rules)
            spool.matches.append({**self._match, "rules": spool.rules.index(self._rules)})
        spool.rows.append({**row, "match": self._match["match"]})
        spool.count += 1
        if len(spool.rows) == CHUNK:
            spool.flush()

    def _new_spool(self) -> _Spool:
        folder = self.target.parent
        return _Spool({name: tempfile.TemporaryFile(dir=folder) for name in FIELDS})

    def finish(self) -> None:
        """Write what is left; DatasetError where there has been no decision at all."""
        if self._spool is None:
            skipped = f", {len(self.skipped)} of them broken" if self.skipped else ""
            raise DatasetError(
                f"no decision in {counted(self.count_of_records(), 'record')}{skipped}"
                + (f"; the first: {self.skipped[0]}" if self.skipped else "")
            )
        self._write(is_last=True)

    def _next_path(self) -> Path:
        if self.shard_size is None:
            return self.target
        return self.target.with_name(f"{self.target.stem}-{len(self.files):05d}.npz")

    def _write(self, is_last: bool) -> None:
        spool, path = self._spool, self._next_path()
        assert spool is not None
        spool.flush()
        meta = {
            "format": FORMAT,
            "env_version": ENV_VERSION,
            "layout": layout_hash(),
            "shard": len(self.files),
            "is_last": is_last,
            "rules": [rules.to_dict() for rules in spool.rules],
            "matches": spool.matches,
        }
        _write_npz(path, spool, meta)
        spool.close()
        self._spool = None
        self.files.append(path)
        # What is replaced must not be read together with the new files.
        while self.old:
            if (replaced := self.old.pop()) != path:
                replaced.unlink(missing_ok=True)
        self.written += spool.count

    def summary(self) -> Summary:
        """What has been written."""
        return Summary(
            tuple(self.files),
            self.written,
            self.num_matches,
            self.unfinished,
            tuple(self.skipped),
        )


def _write_npz(path: Path, spool: _Spool, meta: Mapping[str, Any]) -> None:
    """Write a shard as numpy.load reads it: whole under its name, or not at all."""
    with (
        whole_file(path) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        with archive.open(f"{META}.npy", "w") as member:
            np.lib.format.write_array(member, np.array(json.dumps(meta)), allow_pickle=False)
        for field_name, waiting in spool.files.items():
            with archive.open(f"{field_name}.npy", "w", force_zip64=True) as member:
                _copy_array(field_name, spool.count, waiting, member)


def _copy_array(name: str, count: int, waiting: IO[bytes], member: IO[bytes]) -> None:
    dtype, shape, _ = FIELDS[name]
    header = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
        "fortran_order": False,
        "shape": (count, *shape),
    }
    np.lib.format.write_array_header_1_0(member, header)
    waiting.seek(0)
    while block := waiting.read(1 << 20):
        member.write(block)


# --- reading ----------------------------------------------------------------------------------


def read_dataset(path: str | os.PathLike[str], *, partial: bool = False) -> Iterator[Shard]:
    """Read a data set shard by shard, in order.

    path: the name it was written to, numbered files or not; or one numbered file alone.
    partial: take also what a run that was broken off has left.
    Raises DatasetError naming the file where one is missing, broken, or of another layout.
    """
    given = Path(path)
    if given.is_file():
        yield _read(given)
        return
    files = _files_of(given)
    if not files:
        raise DatasetError(f"data set {os.fspath(path)!r} does not exist")
    last: Shard | None = None
    for number, file in enumerate(files):
        expected = given.with_name(f"{given.stem}-{number:05d}.npz")
        if file != expected:
            raise DatasetError(f"{expected} is missing, {file} is there")
        last = _read(file)
        if number + 1 < len(files) and last.is_last:
            raise DatasetError(f"{file} is the last of its data set, {files[number + 1]} of none")
        yield last
    if last is not None and not last.is_last and not partial:
        raise DatasetError(f"{last.path} is not the last of its data set: writing was broken off")


def _files_of(target: Path) -> list[Path]:
    """The files of a data set of this name: the one file, or the numbered ones in order."""
    if target.exists():
        return [target]
    numbered = [
        path
        for path in target.parent.glob(f"{_escaped(target.stem)}-*.npz")
        if _SHARD.fullmatch(path.name[len(target.stem) :])
    ]
    return sorted(numbered, key=lambda path: (len(path.name), path.name))


def _escaped(text: str) -> str:
    """A text as a pattern that finds itself only."""
    return re.sub(r"([*?[])", r"[\1]", text)


def _other_file(path: Path) -> str | None:
    """What a file is by its first bytes where it is not the archive that a data set is."""
    try:
        with path.open("rb") as file:
            start = file.read(64)
    except OSError:
        return None
    if start.startswith(b"PK"):
        return None
    if not start:
        return "empty"
    if start.lstrip().startswith((b"{", b"[")):
        return "JSON, as a record is, of which write_dataset makes a data set"
    return "a single array" if start.startswith(b"\x93NUMPY") else "something else"


def _read(path: Path) -> Shard:
    if (other := _other_file(path)) is not None:
        raise DatasetError(f"{path} is no data set, it is {other} (allowed: a .npz file)")
    try:
        with np.load(path, allow_pickle=False) as archive:
            meta = json.loads(str(archive[META]))
            arrays = {name: archive[name] for name in FIELDS}
    except UNREADABLE as error:
        raise DatasetError(f"{path} is no data set that can be read: {error}") from None
    if meta.get("format") != FORMAT:
        raise DatasetError(f"{path}: format {shown(meta.get('format'))} (allowed: {FORMAT})")
    if meta["layout"] != layout_hash():
        raise DatasetError(
            f"{path}: its observations have the layout {meta['layout']}, this package's"
            f" {layout_hash()}; write it again from the records"
        )
    return Shard(
        path=path,
        rules=tuple(Rules.from_dict(data) for data in meta["rules"]),
        matches=tuple(meta["matches"]),
        is_last=meta["is_last"],
        **arrays,
    )
