"""The card game Judgement (Kachuful, Oh Hell): rules, a compiled engine, environments and bots.

Public names are imported on first use, so `import judgement_env` costs next to nothing.

>>> from judgement_env import Rules
>>> Rules.preset("kachuful", num_players=8).max_cards
6
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from judgement_env import arena as arena
    from judgement_env import judgement_v0 as judgement_v0
    from judgement_env.batch import BatchEnv as BatchEnv
    from judgement_env.bots import make_bot as make_bot
    from judgement_env.rules import PRESETS as PRESETS
    from judgement_env.rules import Rules as Rules
    from judgement_env.table import Table as Table

__version__ = "0.1.0"
ENV_VERSION = 1

# Modules that are public as they are.
_MODULES = ("arena", "judgement_v0")
_HOMES = {
    "BatchEnv": "judgement_env.batch",
    "Rules": "judgement_env.rules",
    "PRESETS": "judgement_env.rules",
    "Table": "judgement_env.table",
    "make_bot": "judgement_env.bots",
}

__all__ = [
    "ENV_VERSION",
    "PRESETS",
    "BatchEnv",
    "Rules",
    "Table",
    "__version__",
    "arena",
    "judgement_v0",
    "make_bot",
]


def __getattr__(name: str) -> Any:
    """The public name, imported from the module that defines it."""
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
