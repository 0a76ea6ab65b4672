"""Tells a match as it happens, line by line: who bids and plays what, who wins, who scores.

A `Narrator` writes to a stream and keeps within its width. It is told moves and rounds as records
write them, so that a match being played and one replayed are told in the same words. What is told
must be public; that is the caller's care.
"""

from __future__ import annotations

import re
import shutil
import textwrap
import time
from collections.abc import Sequence
from typing import Final, TextIO

from judgement_env.cards import SUIT_NAMES, SUITS, card_id, card_symbol
from judgement_env.record import Record
from judgement_env.render import Palette

MIN_WIDTH, MAX_WIDTH = 60, 100
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m")


class Narrator:
    """Writes the story of a match to `out`; `names` by seat, `delay` seconds after each move."""
