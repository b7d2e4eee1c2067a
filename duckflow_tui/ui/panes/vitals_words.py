"""Words for mood, focus, stamina and the limit of loops: levels, causes, formulas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.pace import (
    Complexity,
    LoopLimit,
    Pace,
    Reason,
    TaskProfile,
    VitalChange,
    Vitals,
)
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.work.loop_limits import COMPLEXITY_WEIGHT, DIGITS, VITAL_WEIGHTS, name_complexity
from duckflow_tui.work.situations import LOW_STAMINA
from duckflow_tui.work.vitals import (
    ATTEMPT_WEIGHT,
    FAILED_READ_WEIGHT,
    FAILED_WEIGHT,
    LOOP_WEIGHT,
    NEW_WEIGHT,
    OLD_WEIGHT,
    SURE_FROM,
)

NAMES: Final = ("mood", "focus", "stamina")
HIGH: Final = 0.7  # from here on good; words, never figures, say so (S0-44)
LOW: Final = 0.5
_SIGNS: Final = re.compile(r" (?=[+−=→] )|(?<=·) ")

#: Params that a cause may come without.
_BLANK: Final = {"what": "", "operation": "", "reason": ""}


def level(value: float, name: str = "") -> str:
    """Return ``high``, ``middle`` or ``low``; the thresholds of ``stamina`` differ."""
    if value >= HIGH:
        return "high"
    return "middle" if value >= (LOW_STAMINA if name == "stamina" else LOW) else "low"


def changes_of(name: str, vitals: Vitals) -> list[VitalChange]:
    """Return the recorded changes of one vital, oldest first."""
    return [change for change in vitals.history if change.vital == name]


def figure_text(value: float, least: int = 2, most: int = 4) -> str:
    """Format a number with as many decimals as it needs, from ``least`` to ``most``."""
    text = f"{value:.{most}f}"
    while text.endswith("0") and len(text.partition(".")[2]) > least:
        text = text[:-1]
    return text


def break_equation(text: str, width: int) -> list[str]:
    """Break an equation into lines of at most ``width`` cells, only before operators."""
    lines: list[str] = []
    for part in _SIGNS.split(text):
        if lines and cell_len(lines[-1]) + 1 + cell_len(part) <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return lines


def level_word(name: str, vitals: Vitals, words: Catalogue) -> str:
    """Return the level of a vital as a word; ``neutral`` before its first change."""
    if not changes_of(name, vitals):
        return words("vitals.neutral")
    return words(f"vitals.word.{name}.{level(getattr(vitals, name), name)}")


def list_level_words(words: Catalogue) -> list[str]:
    """Return every word that ``level_word`` may return, so that a gauge can leave room for it."""
    levels = [f"word.{name}.{level}" for name in NAMES for level in ("high", "middle", "low")]
    return [words(f"vitals.{key}") for key in ("neutral", *levels)]


def fallen_vitals(vitals: Vitals) -> list[str]:
    """Return the names of vitals below ``high``; of stamina, which only falls, below ``middle``."""
    fine = {"stamina": ("high", "middle")}
    return [
        name
        for name in NAMES
        if changes_of(name, vitals)
        and level(getattr(vitals, name), name) not in fine.get(name, ("high",))
    ]


def lowering_cause(name: str, vitals: Vitals, words: Catalogue) -> str:
    """Return the newest cause that lowered the vital in a few words; empty without one."""
    changes = changes_of(name, vitals)
    lowered = [at for at, change in enumerate(changes, 1) if change.new < change.old]
    return _short_words(changes[: lowered[-1]], words) if lowered else ""


@dataclass(frozen=True, slots=True)
class Moved:
    """A short description of the vitals, and the ``level`` of the lowest."""

    said: str
    level: str


def moved_words(vitals: Vitals, words: Catalogue) -> Moved:
    """Describe the lowest fallen vital with its cause, such as ``focus falling: 2 repeats``; empty
    where none has fallen.
    """
    worse = fallen_vitals(vitals)
    if not worse:
        return Moved("", "high")
    name = min(worse, key=lambda worst: float(getattr(vitals, worst)))
    newest = changes_of(name, vitals)[-1]
    how = words("vitals.falling") if newest.new < newest.old else level_word(name, vitals, words)
    cause = lowering_cause(name, vitals, words)
    said = f"{words(f'vitals.{name}')} {how}"
    said = words("vitals.moved", said=said, cause=cause) if cause else said
    return Moved(said, level(getattr(vitals, name), name))


def _short_words(changes: Sequence[VitalChange], words: Catalogue) -> str:
    """Return why a vital's newest change lowered it, in a few words; empty for a cause without
    any.
    """
    newest = changes[-1]
    if newest.cause == "repeat":
        count = 0
        for change in reversed(changes):
            if change.cause != "repeat":
                break
            count += 1
        return words("vitals.short.repeats", count=count)
    if newest.cause == "decision":
        share = newest.inputs.get("share", 1.0)
        is_unsure = newest.inputs.get("confidence", 1.0) < share
        return words("vitals.short.unsure" if is_unsure else "vitals.short.outcomes")
    if newest.cause == "loop":
        return words("vitals.short.loop", **_whole_figures(newest, "loops", "limit"))
    key = f"vitals.short.{newest.cause}"
    return words(key) if words.has(key) else ""


def cause_words(change: VitalChange, words: Catalogue) -> str:
    """The cause of the change."""
    key = f"vitals.cause.{change.cause}"
    if change.cause == "progress":
        key = f"{key}_{change.params.get('kind', 'read')}"
    if not words.has(key):
        return visible_line(change.cause)
    said = words.name_operations(words(key, **{**_BLANK, **change.params}))
    return visible_line(said).rstrip(": ")


def given_words(change: VitalChange, words: Catalogue) -> list[str]:
    """Return the inputs of the formula with their values."""
    inputs = change.inputs
    if change.vital == "mood" and "share" in inputs:
        counts = _whole_figures(change, "good", "outcomes")
        share = figure_text(inputs["share"])
        said: list[str] = [
            words("vitals.given.confidence", value=figure_text(inputs["confidence"]))
            if "confidence" in inputs
            else words("vitals.given.no_confidence")
        ]
        early = inputs.get("outcomes", 0) < SURE_FROM
        key = "vitals.given.few_outcomes" if early else "vitals.given.outcomes"
        said.append(words(key, share=share, **counts))
        if inputs.get("fruitless"):
            said.append(words("vitals.given.fruitless"))
        return said
    if change.vital == "stamina" and "limit" in inputs:
        counts = _whole_figures(change, "loops", "limit", "failed", "failed_reads", "attempt")
        return [words("vitals.given.loops", **counts), words("vitals.given.tries", **counts)]
    if change.cause == "new_objective":
        return [words("vitals.given.fresh", value=figure_text(change.new))]
    return []


def calculation_lines(change: VitalChange, words: Catalogue) -> list[str]:
    """Return the formula with its values, one equation a line; the last gives the new value."""
    inputs = change.inputs
    if change.cause == "new_objective":
        return []
    if change.vital == "mood" and "share" in inputs:
        share = inputs["share"]
        sure = inputs.get("confidence")
        lines: list[str] = []
        if sure is None:
            judged = share
            lines.append(f"c = {figure_text(share)}")
        else:
            judged = (sure + share) / 2
            lines.append(
                f"c = ({figure_text(sure)} + {figure_text(share)}) / 2 = {figure_text(judged)}"
            )
        old = inputs.get("old", change.old)
        raw = NEW_WEIGHT * judged + OLD_WEIGHT * old
        weighted = f"{NEW_WEIGHT} × {figure_text(judged)} + {OLD_WEIGHT} × {figure_text(old)}"
        lines.append(f"{weighted} = {figure_text(raw)}")
        if inputs.get("fruitless") and raw > old:
            lines.append(words("vitals.given.held", value=figure_text(change.new)))
        return lines
    if change.vital == "stamina" and "limit" in inputs:
        loops, limit = int(inputs.get("loops", 0)), int(inputs["limit"])
        failed, before = int(inputs.get("failed", 0)), int(inputs.get("attempt", 1)) - 1
        reads = int(inputs.get("failed_reads", 0))
        of_reads = f" − {FAILED_READ_WEIGHT} × {reads}" if reads else ""
        of_failed = f" − {FAILED_WEIGHT} × {failed}{of_reads} − {ATTEMPT_WEIGHT} × {before}"
        sum_ = f"1 − {LOOP_WEIGHT} × {loops} / {limit}{of_failed}"
        raw = 1 - LOOP_WEIGHT * loops / max(1, limit) - FAILED_WEIGHT * failed
        raw -= FAILED_READ_WEIGHT * reads + ATTEMPT_WEIGHT * before
        return _kept_lines(sum_, raw, change, words)
    if change.vital == "focus":
        old = inputs.get("old", change.old)
        by = inputs.get("by", change.new - old)
        sign = "+" if by >= 0 else "−"
        return _kept_lines(
            f"{figure_text(old)} {sign} {figure_text(abs(by))}", old + by, change, words
        )
    return [f"{figure_text(change.old)} → {figure_text(change.new)}"]


def _kept_lines(sum_: str, raw: float, change: VitalChange, words: Catalogue) -> list[str]:
    """Return the final equation; a result outside 0 to 1 is clamped, which is shown."""
    if -1e-6 <= raw <= 1 + 1e-6:
        return [f"{sum_} = {figure_text(change.new)}"]
    minus = figure_text(raw).replace("-", "−")
    return [f"{sum_} = {minus}", words("vitals.given.kept", value=figure_text(change.new))]


def _whole_figures(change: VitalChange, *names: str) -> dict[str, int]:
    """Return inputs of a change's formula as integers by name; 0 for a missing one."""
    return {name: int(change.inputs.get(name, 0)) for name in names}


