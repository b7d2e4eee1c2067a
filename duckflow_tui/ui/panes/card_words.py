"""Converts a card to a question: its rows, title and options, and the answer to it.

The model's words are marked as such; figures come from the app.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from duckflow_tui.safety.safe_text import SafeText, visible_line
from duckflow_tui.state.base import ELLIPSIS
from duckflow_tui.state.consequences import find_consequence
from duckflow_tui.state.gates import (
    ACCEPT,
    EDIT_PLAN,
    GO_ON,
    LOOK,
    OPEN_PAGE,
    REJECT,
    RETRY,
    RUN_ALL,
    RUN_STEPS,
    SKIP,
    SUGGESTED,
    TELL,
    TRUST,
    Card,
    CardAnswer,
    CardKind,
    CardOption,
    DiffMark,
    Remark,
)
from duckflow_tui.state.goal import FailureAnalysis, SituationReport
from duckflow_tui.state.lines import split_bare_lines
from duckflow_tui.state.pace import Situation, Tried
from duckflow_tui.state.plan import Plan, Step, StepDifference, StepReport, compare_plans
from duckflow_tui.tools.diffs import join_hunks
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.panes.diff_document import USER_MARK, shown_line
from duckflow_tui.ui.panes.plan_rows import dependent_steps
from duckflow_tui.ui.panes.question import AnswerChoice, QuestionSpec, TextEntry, Title
from duckflow_tui.ui.panes.request import QuestionRow, Tone
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import clock_text, cost_text, lack_words, reason_words

DONE: Final = "✓"
NOT_DONE: Final = "✗"
COLLECTED: Final = 100  # characters of a finding (S1-32)
_BEGINS: Final = re.compile(r"^\s*(?:#{1,6} |[-*+] |> )")  # a heading, an item, a quote
_EMPHASIS: Final = re.compile(r"(?<![\w*])(\*{1,3})(?=\S)([^*]+)(?<=\S)\1(?![\w*])")
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)\s]+\)")
_NO_PROSE: Final = re.compile(r"\s*(?:\||```|~~~|[-*_=]{3,}\s*$)")

#: Cards that ask how the work should go on, rather than about a plan.
CONSULTS: Final = frozenset(
    {CardKind.CONSULTATION, CardKind.ESCALATION, CardKind.BUDGET, CardKind.QUESTION}
)


#: Answers that let something begin: unseen lines are asked about first (R14).
_LETS_BEGIN: Final = (RUN_ALL, RUN_STEPS, ACCEPT, GO_ON, SUGGESTED, TRUST, OPEN_PAGE)

#: Cards whose steps can be remarked on; a refusal sends the remarks.
REMARKED: Final = (CardKind.PLAN, CardKind.PLAN_CHANGE)

_REMARK: Final = next(key.label for key in keys_of("card") if key.action == "remark")
_ACTS: Final = {EDIT_PLAN.action: "edit_plan", LOOK.action: "details"}  # they answer nothing


def card_question(
    card: Card,
    plan: Plan | None,
    words: Catalogue,
    *,
    waiting: int = 1,
    remarks: Mapping[str, str],
    whole: bool = False,
) -> QuestionSpec:
    """Return the card as a question. ``waiting`` is the number of open questions, ``remarks`` are
    by step id; ``whole``: new files line by line.
    """
    heading, subject = card_heading(card, plan, words), card_subject(card, plan, words)
    rows = card_rows(card, plan, words, whole=whole)
    effects = option_effects(card, words)
    choices = [_option_choice(card, option, plan, words, effects) for option in card.options]
    more = [replace(c, key="plus") for c in choices if c.answer == "more_loops"]
    if card.kind in REMARKED:
        rows = with_remarks(rows, remarks)
        choices.append(AnswerChoice(_REMARK, "", words("gate.key.remark"), acts="remark"))
    changed = card.kind is CardKind.PLAN and (plan is None or plan.fingerprint != card.subject)
    count = words("gate.waiting", number=1, total=waiting)
    is_asked = card.kind in (CardKind.QUESTION, CardKind.SERVER)
    headline = QuestionRow(heading, subject)
    return QuestionSpec(
        title=Title(heading, subject, f"  {count}" if waiting > 1 else "", named=True),
        headline=headline,
        path=headline,
        rows=rows,
        choices=choices,
        unlisted=more,
        at_once=frozenset({LOOK.key}) if LOOK in card.options else frozenset(),
        hint=words(hint_of(card)),
        hint_at_row=words("card.hint_go_to") if card.kind in CONSULTS else "",
        leads_here="card.hint_answer" if is_asked else "gate.hint",
        prompt=consult_question(card, words),
        blocks="card.changed_meanwhile" if changed else "",
    )


def _option_choice(
    card: Card, option: CardOption, plan: Plan | None, words: Catalogue, effects: dict[str, str]
) -> AnswerChoice:
    """Return an option of the card as a choice, with the words of its effect by its key in
    ``effects``; ``plan`` says how much the option needs.
    """
    entry = None
    if option.takes_text:
        asks = card.kind in (CardKind.QUESTION, CardKind.SERVER) and option == TELL
        entry = TextEntry(
            words(f"card.ask_text.{'answer' if asks else option.action}"),
            words("card.hint_text"),
            is_optional=option in (REJECT, RETRY),
        )
    return AnswerChoice(
        option.key,
        option.action,
        option_words(card, option, words) + needed_by(card, option, plan, words),
        effect=effects.get(option.key, ""),
        acts=_ACTS.get(option.action, ""),
        consents=option.action in [begins.action for begins in _LETS_BEGIN],
        takes_remarks=option == REJECT and card.kind in REMARKED,
        entry=entry,
    )


def find_step(card: Card, plan: Plan | None, step_id: str) -> tuple[int, str]:
    """Return number and name of a step, in the proposed change or else the plan; 0 and an empty
    name where it is in neither.
    """
    for shown in (card.change.result if card.change is not None else None, plan):
        for number, step in enumerate(shown.steps if shown is not None else (), 1):
            if step.step_id == step_id:
                return number, step.name
    return 0, ""


def list_step_remarks(
    card: Card, plan: Plan | None, remarks: Mapping[str, str]
) -> tuple[Remark, ...]:
    """Return the remarks in the order of their steps, numbered as in the proposed change, or as in
    ``plan`` for a step that the change drops. Remarks on steps in neither are left out.
    """
    placed = sorted((find_step(card, plan, step), said) for step, said in remarks.items())
    return tuple(Remark(number=n, line=name, said=said) for (n, name), said in placed if n)


def place_remarks(card: Card, plan: Plan | None, remarks: Sequence[Remark]) -> dict[str, str]:
    """Return stored remarks by the id of their step, where number and name still fit."""
    texts = {(remark.number, remark.line): remark.said for remark in remarks}
    placed: dict[str, str] = {}
    for shown in (plan, card.change.result if card.change is not None else None):
        for step in shown.steps if shown is not None else ():
            text = texts.get(find_step(card, plan, step.step_id))
            if text is not None:
                placed[step.step_id] = text
    return placed


def card_answer(
    card: Card, choice: AnswerChoice, text: str, remarks: tuple[Remark, ...]
) -> CardAnswer:
    """Return the answer to exactly the card that was shown."""
    return CardAnswer(
        card_id=card.card_id,
        subject=card.subject,
        action=choice.answer,
        text=text,
        remarks=remarks if choice.takes_remarks else (),
    )


def consult_question(card: Card, words: Catalogue) -> str:
    """Return the question about the work as a sentence; empty for a card about a plan."""
    if card.situation is not None:
        return words(f"consult.question.{card.situation.pattern}")
    return words(f"consult.question.{card.kind}") if card.kind in CONSULTS else ""


def option_words(card: Card, option: CardOption, words: Catalogue) -> str:
    """Return the label of an option: the app's words, or the model's or server's for an answer that
    it offers.
    """
    label = option.label if card.kind in (CardKind.QUESTION, CardKind.SERVER) else ""
    return visible_line(label) or words(f"card.{card.kind}.{option.action}")


def option_effects(card: Card, words: Catalogue) -> dict[str, str]:
    """Return the effect of each option in words, by its key: on work, requirements, plan, limit and
    stamina; empty for cards whose options explain themselves.
    """
    if card.kind is CardKind.QUESTION or card.kind not in CONSULTS:
        return {}
    return {option.key: _effect_words(card, option.action, words) for option in card.options}


def _effect_words(card: Card, action: str, words: Catalogue) -> str:
    """Return the consequences of an option in words."""
    found = find_consequence(card, action)
    parts = [f"does.{action}", f"ledger.{found.ledger}"]
    parts.append(f"plan.{found.plan}" if found.plan else f"next.{found.next}")
    if card.kind is not CardKind.BUDGET and found.next in ("goes_on", "new_round"):
        same = "more" if found.loops else "same"
        parts.append(f"pace.{same if found.next == 'goes_on' else found.next}")
    entries = [f"consult.{part}" for part in parts]
    told = [words(entry, loops=found.loops) for entry in entries if words.has(entry)]
    return " · ".join(told)


def hint_of(card: Card) -> str:
    """Return the entry that names the keys besides the options: for questions about the work also
    those that lead to a message, where a row has one.
    """
    if card.kind not in CONSULTS:
        return "gate.hint_focused"
    leads = card.situation is not None and any(tried.ref for tried in card.situation.tried)
    return "card.hint_walk" if leads else "card.hint_later"


# --- the kinds ------------------------------------------------------------------------------------


def _situation_rows(situation: Situation, words: Catalogue) -> Iterator[QuestionRow]:
    """Yield rows about stuck work: cause, attempts, achievements, likely reason."""
    cause = reason_words("consult.cause", situation.cause, words)
    means = words(f"consult.means.{situation.pattern}")
    joint = words("gate.joint")
    yield QuestionRow("", f"{cause}{joint}{means}", wide=True)
    label = words("consult.label.tried")
    if situation.tried_before:
        before = words("consult.before", count=situation.tried_before)
        yield QuestionRow(label, before, tone="quiet")
        label = ""
    for tried in situation.tried:
        yield _tried_row(label, tried, words)
        label = ""
    yield from _achieved_rows(situation, words)
    if situation.hypothesis is not None:
        guess = reason_words("consult.hypothesis", situation.hypothesis, words)
        yield QuestionRow(words("consult.label.likely"), guess)
    if situation.hypothesis_said.strip():
        said = shown_line(situation.hypothesis_said.strip())
        yield QuestionRow(words("consult.label.its_view"), said, says=True)


def _achieved_rows(situation: Situation, words: Catalogue) -> Iterator[QuestionRow]:
    """Yield rows about the achievements so far; one that says there are none."""
    rows = [QuestionRow("", shown_line(achieved.strip())) for achieved in situation.achieved]
    if situation.achieved_more:
        more = words("consult.more", count=situation.achieved_more)
        rows.append(QuestionRow("", more, tone="quiet"))
    if situation.read:
        rows.append(QuestionRow("", words("consult.read", count=situation.read)))
    rows = rows or [QuestionRow("", words("consult.nothing"), tone="quiet")]
    yield replace(rows[0], label=words("consult.label.achieved"))
    yield from rows[1:]


def _tried_row(label: str, tried: Tried, words: Catalogue) -> QuestionRow:
    """Return the row of an attempt, with its result."""
    mark = DONE if tried.went_well else NOT_DONE
    text = words.name_operations(tried.text)
    if tried.back:
        text = f"{text} · {words('consult.back')}"
    times = f"{tried.times}× " if tried.times > 1 else ""
    tone: Tone = "added" if tried.went_well else "removed"
    return QuestionRow(label, f"{mark} {times}{shown_line(text)}", mark=tone, ref=tried.ref)


def _escalation_rows(report: SituationReport, words: Catalogue) -> Iterator[QuestionRow]:
    """Yield rows about unfinished work: request, attempts, missing requirements, findings,
    analysis.
    """
    query = shown_line(report.original_query.strip())
    yield QuestionRow(words("escalate.label.request"), query, heading="notice")
    reached = words(
        "escalate.reached",
        count=report.attempts,
        limit=report.max_attempts,
        score=f"{report.score:.2f}",
    )
    yield QuestionRow(words("escalate.label.state"), reached, heading="notice")
    for number, missing in enumerate(report.missing):
        label = words("escalate.label.missing") if number == 0 else ""
        text = f"{NOT_DONE} {shown_line(lack_words(missing.strip(), words))}"
        yield QuestionRow(label, text, heading="warning", mark="removed")
    if not report.missing:
        none = words("escalate.none_missing")
        yield QuestionRow(words("escalate.label.missing"), none, tone="quiet", heading="warning")
    for number, (name, text) in enumerate(report.collected):
        label = words("escalate.label.collected") if number == 0 else ""
        called = shown_line(words.name_operations(name))
        yield QuestionRow(label, f"{called}: {_shorten_text(text)}", heading="added")
    if not report.collected:
        none = words("consult.nothing")
        yield QuestionRow(words("escalate.label.collected"), none, tone="quiet", heading="added")
    if report.quality.strip():
        said = shown_line(report.quality.strip())
        yield QuestionRow(words("escalate.label.quality"), said, says=True, heading="ai")
    if report.analysis is not None:
        yield from _analysis_rows(report.analysis, words)


def _analysis_rows(analysis: FailureAnalysis, words: Catalogue) -> Iterator[QuestionRow]:
    """Yield rows of the model's analysis of a failure."""
    cause, fix = shown_line(analysis.cause.strip()), shown_line(analysis.fix.strip())
    yield QuestionRow(words("escalate.label.cause"), cause, says=True, heading="ai")
    if fix:
        yield QuestionRow(words("escalate.label.fix"), fix, says=True, heading="ai")
    key = "escalate.retryable" if analysis.retryable else "escalate.not_retryable"
    yield QuestionRow(words("escalate.label.again"), words(key), says=True, heading="ai")


