"""How much of a long test runs: a sample that a seed fixes, or, in CI, the whole of it."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Final, TypeVar

_T = TypeVar("_T")

#: ``DUCKFLOW_TEST_WHOLE=1`` runs every case, every kill and every byte; ``.ci/run`` sets it.
WHOLE: Final = os.environ.get("DUCKFLOW_TEST_WHOLE", "") not in ("", "0")
_SEED: Final = 20_251_122


def rounds(whole: int, sample: int) -> int:
    """How often a test tries its luck."""
    return whole if WHOLE else sample


def some_of(cases: Sequence[_T], sample: int) -> list[_T]:
    """All cases where the whole is asked for, else so many of them, in their order."""
    if WHOLE or sample >= len(cases):
        return list(cases)
    chosen = random.Random(_SEED).sample(range(len(cases)), sample)
    return [cases[index] for index in sorted(chosen)]