_MOST_DECIMALS: Final = 9  # with which a product is told from its neighbour


@dataclass(frozen=True, slots=True)
class LimitBlock:
    """A titled block of lines about the limit."""

    name: str
    lines: tuple[str, ...]


def profile_words(profile: TaskProfile | None, words: Catalogue) -> str:
    """Return the name of a kind of request."""
    return words(f"choice.profile.{profile.value.lower() if profile else 'unknown'}")


def chooser_words(limit: LoopLimit, words: Catalogue) -> str:
    """Return the kind of request and who chose it."""
    name = profile_words(limit.profile, words)
    if limit.profile is None:
        return name
    return words(f"pace.by.{limit.chosen_by}", profile=name)


def limit_summary(pace: Pace, words: Catalogue) -> list[str]:
    """Return sentences about the limit without figures except loops (S0-44)."""
    limit = pace.limit
    if limit.fallback:
        said: list[str] = [words("pace.summary.fallback", limit=limit.max_loops)]
    else:
        said = [
            words("pace.summary.limit", kind=chooser_words(limit, words), limit=limit.max_loops)
        ]
    because: list[str] = [
        text for reason in _group_reasons(limit, words) if (text := reason_words(reason, words))
    ]
    if by_user := limit.extended - limit.grown:
        because.append(words("pace.summary.extended", count=by_user))
    if limit.grown:
        because.append(words("pace.summary.grown", count=limit.grown))
    because.append(words("pace.summary.used", used=pace.used, limit=limit.max_loops))
    prose = because[0]
    for sentence in because[1:]:
        prose = words("pace.summary.pair", first=prose, next=sentence)
    return [*said, prose]