def _budget_rows(facts: dict[str, str], words: Catalogue) -> Iterator[QuestionRow]:
    """Yield rows about a budget: limit, use, the next call, the new limit."""
    what, limit, used = facts.get("what", ""), facts.get("limit", ""), facts.get("used", "")
    yield QuestionRow(words("budget.label.limit"), _amount_words(what, limit, words))
    yield QuestionRow(words("budget.label.used"), _amount_words(what, used, words))
    coming = [_amount_words(what, facts["next"], words)] if facts.get("next") else []
    purpose = f"transcript.purpose.{facts.get('purpose', '')}"
    if words.has(purpose):
        coming.append(words(purpose))
    if coming:
        yield QuestionRow(words("budget.label.next"), " · ".join(coming))
    if facts.get("raise_to"):
        yield QuestionRow(
            words("budget.label.raise_to"), _amount_words(what, facts["raise_to"], words)
        )


def _amount_words(what: str, figure: str, words: Catalogue) -> str:
    """Return a figure as money or as a count."""
    try:
        value = float(figure)
    except ValueError:
        return visible_line(figure)
    if what == "cost":
        return cost_text(value)
    key = f"budget.count.{what}"
    count = f"{value:,.0f}"
    return words(key, count=count) if words.has(key) else count


def _limit_words(facts: dict[str, str], words: Catalogue) -> str:
    """Return the name of the limit that was reached."""
    key = f"budget.what.{facts.get('what', '')}"
    return words(key) if words.has(key) else visible_line(facts.get("what", ""))


