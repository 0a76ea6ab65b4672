"""The card game Judgement (Kachuful, Oh Hell): rules, a compiled engine, environments and bots.

Public names are imported on first use, so `import judgement_env` costs next to nothing.

>>> from judgement_env import Rules
>>> Rules.preset("kachuful", num_players=8).max_cards
6
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from judgement_env import arena as arena
    from judgement_env import judgement_v0 as judgement_v0
    from judgement_env.batch import BatchEnv as BatchEnv
    from judgement_env.bots import make_bot as make_bot
    from judgement_env.rules import PRESETS as PRESETS
    from judgement_env.rules import Rules as Rules
    from judgement_env.seat_batch import SeatBatch as SeatBatch
    from judgement_env.table import Table as Table

__version__ = "0.1.0"
ENV_VERSION = 2
# Models and runs from this ENV_VERSION on fit: rules and observations have been the same since.
MODELS_SINCE = 1

# Modules that are public as they are.
_MODULES = ("arena", "judgement_v0")
_HOMES = {
    "BatchEnv": "judgement_env.batch",
    "Rules": "judgement_env.rules",
    "PRESETS": "judgement_env.rules",
    "SeatBatch": "judgement_env.seat_batch",
    "Table": "judgement_env.table",
    "make_bot": "judgement_env.bots",
}

__all__ = [
    "ENV_VERSION",
    "PRESETS",
    "BatchEnv",
    "Rules",
    "SeatBatch",
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


# --- Gymnasium's registry -----------------------------------------------------------------------


def _register() -> None:
    """Enter the environment into Gymnasium's registry, one table and N of them."""
    from gymnasium import register, registry

    if "Judgement-v0" not in registry:
        register(
            "Judgement-v0",
            entry_point="judgement_env.gym_env:JudgementEnv",
            vector_entry_point="judgement_env.gym_env:JudgementVectorEnv",
        )


class _RegisterLater:
    """A finder that finds nothing of its own: it registers once Gymnasium has been imported.

    To import Gymnasium here would take seven times as long (0.35 s of processor time, not 0.05),
    also for those who only play or read records; and `gymnasium.make("judgement_env:...")` imports
    this package only where that has not happened before.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec that the other finders have of Gymnasium, None for any other module."""
        if name != "gymnasium":
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            self._extend(spec.loader)
        return spec

    def _extend(self, loader: Any) -> None:
        run = loader.exec_module

        def run_and_register(module: Any) -> None:
            run(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            _register()

        loader.exec_module = run_and_register


if "gymnasium" in sys.modules:
    _register()
else:
    sys.meta_path.insert(0, _RegisterLater())
