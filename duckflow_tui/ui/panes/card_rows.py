"""What a card says, as rows of text: the model's words marked as its own, figures computed here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.gates import SKIP, SUGGESTED, Card, CardKind, CardOption
from duckflow_tui.state.plan import Plan, Step, StepDifference, StepReport, difference
from duckflow_tui.ui.panes.consult_rows import (
    CONSULTS,
    consult_heading,
    consult_rows,
    consult_subject,
)
from duckflow_tui.ui.panes.diff_rows import shown_line
from duckflow_tui.ui.panes.gate_rows import GateRow, Tone
from duckflow_tui.ui.panes.plan_rows import clock_text, needing
from duckflow_tui.words.catalogue import Catalogue

#: Marks of the lines of a difference; a sign says what the colour does.
SIGNS: Final = {"add": "+", "drop": "−", "change": "~", "move": "↕", "same": " "}
_TONES: Final[dict[str, Tone]] = {
    "add": "added", "drop": "removed", "change": "notice", "move": "notice", "same": "quiet",
}  # fmt: skip
_RUN: Final = 3  # unchanged steps in a row from which on they are counted instead


def card_rows(card: Card, plan: Plan | None, words: Catalogue) -> list[GateRow]:
    """Everything that the user should know before answering."""
    match card.kind:
        case CardKind.PLAN:
            return list(_plan(card, plan, words)) if plan else []
        case CardKind.PLAN_CHANGE:
            return list(_change(card, plan, words))
        case CardKind.REPORT:
            return list(_report(card, words))
        case CardKind.BREAKPOINT:
            return list(_breakpoint(card, plan, words))
        case CardKind.CONSULTATION | CardKind.ESCALATION | CardKind.BUDGET:
            return consult_rows(card, words)


def card_subject(card: Card, plan: Plan | None, words: Catalogue) -> str:
    """What the card is about: the plan's name, the step's, or where the work stands."""
    if card.kind in CONSULTS:
        return consult_subject(card, words)
    if card.report is not None:
        return visible_line(card.report.step_name)
    if plan is None:
        return ""
    step = plan.step(card.step_id) if card.kind is CardKind.BREAKPOINT else None
    return visible_line(step.name if step else plan.name)


def card_heading(card: Card, plan: Plan | None, words: Catalogue) -> str:
    """``Plan``, ``Change of plan``, ``Step 2 done``, ``Before step 3``."""
    if card.kind in CONSULTS:
        return consult_heading(card, words)
    number = step_number(plan, card.step_id)
    if card.report is not None:
        return words(f"card.title.report.{card.report.status}", number=number)
    return words(f"card.title.{card.kind}", number=number)


def step_number(plan: Plan | None, step_id: str) -> str:
    """The step's place in the plan, counted from 1; a question mark where it is in none."""
    steps = plan.steps if plan else ()
    return next((str(n) for n, step in enumerate(steps, 1) if step.step_id == step_id), "?")


def needed_by(card: Card, option: CardOption, plan: Plan | None, words: Catalogue) -> str:
    """``needed by 3, 4``: the steps that would begin without what this option skips."""
    step = plan.step(card.step_id) if plan is not None and option.action == SKIP.action else None
    if plan is None or step is None:
        return ""
    numbers = needing(plan, step)
    return words("plan.needed_by", numbers=", ".join(map(str, numbers))) if numbers else ""


def counts_words(report: StepReport, words: Catalogue) -> str:
    """``3 done, 1 failed · 4 calls · 0:41``: figures of the app."""
    parts = [words("card.succeeded", count=report.succeeded)]
    if report.failed:
        parts.append(words("card.failed", count=report.failed))
    if report.refused:
        parts.append(words("card.refused", count=report.refused))
    if report.skipped:
        parts.append(words("card.skipped", count=report.skipped))
    said = [", ".join(parts)]
    if report.llm_calls:
        key = "plan.call" if report.llm_calls == 1 else "plan.calls"
        said.append(words(key, count=report.llm_calls))
    said.append(clock_text(report.duration_s))
    return " · ".join(said)


def difference_words(lines: tuple[StepDifference, ...], words: Catalogue) -> str:
    """``1 added, 2 changed``: what a change does in all."""
    found = {kind: sum(line.kind == kind for line in lines) for kind in SIGNS}
    parts = [words(f"card.diff.{k}", count=n) for k, n in found.items() if n and k != "same"]
    return ", ".join(parts)


# --- the kinds ------------------------------------------------------------------------------------