def _shorten_text(text: str) -> str:
    """Return the first 100 characters, with a mark where the text was cut."""
    text = text.strip()
    shown = shown_line(text[:COLLECTED])
    return f"{shown}{ELLIPSIS}" if len(text) > COLLECTED else shown


#: Signs of changed steps; each says the same as its colour.
SIGNS: Final = {"add": "+", "drop": "−", "change": "~", "move": "↕", "same": " "}
_TONES: Final[dict[str, Tone]] = {
    "add": "added", "drop": "removed", "change": "notice", "move": "notice", "same": "quiet",
}  # fmt: skip

_LINE_TONES: Final[dict[DiffMark, Tone]] = {"+": "added", "-": "removed", " ": "quiet"}

_RUN: Final = 3  # unchanged steps in a row from which on they are counted instead


def card_rows(
    card: Card, plan: Plan | None, words: Catalogue, *, whole: bool = False
) -> list[QuestionRow]:
    """Return the rows of a card with everything that the user should know before answering;
    ``whole``: new files line by line.
    """
    match card.kind:
        case CardKind.TRUST:
            return list(_file_rows(card, words, whole=whole))
        case CardKind.PLAN:
            return list(_plan_rows(card, plan, words)) if plan else []
        case CardKind.PLAN_CHANGE:
            return list(_change_rows(card, plan, words))
        case CardKind.PLAN_END:
            return [QuestionRow("", words(f"card.plan_end.does_{card.subject}"), wide=True)]
        case CardKind.REPORT:
            return list(_report_rows(card, words))
        case CardKind.BREAKPOINT:
            return list(_breakpoint_rows(card, plan, words))
        case CardKind.CONSULTATION:
            return list(_situation_rows(card.situation, words)) if card.situation else []
        case CardKind.ESCALATION:
            return list(_escalation_rows(card.escalation, words)) if card.escalation else []
        case CardKind.BUDGET:
            return list(_budget_rows(card.facts, words))
        case CardKind.QUESTION:
            lines = card.question.strip().split("\n")
            return [QuestionRow("", shown_line(line), wide=True) for line in lines]
        case CardKind.SERVER:
            return list(_server_rows(card, words))


