"""What the tests of the shipped checks share: rules to check under, and which sentence broke."""

from __future__ import annotations

import pytest

from judgement_env import Rules
from judgement_env.testing import ContractError

# A blind round, a hook, three players.
SMALL = Rules(num_players=3, cards=[3, 1, 2], blind_rounds=[2])
FEW = [SMALL, Rules.preset("kachuful"), Rules(num_players=3, cards=[2], packs=2, trumps="turn-up")]


def found(error: pytest.ExceptionInfo[ContractError]) -> str:
    return error.value.sentence