def reason_words(reason: Reason, words: Catalogue) -> str:
    """Return a reason in words; empty for one that only figures express."""
    key = f"pace.reason.{reason.code}"
    if not words.has(key):
        return ""
    params = dict(reason.params)
    if "cause" in params:
        cause = f"pace.fallback.{params['cause']}"
        params["cause"] = words(cause) if words.has(cause) else params["cause"]
    return words(key, **params)


def _group_reasons(limit: LoopLimit, words: Catalogue) -> list[Reason]:
    """Return the reasons with those about vitals joined into one."""
    found: dict[str, Reason] = {}
    for number, reason in enumerate(limit.reasoning):
        if "vital" not in reason.params:
            found[f"{reason.code} {number}"] = reason
            continue
        name = words(f"vitals.{reason.params['vital']}")
        before = found.get(reason.code)
        if before is not None:
            name = words("pace.summary.names", first=before.params["vital"], next=name)
        found[reason.code] = Reason(code=reason.code, params={"vital": name})
    return list(found.values())


def consulted_words(pace: Pace, words: Catalogue) -> list[str]:
    """Return a line for each consultation of this turn."""
    if not pace.consultations:
        return [words("pace.consulted.none")]
    counts = {pattern: pace.consultations.count(pattern) for pattern in pace.consultations}
    return [
        f"{words(f'pace.pattern.{pattern.value}')}{f' ×{count}' if count > 1 else ''}"
        for pattern, count in counts.items()
    ]


def limit_blocks(limit: LoopLimit, words: Catalogue) -> list[LimitBlock]:
    """Return the calculation of the limit as blocks: task, vitals, context, calculation, result
    (S0-35).
    """
    final = _final_block(limit, words)
    if limit.fallback:
        return [final]
    return [
        LimitBlock(
            words("pace.block.task"),
            (
                chooser_words(limit, words),
                words("pace.figure.base", base=limit.base_loops),
            ),
        ),
        _vitals_block(limit, words),
        _context_block(limit, words),
        LimitBlock(words("pace.block.calculation"), _calculation_lines(limit, words)),
        final,
    ]


