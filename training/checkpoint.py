"""Checkpoints: one file with everything a run needs to go on, written whole or not at all.

The file holds tensors, numbers and text only, so it loads without running code from it.
"""

from __future__ import annotations

import subprocess
import warnings
import zipfile
from pathlib import Path
from typing import IO, Any

import torch

from judgement_env import ENV_VERSION, MODELS_SINCE
from judgement_env.files import lock, whole_file
from judgement_env.observation import layout_hash

FORMAT = "judgement-checkpoint/1"


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write `content` to `path` atomically; the file before it stays until the new one is whole.

    What the weights belong to, the layout of observations and ENV_VERSION, is written with them.
    Raises OSError naming the file where it cannot be written, a full disk for example.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    made_with = {"layout_hash": layout_hash(), "env_version": ENV_VERSION}
    try:
        with whole_file(path, is_lasting=True) as file:
            torch.save({"format": FORMAT, **made_with, **content}, file)
    except (OSError, RuntimeError) as error:
        raise OSError(
            f"{path}: the checkpoint could not be written ({error}); what stood there is untouched"
        ) from error


def hold(folder: Path) -> IO[str]:
    """Keep a run's folder for this process as long as the file returned is open.

    Raises ValueError where another process trains in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / ".lock").open("w", encoding="utf-8")
    try:
        lock(file.fileno(), is_waiting=False)
    except OSError:
        file.close()
        raise ValueError(
            f"{folder}: another process is training in it; choose another --name=NAME"
        ) from None
    return file


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Return the content of a checkpoint.

    Raises FileNotFoundError where there is none, ValueError where the file is not whole or was made
    with another layout of observations or an ENV_VERSION whose models do not fit.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such checkpoint")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # torch does not look at the check sums.
            with zipfile.ZipFile(path) as parts:
                broken = parts.testzip()
            if broken is not None:
                raise ValueError(f"damaged at {broken}")
            content = torch.load(path, map_location="cpu", weights_only=True)
    except PermissionError:
        raise
    # Broken bytes fail in as many ways as an unpickler has: no shorter list is complete.
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise ValueError(f"{path}: not a whole checkpoint ({reason})") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path}: not a {FORMAT} file")
    for field, here in (("layout_hash", layout_hash()), ("env_version", ENV_VERSION)):
        found = content.get(field, here)
        is_alike = field == "env_version" and found in range(MODELS_SINCE, ENV_VERSION)
        if found != here and not is_alike:
            raise ValueError(
                f"{path}: {field} of the run is {found!r}, of this package {here!r};"
                " train again or install the version it was made with"
            )
    return content


def commit() -> str:
    """Return the commit the code stands at, "+changes" after it where the tree differs."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        is_changed = git("status", "--porcelain", "--", "../judgement_env", ".")
        return git("rev-parse", "HEAD") + ("+changes" if is_changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