def _server_rows(card: Card, words: Catalogue) -> Iterator[QuestionRow]:
    """Yield the rows of an MCP server's question: its words with the page's site and address, or
    with the field, its limits and where the answer goes; for a sign-in, or before a site is
    contacted for one, those of the sign-in.
    """
    facts = card.facts
    if "signs_in" in facts:
        says = words("card.signs_in", server=facts["server"])
        yield QuestionRow("", shown_line(says), wide=True)
    if "contacts" in facts:
        says = words("card.contacts", server=facts["server"], site=facts["contacts"])
        yield QuestionRow("", shown_line(says), wide=True)
        return
    lines = card.question.strip().split("\n") if card.question.strip() else []
    for number, line in enumerate(lines):
        label = words("card.asks") if number == 0 else ""
        yield QuestionRow(label, shown_line(line))
    if "url" in facts:
        yield QuestionRow(words("card.host"), shown_line(facts["host"]))
        yield QuestionRow(words("card.url"), shown_line(facts["url"]))
        return
    if "field" in facts:
        place = f" ({facts['place']})" if "place" in facts else ""
        yield QuestionRow(words("card.field"), f"{shown_line(facts['field'])}{place}")
    if "about" in facts:
        yield QuestionRow("", shown_line(facts["about"]))
    if "wants" in facts:
        limits = [words(f"card.{k}", value=facts[k]) for k in ("least", "most") if k in facts]
        kind = f"card.wants.{facts['wants']}"
        kinds = [words(kind) if words.has(kind) else shown_line(facts["wants"])]
        yield QuestionRow(words("card.wants_label"), words("gate.list").join([*kinds, *limits]))
    for name in ("choices", "default"):
        if name in facts:
            yield QuestionRow(words(f"card.{name}"), shown_line(facts[name]))
    if "wrong" in facts:
        wrong = words("card.wrong", text=shown_line(facts["wrong"]))
        yield QuestionRow("", wrong, tone="warning")
    yield QuestionRow("", words("card.goes_to", server=facts["server"]), tone="quiet", wide=True)


