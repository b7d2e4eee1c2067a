"""Why an attempt may take so many loops: in words first, then with every figure (S0-32…36)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from duckflow_tui.state.decision import TaskProfile
from duckflow_tui.state.pace import Complexity, LoopLimit, Pace, Reason
from duckflow_tui.ui.panes.vitals_words import figure
from duckflow_tui.words.catalogue import Catalogue

_WEIGHTS: Final = (("mood", 0.4), ("focus", 0.4), ("stamina", 0.2))  # S0-8
_EXACT: Final = 6  # decimals to which the pacemaker rounds before it cuts
_MOST_DECIMALS: Final = 9  # with which a product is told from its neighbour


@dataclass(frozen=True, slots=True)
class LimitBlock:
    """A block of figures: its name, and its lines."""

    name: str
    lines: tuple[str, ...]


def profile_words(profile: TaskProfile | None, words: Catalogue) -> str:
    """The kind of request."""
    return words(f"choice.profile.{profile.value.lower() if profile else 'unknown'}")


def chooser_words(limit: LoopLimit, words: Catalogue) -> str:
    """The kind of request, and who said so."""
    name = profile_words(limit.profile, words)
    if limit.profile is None:
        return name
    return words(f"pace.by.{limit.chosen_by}", profile=name)


def summary(pace: Pace, words: Catalogue) -> list[str]:
    """Sentences without a figure but the loops themselves (S0-44)."""
    limit = pace.limit
    if limit.fallback:
        said: list[str] = [words("pace.summary.fallback", limit=limit.max_loops)]
    else:
        said = [
            words("pace.summary.limit", kind=chooser_words(limit, words), limit=limit.max_loops)
        ]
    because: list[str] = [
        text for reason in _grouped(limit, words) if (text := reason_words(reason, words))
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
    """One reason in words; empty for one that only figures say."""
    key = f"pace.reason.{reason.code}"
    if not words.has(key):
        return ""
    params = dict(reason.params)
    if "cause" in params:
        cause = f"pace.fallback.{params['cause']}"
        params["cause"] = words(cause) if words.has(cause) else params["cause"]
    return words(key, **params)


def _grouped(limit: LoopLimit, words: Catalogue) -> list[Reason]:
    """The reasons with those that name a vital put together, in words."""
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


def consulted(pace: Pace, words: Catalogue) -> list[str]:
    """What the user was consulted about in this turn."""
    if not pace.consultations:
        return [words("pace.consulted.none")]
    counts = {pattern: pace.consultations.count(pattern) for pattern in pace.consultations}
    return [
        f"{words(f'pace.pattern.{pattern.value}')}{f' ×{count}' if count > 1 else ''}"
        for pattern, count in counts.items()
    ]


def blocks(limit: LoopLimit, words: Catalogue) -> list[LimitBlock]:
    """The figures: task, vitals, context, calculation, final limit (S0-35)."""
    final = _final(limit, words)
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
        _vitals(limit, words),
        _context(limit, words),
        LimitBlock(words("pace.block.calculation"), _calculation(limit, words)),
        final,
    ]


def _vitals(limit: LoopLimit, words: Catalogue) -> LimitBlock:
    values = {name: float(getattr(limit, name)) for name, _ in _WEIGHTS}
    said = " · ".join(f"{words(f'vitals.{name}')} {value:.2f}" for name, value in values.items())
    sum_ = " + ".join(f"{weight} × {figure(values[name])}" for name, weight in _WEIGHTS)
    word = "low" if limit.vitals_factor < 1 else "good" if limit.vitals_factor > 1 else "standard"
    return LimitBlock(
        words("pace.block.vitals"),
        (
            said,
            f"{sum_} = {figure(limit.vitals_score)}",
            words(f"pace.figure.vitals_{word}", factor=_factors(limit)[0]),
        ),
    )


def _context(limit: LoopLimit, words: Catalogue) -> LimitBlock:
    complexity = limit.complexity
    lines: list[str] = []
    if complexity is not None:
        parts = _measured(complexity)
        if parts:
            lines.append(
                " · ".join(
                    words(f"pace.figure.{name}", value=figure(value))
                    for name, value in parts.items()
                )
            )
            values = " + ".join(figure(value) for value in parts.values())
            lines.append(f"({values}) / {len(parts)} = {figure(complexity.value)}")
        else:
            lines.append(words("pace.figure.unmeasured", value=figure(complexity.value)))
        lines.append(words(f"pace.figure.{_involved(complexity)}", value=f"{complexity.value:.2f}"))
        factor = _factors(limit)[1]
        lines.append(f"1 + 0.4 × {figure(complexity.value)} = {factor}")
    return LimitBlock(words("pace.block.context"), tuple(lines))


def _measured(complexity: Complexity) -> dict[str, float]:
    parts = {
        "files": complexity.files,
        "history": complexity.history,
        "errors": complexity.errors,
    }
    return {name: value for name, value in parts.items() if value is not None}


def _involved(complexity: Complexity) -> str:
    if complexity.value < 0.3:
        return "context_low"
    return "context_high" if complexity.value > 0.7 else "context_medium"


def _calculation(limit: LoopLimit, words: Catalogue) -> tuple[str, ...]:
    """``14 × 1.00 × 1.05 = 14.70 → 14``, and what the factors change in percent (S0-34)."""
    vitals, context = _factors(limit)
    product = limit.base_loops * float(vitals) * float(context)
    whole = int(round(product, _EXACT))
    decimals = next(n for n in range(2, _EXACT + 1) if int(round(product, n)) == whole)
    lines = [f"{limit.base_loops} × {vitals} × {context} = {product:.{decimals}f} → {whole}"]
    percents = [
        words(f"pace.figure.by_{name}", percent=f"{'+' if by > 0 else '−'}{abs(by)}")
        for name, by in (
            ("vitals", round((limit.vitals_factor - 1) * 100)),
            ("context", round((limit.complexity_factor - 1) * 100)),
        )
        if by
    ]
    lines.append(words("pace.figure.join").join(percents) or words("pace.figure.unadjusted"))
    return tuple(lines)


def _factors(limit: LoopLimit) -> tuple[str, str]:
    """Both factors with as many decimals as the product needs to come out the same (S0-36)."""
    wanted = _in_range(limit.base_loops * limit.vitals_factor * limit.complexity_factor, limit)
    wanted = limit.max_loops - limit.extended or wanted
    vitals = context = ""
    for decimals in range(2, _MOST_DECIMALS + 1):
        vitals = figure(limit.vitals_factor, 2, decimals)
        context = figure(limit.complexity_factor, 2, decimals)
        product = limit.base_loops * float(vitals) * float(context)
        if _in_range(product, limit) == wanted:
            break
    return vitals, context


def _in_range(product: float, limit: LoopLimit) -> int:
    return min(max(int(round(product, _EXACT)), limit.lowest), limit.highest)


def _final(limit: LoopLimit, words: Catalogue) -> LimitBlock:
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
