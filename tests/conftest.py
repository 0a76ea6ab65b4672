"""Hypothesis profiles: `default` for every run, `soak` for a long search (`make soak`)."""

from __future__ import annotations

import os

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