def with_remarks(rows: Sequence[QuestionRow], remarks: Mapping[str, str]) -> list[QuestionRow]:
    """Return a plan's rows with the user's remarks inserted below each step's rows."""
    found: list[QuestionRow] = []
    said = ""
    for row in rows:
        if row.ref and said:
            found.append(_remark_row(said))
        said = remarks.get(row.ref, "") if row.ref else said
        found.append(row)
    return [*found, _remark_row(said)] if said else found


def _remark_row(said: str) -> QuestionRow:
    """Return the row of a user's remark."""
    return QuestionRow("", f"{USER_MARK} {visible_line(said)}", tone="notice")


def card_subject(card: Card, plan: Plan | None, words: Catalogue) -> str:
    """Return the subject of the card: the name of plan, step or server, the limit, or the loop,
    such as ``loop 6``, the only figure of a consultation (S0-38).
    """
    if card.situation is not None:
        return words("consult.loop", loop=card.situation.loop)
    if card.kind in CONSULTS:
        return _limit_words(card.facts, words) if card.kind is CardKind.BUDGET else ""
    if card.kind is CardKind.SERVER:
        return visible_line(card.facts["server"])
    if card.report is not None:
        return visible_line(card.report.step_name)
    if plan is None:
        return ""
    step = plan.get_step(card.step_id) if card.kind is CardKind.BREAKPOINT else None
    return visible_line(step.name if step else plan.name)


