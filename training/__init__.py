"""Self-play training of Judgement policies: config, model, rollout, losses, the loop, export."""

from __future__ import annotations

import importlib.util
import sys

if importlib.util.find_spec("torch") is None:
    _message = "training needs torch and more: pip install 'judgement-env[train]'"
    if any(word.startswith("training.") for word in sys.orig_argv[1:]):
        print(_message, file=sys.stderr)
        raise SystemExit(2)
    raise ModuleNotFoundError(_message, name="torch")