def _plan(card: Card, plan: Plan, words: Catalogue) -> Iterator[GateRow]:
    yield GateRow(words("card.goal"), shown_line(plan.goal.strip()), says=True)
    risk = words(f"plan.risk.{plan.risk}")
    tone: Tone = "text" if plan.risk == "low" else "notice" if plan.risk == "medium" else "warning"
    yield GateRow(words("card.risk"), risk, says=True, tone=tone)
    for number, criterion in enumerate(plan.success_criteria):
        label = words("card.criteria") if number == 0 else ""
        yield GateRow(label, shown_line(criterion.strip()), says=True)
    if card.before is not None:
        lines = difference(card.before, plan)
        if said := difference_words(lines, words):
            said = words("card.since_shown", what=said)
            yield GateRow(words("card.changes"), said, tone="notice")
        yield from _lines(lines, plan, card.before, words, every=True)
        return
    for number, step in enumerate(plan.steps, 1):
        label = words("card.steps") if number == 1 else ""
        yield GateRow(label, _step_words(number, step, plan, words))
        if step.description.strip():
            yield GateRow("", shown_line(step.description.strip()), tone="quiet")


def _change(card: Card, plan: Plan | None, words: Catalogue) -> Iterator[GateRow]:
    change = card.change
    if change is None or plan is None:
        return
    reason = shown_line(change.reason.strip())
    if reason:
        yield GateRow(words("card.reason"), reason, says=True)
    lines = difference(plan, change.result)
    said = difference_words(lines, words) or words("card.no_difference")
    yield GateRow(words("card.changes"), said)
    yield from _lines(lines, change.result, plan, words, every=False)


def _report(card: Card, words: Catalogue) -> Iterator[GateRow]:
    report = card.report
    if report is None:
        return
    tones: dict[str, Tone] = {"completed": "text", "partial": "notice"}
    yield GateRow(
        words("card.result"),
        f"{words(f'card.status.{report.status}')} · {counts_words(report, words)}",
        tone=tones.get(report.status, "warning"),
    )
    if report.files_changed:
        files = ", ".join(visible_line(path) for path in report.files_changed)
        yield GateRow(words("card.made"), files)
    if report.summary.strip():
        yield GateRow(words("card.summary"), shown_line(report.summary.strip()), says=True)
    if report.told is not None:
        yield GateRow(words("card.cause"), words.told(report.told))
    elif report.cause.strip():
        yield GateRow(words("card.cause"), shown_line(report.cause.strip()), says=True)
    if report.next_action.strip():
        text = shown_line(report.next_action.strip())
        offered = next((o for o in card.options if o.action == SUGGESTED.action), None)
        keys = ((0, 1),) if offered else ()
        text = f"{offered.key} {text}" if offered else text
        yield GateRow(words("card.next"), text, says=True, keys=keys)


def _breakpoint(card: Card, plan: Plan | None, words: Catalogue) -> Iterator[GateRow]:
    step = plan.step(card.step_id) if plan else None
    if plan is None or step is None:
        return
    number = step_number(plan, step.step_id)
    yield GateRow(words("card.step"), f"{number} {visible_line(step.name)}")
    if step.description.strip():
        yield GateRow("", shown_line(step.description.strip()), tone="quiet")
    yield GateRow("", words("card.you_asked"), tone="quiet")


def _lines(
    lines: tuple[StepDifference, ...], new: Plan, old: Plan, words: Catalogue, *, every: bool
) -> Iterator[GateRow]:
    """The steps with what becomes of each; without ``every``, runs of unchanged ones counted."""
    at = 0
    first = True
    while at < len(lines):
        line = lines[at]
        same = at
        while same < len(lines) and lines[same].kind == "same":
            same += 1
        label = words("card.steps") if first else ""
        first = False
        if not every and same - at >= _RUN:
            yield GateRow(label, "  " + words("card.unchanged", count=same - at), tone="quiet")
            at = same
            continue
        plan = old if line.kind == "drop" else new
        text = f"{SIGNS[line.kind]} {_step_words(line.number, line.step, plan, words)}"
        yield GateRow(label, text, tone=_TONES[line.kind])
        yield from _below(line, old, words)
        at += 1


def _below(line: StepDifference, old: Plan, words: Catalogue) -> Iterator[GateRow]:
    before, step = line.before, line.step
    if before is not None and (before.name, before.depends_on) != (step.name, step.depends_on):
        number = int(step_number(old, before.step_id))
        was = words("card.was", step=_step_words(number, before, old, words))
        yield GateRow("", f"  {was}", tone="quiet")
    says = step.description.strip()
    changed = before is not None and before.description != step.description
    if changed and before is not None and before.description.strip():
        yield GateRow("", f"  − {shown_line(before.description.strip())}", tone="removed")
    if says and changed:
        yield GateRow("", f"  + {shown_line(says)}", tone="added")
    elif says and line.kind == "add":
        yield GateRow("", f"  {shown_line(says)}", tone="quiet")


def _step_words(number: int, step: Step, plan: Plan, words: Catalogue) -> str:
    text = f"{number} {visible_line(step.name)}"
    if not step.depends_on:
        return text
    needs = sorted(step_number(plan, need) for need in step.depends_on)
    return f"{text} · {words('plan.needs', numbers=', '.join(needs))}"
