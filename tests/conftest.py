"""Hypothesis profiles, `default` for every run and `soak` for a long search; common fixtures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The first example compiles kernels, so a deadline or a slow-data check would judge the compiler.
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    max_examples=400,
    print_blob=True,
    suppress_health_check=_SLOW,
)
settings.register_profile(
    "soak",
    deadline=None,
    derandomize=False,
    max_examples=20_000,
    print_blob=True,
    suppress_health_check=_SLOW,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture
def one_thread() -> None:
    """One thread of torch, as many processes share the machine, and the same draws each time."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(3)


@pytest.fixture
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is written by relative paths go to a new folder."""
    monkeypatch.chdir(tmp_path)