def _vitals_block(limit: LoopLimit, words: Catalogue) -> LimitBlock:
    """The term that the vitals contribute to the limit."""
    values = {name: float(getattr(limit, name)) for name, _ in VITAL_WEIGHTS}
    said = " · ".join(f"{words(f'vitals.{name}')} {value:.2f}" for name, value in values.items())
    sum_ = " + ".join(f"{weight} × {figure_text(values[name])}" for name, weight in VITAL_WEIGHTS)
    word = "low" if limit.vitals_factor < 1 else "good" if limit.vitals_factor > 1 else "standard"
    return LimitBlock(
        words("pace.block.vitals"),
        (
            said,
            f"{sum_} = {figure_text(limit.vitals_score)}",
            words(f"pace.figure.vitals_{word}", factor=_factor_texts(limit)[0]),
        ),
    )


def _context_block(limit: LoopLimit, words: Catalogue) -> LimitBlock:
    """The term that the request's complexity contributes to the limit."""
    complexity = limit.complexity
    lines: list[str] = []
    if complexity is not None:
        parts = _measured_values(complexity)
        if parts:
            lines.append(
                " · ".join(
                    words(f"pace.figure.{name}", value=figure_text(value))
                    for name, value in parts.items()
                )
            )
            values = " + ".join(figure_text(value) for value in parts.values())
            lines.append(f"({values}) / {len(parts)} = {figure_text(complexity.value)}")
        else:
            lines.append(words("pace.figure.unmeasured", value=figure_text(complexity.value)))
        lines.append(
            words(
                f"pace.figure.context_{name_complexity(complexity.value)}",
                value=f"{complexity.value:.2f}",
            )
        )
        factor = _factor_texts(limit)[1]
        lines.append(f"1 + {COMPLEXITY_WEIGHT} × {figure_text(complexity.value)} = {factor}")
    return LimitBlock(words("pace.block.context"), tuple(lines))


def _measured_values(complexity: Complexity) -> dict[str, float]:
    """The measured parts of the complexity, 0 to 1 each."""
    parts = {
        "files": complexity.files,
        "history": complexity.history,
        "errors": complexity.errors,
    }
    return {name: value for name, value in parts.items() if value is not None}


def _calculation_lines(limit: LoopLimit, words: Catalogue) -> tuple[str, ...]:
    """Return ``14 × 1.00 × 1.05 = 14.70 → 14``, and each factor's change in percent (S0-34)."""
    vitals, context = _factor_texts(limit)
    product = limit.base_loops * float(vitals) * float(context)
    whole = int(round(product, DIGITS))
    decimals = next(n for n in range(2, DIGITS + 1) if int(round(product, n)) == whole)
    lines = [f"{limit.base_loops} × {vitals} × {context} = {product:.{decimals}f} → {whole}"]
    percents = [
        words(f"pace.figure.by_{name}", percent=f"{'+' if by > 0 else '−'}{abs(by)}")
        for name, by in (
            ("vitals", round((limit.vitals_factor - 1) * 100)),
            ("context", round((limit.complexity_factor - 1) * 100)),
        )
        if by
    ]
    lines.append(words("gate.list").join(percents) or words("pace.figure.unadjusted"))
    return tuple(lines)


def _factor_texts(limit: LoopLimit) -> tuple[str, str]:
    """Format both factors with as many decimals as reproduce the product (S0-36)."""
    wanted = _in_range(limit.base_loops * limit.vitals_factor * limit.complexity_factor, limit)
    wanted = limit.max_loops - limit.extended or wanted
    vitals = context = ""
    for decimals in range(2, _MOST_DECIMALS + 1):
        vitals = figure_text(limit.vitals_factor, 2, decimals)
        context = figure_text(limit.complexity_factor, 2, decimals)
        product = limit.base_loops * float(vitals) * float(context)
        if _in_range(product, limit) == wanted:
            break
    return vitals, context


def _in_range(product: float, limit: LoopLimit) -> int:
    """Round a product down to an integer within the limit's range."""
    return min(max(int(round(product, DIGITS)), limit.lowest), limit.highest)


def _final_block(limit: LoopLimit, words: Catalogue) -> LimitBlock:
    """Return the final limit with extension and range."""
    lines: list[str] = [words("pace.figure.limit", limit=limit.max_loops - limit.extended)]
    if limit.extended:
        lines.append(
            f"{limit.max_loops - limit.extended} + {limit.extended} = {limit.max_loops}",
        )
    if limit.fallback:
        lines.append(words("pace.figure.fallback"))
    else:
        lines.append(words("pace.figure.range", low=limit.lowest, high=limit.highest))
    return LimitBlock(words("pace.block.limit"), tuple(lines))
