"""How many loops a request of each kind usually needs, and the range of every limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from duckflow_tui.state.decision import TaskProfile

MIN_LIMIT: Final = 3  # S0-6
MAX_LIMIT: Final = 20
FINAL_FALLBACK: Final = 15  # S0-28
UNKNOWN_BASE: Final = 8  # S0-22

#: Loops that a request of each kind usually needs (S0-13…21).
BASES: Final[Mapping[TaskProfile, int]] = {
    TaskProfile.SIMPLE_QUESTION: 5,
    TaskProfile.CODE_ANALYSIS: 12,
    TaskProfile.FILE_OPERATION: 8,
    TaskProfile.COMPLEX_REASONING: 18,
    TaskProfile.MULTI_STEP_TASK: 15,
    TaskProfile.GENERAL_CHAT: 6,
    TaskProfile.CREATIVE_WRITING: 10,
    TaskProfile.DEBUGGING: 14,
    TaskProfile.RESEARCH: 16,
}