def card_heading(card: Card, plan: Plan | None, words: Catalogue) -> str:
    """Return the heading of the card, such as ``Plan``, ``Step 2 done``, ``Before step 3``, ``Going
    in circles``.
    """
    if card.situation is not None:
        return words(f"consult.heading.{card.situation.pattern}")
    if card.escalation is not None:
        return words(f"escalate.heading.{card.escalation.ended_by}")
    number = step_number(plan, card.step_id)
    if card.report is not None:
        return words(f"card.title.report.{card.report.status}", number=number)
    return words(f"card.title.{card.kind}", number=number)


def step_number(plan: Plan | None, step_id: str) -> str:
    """Return the step's place in the plan, counted from 1; a question mark where it is not
    in it.
    """
    steps = plan.steps if plan else ()
    return next((str(n) for n, step in enumerate(steps, 1) if step.step_id == step_id), "?")


def needed_by(card: Card, option: CardOption, plan: Plan | None, words: Catalogue) -> str:
    """Return `` (needed by 3, 4)``, the steps that depend on the one that this option skips; empty
    for none or another option.
    """
    step = (
        plan.get_step(card.step_id) if plan is not None and option.action == SKIP.action else None
    )
    if plan is None or step is None:
        return ""
    numbers = dependent_steps(plan, step)
    return words("plan.needed_by", numbers=", ".join(map(str, numbers))) if numbers else ""


def counts_words(report: StepReport, words: Catalogue) -> str:
    """Return the figures of a step's report, as ``4 operations, 1 failed · 4 calls · 0:41``."""
    asked = report.succeeded + report.failed + report.refused + report.skipped
    parts = [words("work.kind.operation", count=asked)]
    if report.failed:
        parts.append(words("card.failed", count=report.failed))
    if report.refused:
        parts.append(words("card.refused", count=report.refused))
    if report.skipped:
        parts.append(words("card.skipped", count=report.skipped))
    said = [words("gate.list").join(parts)]
    if report.llm_calls:
        said.append(words("turn_line.calls", count=report.llm_calls))
    said.append(clock_text(report.duration_s))
    if report.waited_s >= 1:
        said.append(words("turn_line.waited", time=clock_text(report.waited_s)))
    return " · ".join(said)


def difference_words(lines: tuple[StepDifference, ...], words: Catalogue) -> str:
    """Return the sum of a plan's changes, as ``1 added, 2 changed``; empty for none."""
    found = {kind: sum(line.kind == kind for line in lines) for kind in SIGNS}
    parts = [words(f"card.diff.{k}", count=n) for k, n in found.items() if n and k != "same"]
    return words("gate.list").join(parts)


