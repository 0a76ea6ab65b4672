"""Files and folders that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from judgement_env.files import check_writable, lock, locked, swap, whole_file, whole_folder


@pytest.fixture
def umask() -> Iterator[int]:
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


@pytest.mark.parametrize("is_lasting", [False, True])
def test_a_file_takes_its_name_at_the_end_only(
    tmp_path: Path, umask: int, is_lasting: bool
) -> None:
    path = tmp_path / "notes"
    path.write_text("old")
    with whole_file(path, is_lasting=is_lasting) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_file_that_was_broken_off_leaves_the_one_before(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "notes"
    path.write_text("old")
    with pytest.raises(error), whole_file(path) as file:
        file.write(b"half")
        raise error
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_regular_file_is_written_and_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with whole_file(pipe) as file:
        file.write(b"new")
    assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


def test_a_file_that_cannot_take_its_name_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    with pytest.raises(OSError), whole_file(tmp_path / "notes") as file:
        file.write(b"new")
    assert list(tmp_path.iterdir()) == [tmp_path / "notes"]
    with pytest.raises(FileNotFoundError), whole_file(tmp_path / "nowhere" / "notes"):
        pass


def test_a_file_that_cannot_take_its_name_is_the_one_the_error_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(part: str, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted", part, None, str(target))

    monkeypatch.setattr(os, "replace", refuse)
    path = tmp_path / "notes"
    with pytest.raises(PermissionError) as caught, whole_file(path) as file:
        file.write(b"new")
    assert str(caught.value) == f"[Errno 1] Operation not permitted: '{path}'"


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    link = tmp_path / "link"
    link.symlink_to("real")
    with whole_file(link) as file:
        file.write(b"new")
    assert link.is_symlink() and (tmp_path / "real").read_text() == "new"


def test_who_comes_second_waits(tmp_path: Path) -> None:
    with locked(tmp_path):
        handle = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            lock(handle, is_waiting=False)
    lock(handle, is_waiting=False)
    os.close(handle)


def test_a_folder_takes_the_place_of_the_one_before_whole(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "deep" / "model"
    for text in ("old", "new"):
        with whole_folder(folder) as part:
            (part / text).write_text(text)
            assert part.parent == folder.parent and part != folder
    assert [path.name for path in folder.iterdir()] == ["new"]
    assert list(folder.parent.iterdir()) == [folder]
    assert folder.stat().st_mode & 0o777 == 0o777 & ~umask


def test_a_folder_that_was_broken_off_leaves_the_one_before(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "old").write_text("old")
    with pytest.raises(KeyboardInterrupt), whole_folder(folder) as part:
        (part / "new").write_text("half")
        raise KeyboardInterrupt
    assert [path.name for path in folder.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [folder]


def test_the_old_folder_comes_back_where_the_new_one_cannot_take_its_place(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    with pytest.raises(FileNotFoundError):
        swap(tmp_path / "nothing", folder)
    assert list(tmp_path.iterdir()) == [folder]


def test_a_file_that_cannot_be_written_is_refused_and_nothing_is_left_of_the_try(
    tmp_path: Path,
) -> None:
    path = tmp_path / "notes"
    check_writable("--save", path)
    assert list(tmp_path.iterdir()) == []
    path.write_text("old")
    check_writable("--save", path)
    assert path.read_text() == "old"
    for wrong, why in (
        (tmp_path, "it is a folder"),
        (tmp_path / "no" / "notes", "no such file or directory"),
        (path / "notes", "not a directory"),
    ):
        with pytest.raises(ValueError, match=f"^--save: '{wrong}' cannot be written: {why}$"):
            check_writable("--save", wrong)
