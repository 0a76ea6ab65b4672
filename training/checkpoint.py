"""Checkpoints: one file with everything a run needs to go on, written whole or not at all.

The file holds tensors, numbers and text only, so it loads without running code from it.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

import torch

FORMAT = "judgement-checkpoint/1"


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write `content` to `path` atomically; the file before it stays until the new one is whole.

    Raises OSError naming the file where it cannot be written, a full disk for example.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            torch.save({"format": FORMAT, **content}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError | RuntimeError):
            raise OSError(
                f"{path}: the checkpoint could not be written ({error}); what stood there is untouched"
            ) from error
        raise


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Return the content of a checkpoint.

    Raises FileNotFoundError where there is none, ValueError where the file is not whole.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such checkpoint")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, ValueError, KeyError, OSError, pickle.UnpicklingError) as error:
        reason = " ".join(str(error).split())[:120]
        raise ValueError(f"{path}: not a whole checkpoint ({reason})") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path}: not a {FORMAT} file")
    return content
