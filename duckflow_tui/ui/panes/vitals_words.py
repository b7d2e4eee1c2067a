"""What moved a vital, in words and as a calculation that can be done again by hand (S0-11)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.pace import VitalChange, Vitals
from duckflow_tui.words.catalogue import Catalogue

NAMES: Final = ("mood", "focus", "stamina")
HIGH: Final = 0.7  # from here on good; words, never figures, say so (S0-44)
LOW: Final = 0.5
SPENT: Final = 0.3  # of the stamina: under it the user is asked; a limit used up alone leaves 0.4
_SIGNS: Final = re.compile(r" (?=[+−=→] )|(?<=·) ")
_SURE_FROM: Final = 3  # outcomes from which their share counts; a fixed one before
#: Params that a cause may come without.
_BLANK: Final = {"what": "", "operation": "", "reason": ""}


def level(value: float, name: str = "") -> str:
    """``high``, ``middle`` or ``low``; what is low differs for the ``stamina``."""
    if value >= HIGH:
        return "high"
    return "middle" if value >= (SPENT if name == "stamina" else LOW) else "low"


def changes_of(name: str, vitals: Vitals) -> list[VitalChange]:
    """The changes of one vital that are remembered, oldest first."""
    return [change for change in vitals.history if change.vital == name]


def figure(value: float, least: int = 2, most: int = 4) -> str:
    """A number with as many decimals as it needs, between ``least`` and ``most``."""
    text = f"{value:.{most}f}"
    while text.endswith("0") and len(text.partition(".")[2]) > least:
        text = text[:-1]
    return text


def broken(text: str, width: int) -> list[str]:
    """The text in lines of at most ``width`` cells, broken before signs of a calculation only."""
    lines: list[str] = []
    for part in _SIGNS.split(text):
        if lines and cell_len(lines[-1]) + 1 + cell_len(part) <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return lines


def telling(name: str, vitals: Vitals, words: Catalogue) -> tuple[str, str]:
    """What to say beside a gauge: what matters most, and what else where there is room."""
    changes = changes_of(name, vitals)
    if not changes:
        return words("vitals.no_evidence"), ""
    value: float = getattr(vitals, name)
    state = words(f"vitals.word.{name}.{level(value, name)}")
    cause = _short(changes, words)
    if not cause:
        return state, ""
    if name == "focus" and level(value) != "low":
        return cause, state
    return state, cause


def _short(changes: Sequence[VitalChange], words: Catalogue) -> str:
    newest = changes[-1]
    if newest.cause == "progress":
        return words(f"vitals.short.progress_{newest.params.get('kind', 'read')}")
    if newest.cause == "repeat":
        count = 0
        for change in reversed(changes):
            if change.cause != "repeat":
                break
            count += 1
        return words("vitals.short.repeat" if count == 1 else "vitals.short.repeats", count=count)
    if newest.cause == "loop":
        return words("vitals.short.loop", **_whole(newest, "loops", "limit"))
    key = f"vitals.short.{newest.cause}"
    return words(key) if words.has(key) else ""


def cause_words(change: VitalChange, words: Catalogue) -> str:
    """What set the change off."""
    if change.cause == "progress":
        key = f"vitals.cause.progress_{change.params.get('kind', 'read')}"
        return visible_line(words(key, **{**_BLANK, **change.params})).rstrip(": ")
    key = f"vitals.cause.{change.cause}"
    if not words.has(key):
        return visible_line(change.cause)
    return visible_line(words(key, **{**_BLANK, **change.params})).rstrip(": ")


def brief_words(change: VitalChange, words: Catalogue) -> str:
    """The cause in a list of changes: what tells it from its neighbours."""
    inputs = change.inputs
    if change.cause == "decision" and "outcomes" in inputs:
        said: list[str] = []
        if "confidence" in inputs:
            said.append(words("vitals.brief.confidence", value=figure(inputs["confidence"])))
        if inputs["outcomes"]:
            early = inputs["outcomes"] < _SURE_FROM
            key = "vitals.brief.few_outcomes" if early else "vitals.brief.outcomes"
            share = figure(inputs.get("share", 0.0), 1)
            said.append(words(key, share=share, **_whole(change, "good", "outcomes")))
        return words("vitals.brief.join").join(said) or cause_words(change, words)
    said = [_short([change], words) or cause_words(change, words)]
    about = change.params.get("what") or change.params.get("reason")
    return ": ".join([*said, visible_line(about)] if about else said)


def given_words(change: VitalChange, words: Catalogue) -> list[str]:
    """What the formula was given, with figures."""
    inputs = change.inputs
    if change.vital == "mood" and "share" in inputs:
        counts = _whole(change, "good", "outcomes")
        share = figure(inputs["share"])
        said: list[str] = [
            words("vitals.given.confidence", value=figure(inputs["confidence"]))
            if "confidence" in inputs
            else words("vitals.given.no_confidence")
        ]
        early = inputs.get("outcomes", 0) < _SURE_FROM
        key = "vitals.given.few_outcomes" if early else "vitals.given.outcomes"
        said.append(words(key, share=share, **counts))
        return said
    if change.vital == "stamina" and "limit" in inputs:
        counts = _whole(change, "loops", "limit", "failed", "attempt")
        return [words("vitals.given.loops", **counts), words("vitals.given.tries", **counts)]
    if change.cause == "new_objective":
        return [words("vitals.given.fresh", value=figure(change.new))]
    return []


def calculation(change: VitalChange, words: Catalogue) -> list[str]:
    """The formula with its figures, one equation a line; the last gives the new value."""
    inputs = change.inputs
    if change.vital == "mood" and "share" in inputs:
        share = inputs["share"]
        sure = inputs.get("confidence")
        lines: list[str] = []
        if sure is None:
            judged = share
            lines.append(f"c = {figure(share)}")
        else:
            judged = (sure + share) / 2
            lines.append(f"c = ({figure(sure)} + {figure(share)}) / 2 = {figure(judged)}")
        old = inputs.get("old", change.old)
        lines.append(f"0.7 × {figure(judged)} + 0.3 × {figure(old)} = {figure(change.new)}")
        return lines
    if change.vital == "stamina" and "limit" in inputs:
        loops, limit = int(inputs.get("loops", 0)), int(inputs["limit"])
        failed, before = int(inputs.get("failed", 0)), int(inputs.get("attempt", 1)) - 1
        sum_ = f"1 − 0.6 × {loops} / {limit} − 0.1 × {failed} − 0.1 × {before}"
        raw = 1 - 0.6 * loops / max(1, limit) - 0.1 * failed - 0.1 * before
        return _kept(sum_, raw, change, words)
    if change.vital == "focus":
        old = inputs.get("old", change.old)
        by = inputs.get("by", change.new - old)
        sign = "+" if by >= 0 else "−"
        return _kept(f"{figure(old)} {sign} {figure(abs(by))}", old + by, change, words)
    if change.cause == "new_objective":
        return []
    return [f"{figure(change.old)} → {figure(change.new)}"]


def _kept(sum_: str, raw: float, change: VitalChange, words: Catalogue) -> list[str]:
    """The equation; what leaves 0 to 1 is set to the nearer end, and that is said."""
    if -1e-6 <= raw <= 1 + 1e-6:
        return [f"{sum_} = {figure(change.new)}"]
    minus = figure(raw).replace("-", "−")
    return [f"{sum_} = {minus}", words("vitals.given.kept", value=figure(change.new))]


def _whole(change: VitalChange, *names: str) -> dict[str, int]:
    return {name: int(change.inputs.get(name, 0)) for name in names}
