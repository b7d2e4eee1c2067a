"""What a consultation, an escalation and a budget card say, as rows of text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.base import ELLIPSIS, one_line
from duckflow_tui.state.gates import Card, CardKind
from duckflow_tui.state.goal import FailureAnalysis, SituationReport
from duckflow_tui.state.pace import Reason, Situation, Tried
from duckflow_tui.ui.panes.diff_rows import shown_line
from duckflow_tui.ui.panes.gate_rows import GateRow, Tone
from duckflow_tui.words.catalogue import Catalogue

DONE: Final = "✓"
NOT_DONE: Final = "✗"
COLLECTED: Final = 100  # characters of what was found (S1-32)
_PARAM: Final = 60  # characters of what a cause names

#: Cards that ask what should become of the work, rather than of a plan.
CONSULTS: Final = frozenset({CardKind.CONSULTATION, CardKind.ESCALATION, CardKind.BUDGET})


def consult_rows(card: Card, words: Catalogue) -> list[GateRow]:
    """Everything that the user should know before answering; none for a card about a plan."""
    if card.situation is not None:
        return list(_situation(card.situation, words))
    if card.escalation is not None:
        return list(_escalation(card.escalation, words))
    return list(_budget(card.facts, words)) if card.kind is CardKind.BUDGET else []


def consult_heading(card: Card, words: Catalogue) -> str:
    """``Going in circles``, ``Attempts used up``, ``Limit reached``."""
    if card.situation is not None:
        return words(f"consult.heading.{card.situation.pattern}")
    return words(f"card.title.{card.kind}")


def consult_subject(card: Card, words: Catalogue) -> str:
    """``loop 6``: where the work stands, the only figure of a consultation (S0-38)."""
    if card.situation is not None:
        return words("consult.loop", loop=card.situation.loop)
    if card.kind is CardKind.BUDGET:
        return _limit_words(card.facts, words)
    return ""


def consult_question(card: Card, words: Catalogue) -> str:
    """What is asked; empty for a card about a plan."""
    if card.situation is not None:
        return words(f"consult.question.{card.situation.pattern}")
    return words(f"consult.question.{card.kind}") if card.kind in CONSULTS else ""


def option_effects(card: Card, words: Catalogue) -> dict[str, str]:
    """What each option does, by its key."""
    if card.kind not in CONSULTS:
        return {}
    keys = {o.key: f"consult.does.{card.kind}.{o.action}" for o in card.options}
    if card.kind is CardKind.CONSULTATION and card.step_id:
        own = {o.key: f"consult.does.step.{o.action}" for o in card.options}
        keys |= {key: entry for key, entry in own.items() if words.has(entry)}
    return {key: words(entry) for key, entry in keys.items() if words.has(entry)}


def hint_of(card: Card, chosen: str) -> str:
    """The entry that tells the keys beside the options; ``chosen`` is the place at the cursor."""
    if card.kind not in CONSULTS:
        return "gate.hint_focused"
    if chosen:
        return "card.hint_go_to"
    leads = card.situation is not None and any(tried.ref for tried in card.situation.tried)
    return "card.hint_walk" if leads else "card.hint_later"


def told_on(card: Card) -> list[str]:
    """The words on such a card that are not the app's own."""
    told: list[str] = []
    if card.situation is not None:
        told += [tried.text for tried in card.situation.tried]
        told += [*card.situation.achieved, card.situation.hypothesis_said]
    if card.escalation is not None:
        report = card.escalation
        told += [report.original_query, *report.missing, report.quality]
        told += [f"{name}: {text}" for name, text in report.collected]
        if report.analysis is not None:
            told += [report.analysis.cause, report.analysis.fix]
    return [text for text in told if text]


def reason_words(prefix: str, reason: Reason, words: Catalogue, **more: str) -> str:
    """A cause or a hypothesis in words; the code itself where the catalogue has none."""
    key = f"{prefix}.{reason.code}"
    if not words.has(key):
        return visible_line(reason.code)
    params = {name: one_line(value, _PARAM) for name, value in reason.params.items()}
    verb = f"transcript.operation.{params.get('operation', '')}"
    if words.has(verb):
        params["operation"] = words(verb)
    if "signs" in params:
        keys = [f"consult.sign.{sign}" for sign in params["signs"].split()]
        signs = [words(key) for key in keys if words.has(key)]
        params["signs"] = words("consult.sign.join").join(signs)
    return words(key, **(more | params))


# --- the kinds ------------------------------------------------------------------------------------


def _situation(situation: Situation, words: Catalogue) -> Iterator[GateRow]:
    loop = str(situation.loop)
    cause = reason_words("consult.cause", situation.cause, words, loop=loop)
    means = words(f"consult.means.{situation.pattern}")
    joint = words("consult.joint")
    yield GateRow("", f"{cause}{joint}{means}", wide=True)
    label = words("consult.label.tried")
    if situation.tried_before:
        before = words("consult.before", count=situation.tried_before)
        yield GateRow(label, before, tone="quiet")
        label = ""
    for tried in situation.tried:
        yield _tried(label, tried, words)
        label = ""
    yield from _achieved(situation, words)
    if situation.hypothesis is not None:
        guess = reason_words("consult.hypothesis", situation.hypothesis, words, loop=loop)
        yield GateRow(words("consult.label.likely"), guess)
    if situation.hypothesis_said.strip():
        said = shown_line(situation.hypothesis_said.strip())
        yield GateRow(words("consult.label.its_view"), said, says=True)


