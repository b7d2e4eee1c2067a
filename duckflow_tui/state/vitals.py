"""Mood, focus and stamina of the AI, and each change with its cause."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from duckflow_tui.state.base import Frozen

NEUTRAL_MOOD = 0.70  # C30: the factor of the limit is 1.0 until there is evidence
NEUTRAL_FOCUS = 0.75
FRESH_STAMINA = 1.00
HISTORY = 16  # points kept for the sparkline of each gauge

Vital = Literal["mood", "focus", "stamina"]


class VitalChange(Frozen):
    """One move of one vital: from, to, the signal behind it, and what the formula was given.

    ``new`` can be recomputed from ``inputs`` by the vital's formula. ``cause`` is a key of the
    catalogue below ``vitals.cause``, ``params`` are its words and figures.
    """

    vital: Vital
    old: float = Field(ge=0.0, le=1.0)
    new: float = Field(ge=0.0, le=1.0)
    cause: str
    params: dict[str, str] = Field(default_factory=dict)
    inputs: dict[str, float] = Field(default_factory=dict)  # by name, in the formula's order
    refs: tuple[str, ...] = ()  # message ids and call ids of the events behind it
    at: float  # seconds since the epoch


class Vitals(Frozen):
    """The three values in 0.0 to 1.0 (S0-12): confidence in the plan, consistency of thought,
    and what is left to try (1.0 is fresh; S0-11, C28).
    """

    mood: float = Field(default=NEUTRAL_MOOD, ge=0.0, le=1.0)
    focus: float = Field(default=NEUTRAL_FOCUS, ge=0.0, le=1.0)
    stamina: float = Field(default=FRESH_STAMINA, ge=0.0, le=1.0)
    history: tuple[VitalChange, ...] = ()