# --- the kinds ------------------------------------------------------------------------------------


def _plan_rows(card: Card, plan: Plan, words: Catalogue) -> Iterator[QuestionRow]:
    """Yield rows of a proposed plan: goal, risk, criteria, steps; of a renewed one the
    differences.
    """
    yield QuestionRow(words("card.goal"), shown_line(plan.goal.strip()), says=True)
    if plan.risk:
        risk = words(f"plan.risk.{plan.risk}")
        tones: dict[str, Tone] = {"low": "text", "medium": "notice", "high": "warning"}
        yield QuestionRow(words("card.risk"), risk, says=True, tone=tones[plan.risk])
    for number, criterion in enumerate(plan.success_criteria):
        label = words("card.criteria") if number == 0 else ""
        yield QuestionRow(label, shown_line(criterion.strip()), says=True)
    if card.before is not None:
        lines = compare_plans(card.before, plan)
        if said := difference_words(lines, words):
            said = words("card.since_shown", what=said)
            yield QuestionRow(words("card.changes"), said, tone="notice")
        yield from _difference_rows(lines, plan, card.before, words, every=True)
        return
    for number, step in enumerate(plan.steps, 1):
        label = words("card.steps") if number == 1 else ""
        yield QuestionRow(label, _step_words(number, step, plan, words), ref=step.step_id)
        if step.description.strip():
            yield QuestionRow("", shown_line(step.description.strip()), tone="quiet")


def _change_rows(card: Card, plan: Plan | None, words: Catalogue) -> Iterator[QuestionRow]:
    """Yield rows of a proposed change of a plan: reason, steps and requirements."""
    change = card.change
    if change is None or plan is None:
        return
    reason = shown_line(change.reason.strip())
    if reason:
        yield QuestionRow(words("card.reason"), reason, says=True)
    lines = compare_plans(plan, change.result)
    said = difference_words(lines, words) or words("card.no_difference")
    yield QuestionRow(words("card.changes"), said)
    yield from _difference_rows(lines, change.result, plan, words, every=False)
    label = words("card.requirements")
    for kind, texts in (
        ("add", [claim.requirement for claim in change.requirements or ()]),
        ("drop", [*change.waives.values()]),
    ):
        for text in texts:
            yield QuestionRow(label, f"{SIGNS[kind]} {shown_line(text)}", tone=_TONES[kind])
            label = ""


def _report_rows(card: Card, words: Catalogue) -> Iterator[QuestionRow]:
    """Yield rows of a step's report: figures, files, summary, cause, next action."""
    report = card.report
    if report is None:
        return
    yield QuestionRow(words("card.result"), counts_words(report, words))
    if report.files_changed:
        files = ", ".join(visible_line(path) for path in report.files_changed)
        yield QuestionRow(words("card.made"), files)
    if report.summary.strip():
        yield QuestionRow(words("card.summary"), _first_line(report.summary), says=True)
    if report.told is not None:
        yield QuestionRow(words("card.cause"), words.localize(report.told))
    elif report.cause.strip():
        yield QuestionRow(words("card.cause"), _first_line(report.cause), says=True)
    if report.next_action.strip():
        text = shown_line(" ".join(_prose_lines(report.next_action)) or report.next_action.strip())
        offered = next((o for o in card.options if o.action == SUGGESTED.action), None)
        keys = ((0, 1),) if offered else ()
        text = f"{offered.key} {text}" if offered else text
        yield QuestionRow(words("card.next"), text, says=True, keys=keys)


def _first_line(text: str) -> SafeText:
    """Return the first line of prose in a model's Markdown; the text itself where it has none."""
    lines = _prose_lines(text)
    if not lines:
        return shown_line(text.strip())
    return SafeText(f"{shown_line(lines[0])}{ELLIPSIS if len(lines) > 1 else ''}")