def _achieved(situation: Situation, words: Catalogue) -> Iterator[GateRow]:
    rows = [GateRow("", shown_line(achieved.strip())) for achieved in situation.achieved]
    if situation.achieved_more:
        more = words("consult.more", count=situation.achieved_more)
        rows.append(GateRow("", more, tone="quiet"))
    if situation.read:
        rows.append(GateRow("", words("consult.read", count=situation.read)))
    rows = rows or [GateRow("", words("consult.nothing"), tone="quiet")]
    yield replace(rows[0], label=words("consult.label.achieved"))
    yield from rows[1:]


def _tried(label: str, tried: Tried, words: Catalogue) -> GateRow:
    mark = DONE if tried.went_well else NOT_DONE
    text = _with_verb(tried.text, words)
    if tried.back:
        text = f"{text} · {words('consult.back')}"
    times = f"{tried.times}× " if tried.times > 1 else ""
    tone: Tone = "added" if tried.went_well else "removed"
    return GateRow(label, f"{mark} {times}{shown_line(text)}", mark=tone, ref=tried.ref)


def _with_verb(text: str, words: Catalogue) -> str:
    """A call whose operation is named first, with the words of the chat for it."""
    name, space, rest = text.strip().partition(" ")
    verb = f"transcript.operation.{name}"
    return f"{words(verb) if words.has(verb) else name}{space}{rest}"


def _escalation(report: SituationReport, words: Catalogue) -> Iterator[GateRow]:
    query = shown_line(report.original_query.strip())
    yield GateRow(words("escalate.label.request"), query, heading="notice")
    reached = words(
        "escalate.reached",
        count=report.attempts,
        limit=report.max_attempts,
        score=f"{report.score:.2f}",
    )
    yield GateRow(words("escalate.label.state"), reached, heading="notice")
    for number, missing in enumerate(report.missing):
        label = words("escalate.label.missing") if number == 0 else ""
        text = f"{NOT_DONE} {shown_line(missing.strip())}"
        yield GateRow(label, text, heading="warning", mark="removed")
    if not report.missing:
        none = words("escalate.none_missing")
        yield GateRow(words("escalate.label.missing"), none, tone="quiet", heading="warning")
    for number, (name, text) in enumerate(report.collected):
        label = words("escalate.label.collected") if number == 0 else ""
        called = shown_line(_with_verb(name, words))
        yield GateRow(label, f"{called}: {_first(text)}", heading="added")
    if not report.collected:
        none = words("consult.nothing")
        yield GateRow(words("escalate.label.collected"), none, tone="quiet", heading="added")
    if report.quality.strip():
        said = shown_line(report.quality.strip())
        yield GateRow(words("escalate.label.quality"), said, says=True, heading="ai")
    if report.analysis is not None:
        yield from _analysis(report.analysis, words)


def _analysis(analysis: FailureAnalysis, words: Catalogue) -> Iterator[GateRow]:
    cause, fix = shown_line(analysis.cause.strip()), shown_line(analysis.fix.strip())
    yield GateRow(words("escalate.label.cause"), cause, says=True, heading="ai")
    if fix:
        yield GateRow(words("escalate.label.fix"), fix, says=True, heading="ai")
    key = "escalate.retryable" if analysis.retryable else "escalate.not_retryable"
    yield GateRow(words("escalate.label.again"), words(key), says=True, heading="ai")


def _budget(facts: dict[str, str], words: Catalogue) -> Iterator[GateRow]:
    what, limit, used = facts.get("what", ""), facts.get("limit", ""), facts.get("used", "")
    yield GateRow(words("budget.label.limit"), _amount(what, limit, words))
    yield GateRow(words("budget.label.used"), _amount(what, used, words))
    coming = [_amount(what, facts["next"], words)] if facts.get("next") else []
    purpose = f"transcript.purpose.{facts.get('purpose', '')}"
    if words.has(purpose):
        coming.append(words(purpose))
    if coming:
        yield GateRow(words("budget.label.next"), " · ".join(coming))
    if facts.get("raise_to"):
        yield GateRow(words("budget.label.raise_to"), _amount(what, facts["raise_to"], words))


def _amount(what: str, figure: str, words: Catalogue) -> str:
    """A figure of the app as money or as a count."""
    try:
        value = float(figure)
    except ValueError:
        return visible_line(figure)
    if what == "cost":
        return f"${value:.2f}" if value >= 0.01 or not value else f"${value:.4f}"
    key = f"budget.count.{what}"
    count = f"{value:,.0f}"
    return words(key, count=count) if words.has(key) else count


def _limit_words(facts: dict[str, str], words: Catalogue) -> str:
    key = f"budget.what.{facts.get('what', '')}"
    return words(key) if words.has(key) else visible_line(facts.get("what", ""))


def _first(text: str) -> str:
    """The first 100 characters, a cut marked."""
    text = text.strip()
    shown = shown_line(text[:COLLECTED])
    return f"{shown}{ELLIPSIS}" if len(text) > COLLECTED else shown