def _prose_lines(text: str) -> list[str]:
    """Return the lines of Markdown as plain text, without tables, rules and fences."""
    found: list[str] = []
    for line in split_bare_lines(text):
        if not _NO_PROSE.match(line):
            line = _LINK.sub(r"\1", _EMPHASIS.sub(r"\2", _BEGINS.sub("", line)))
            found.append(line.replace("`", "").strip())
    return [line for line in found if line]


def _file_rows(card: Card, words: Catalogue, *, whole: bool) -> Iterator[QuestionRow]:
    """Yield rows about the folder's files that need trust; of a file trusted before, its
    changes.
    """
    yield QuestionRow("", words("card.trust.means"), wide=True)
    for file in card.files:
        changed = words(
            "card.trust.changed", size=file.note, added=file.added, removed=file.removed
        )
        is_new = file.kind == "create"
        yield QuestionRow(visible_line(file.path), visible_line(file.note) if is_new else changed)
        if is_new and not whole:
            continue
        for number, hunk in enumerate(join_hunks(file.hunks)):
            if number:
                yield QuestionRow("", ELLIPSIS, tone="quiet")
            for line in hunk.lines:
                tone: Tone = _LINE_TONES[line.mark]
                said = f"{line.mark} {shown_line(line.text)}"
                yield QuestionRow("", said, tone=tone, wide=True)


def _breakpoint_rows(card: Card, plan: Plan | None, words: Catalogue) -> Iterator[QuestionRow]:
    """Yield rows about the step before which the plan halts."""
    step = plan.get_step(card.step_id) if plan else None
    if plan is None or step is None:
        return
    number = step_number(plan, step.step_id)
    yield QuestionRow(words("card.step"), f"{number} {visible_line(step.name)}")
    if step.description.strip():
        yield QuestionRow("", shown_line(step.description.strip()), tone="quiet")
    why = "card.halted" if plan.halted else "card.you_asked"
    yield QuestionRow("", words(why), tone="quiet")


def _difference_rows(
    lines: tuple[StepDifference, ...], new: Plan, old: Plan, words: Catalogue, *, every: bool
) -> Iterator[QuestionRow]:
    """Yield a row for each step with its change; without ``every``, three or more unchanged ones in
    a row are counted.
    """
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
            yield QuestionRow(label, "  " + words("card.unchanged", count=same - at), tone="quiet")
            at = same
            continue
        plan = old if line.kind == "drop" else new
        text = f"{SIGNS[line.kind]} {_step_words(line.number, line.step, plan, words)}"
        yield QuestionRow(label, text, tone=_TONES[line.kind], ref=line.step.step_id)
        yield from _rows_below(line, old, new, words)
        at += 1


def _rows_below(
    line: StepDifference, old: Plan, new: Plan, words: Catalogue
) -> Iterator[QuestionRow]:
    """Yield rows below a changed step: how it was before, where that differs; below a new one its
    description.
    """
    before, step = line.before, line.step
    says = shown_line(step.description.strip())
    if before is None:
        if says and line.kind == "add":
            yield QuestionRow("", f"  {says}", tone="quiet")
        return
    number = int(step_number(old, before.step_id))
    was = _step_words(number, before, old, words)
    if was != _step_words(number, step, new, words):
        yield QuestionRow("", f"  {words('card.was', step=was)}", tone="quiet")
    said = shown_line(before.description.strip())
    if said != says:
        if said:
            yield QuestionRow("", f"  − {said}", tone="removed")
        if says:
            yield QuestionRow("", f"  + {says}", tone="added")


def _step_words(number: int, step: Step, plan: Plan, words: Catalogue) -> str:
    """Return number and name of a step, with the steps it depends on."""
    text = f"{number} {visible_line(step.name)}"
    if not step.depends_on:
        return text
    needs = sorted(step_number(plan, need) for need in step.depends_on)
    return f"{text} · {words('plan.needs', numbers=', '.join(needs))}"
