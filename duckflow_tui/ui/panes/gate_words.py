"""Converts a gate to a question: its rows, title and keys, and the answer to it.

The model's words are marked as such; facts come from the app.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from duckflow_tui.safety.hosts import ON_NETWORK
from duckflow_tui.safety.policy import grant_for
from duckflow_tui.safety.safe_text import SafeText, visible_line
from duckflow_tui.session.decisions import granted_words, rule_words
from duckflow_tui.state.base import to_datetime
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import IN_SANDBOX, WIDENS, Gate, GateAnswer, GateChoice, before_hashes
from duckflow_tui.state.operations import Effect, Risk, Zone
from duckflow_tui.state.session import HOLDS
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.panes.diff_document import BLANK_RUN, DiffDocument, shown_line, shown_path
from duckflow_tui.ui.panes.diff_paint import figures_text
from duckflow_tui.ui.panes.question import REFUSES, AnswerChoice, QuestionSpec, TextEntry, Title
from duckflow_tui.ui.panes.request import QuestionRow, Tone
from duckflow_tui.words.catalogue import Catalogue

_GAP: Final = "   "
AI_MARK: Final = "◆"  # before the model's words, as in the chat

#: Arguments whose whole effect is the difference that the previews show.
_RESULTS: Final = frozenset({"content", "edits"})


def sentence_rows(gate: Gate, words: Catalogue, document: DiffDocument) -> list[QuestionRow]:
    """Return the rows of a gate without its details: intent and reason as a sentence, anything
    unusual, and the alternatives (S4-61). The model's own words begin with its sign.
    """
    apart = any(other.intent != gate.intent for other in gate.also)
    stated = bool(gate.intent.strip() or gate.why.strip())  # else the sentence is of the app
    says = stated and not gate.checks and not apart
    text = f"{AI_MARK} {_intent_sentence(gate, words)}" if says else _intent_sentence(gate, words)
    if apart:  # the reason of one file is not that of all
        text = words("gate.each_its_reason", count=len(gate.previews))
    mark: Tone | None = "ai" if says else None
    rows = [QuestionRow("", SafeText(text), says=says, mark=mark, wide=True)]
    rows.extend(_deviation_rows(gate, words, document))
    if gate.alternatives:
        rows.append(_join_alternatives(gate))
    return rows


def _intent_sentence(gate: Gate, words: Catalogue) -> SafeText:
    """Return intent and reason as sentences, and say which of them is missing."""
    if gate.checks:
        wanted = shown_line(gate.checks.strip())
        intent, why = words("gate.checks.intent", requirement=wanted), words("gate.checks.why")
    else:
        intent, why = (shown_line(text.strip()) for text in (gate.intent, gate.why))
    if not intent and not why:
        return words("gate.nothing_given")
    if not why or why == intent:
        said = words("gate.no_why") if not why else ""
        return SafeText(f"{_end_sentence(intent)} {said}".rstrip())
    if not intent:
        return SafeText(_end_sentence(why))
    joined = words("gate.sentence", intent=intent.rstrip(" .。:："), why=why)
    return SafeText(_end_sentence(joined))


def _end_sentence(text: str) -> str:
    """Return the text with a full stop, unless it ends with punctuation."""
    if text.endswith((".", "!", "?", "。", "！", "？", "…", ")", "）")):
        return text
    return f"{text}." if text[-1:].isascii() else f"{text}。"


def _deviation_rows(gate: Gate, words: Catalogue, document: DiffDocument) -> Iterator[QuestionRow]:
    """Yield rows about anything unusual, as warnings and notes, then a quiet one about what is as
    usual.
    """
    impact, bad, notes = gate.impact, list[str](), [*_notice_words(gate, words)]
    if impact.zone not in (Zone.INSIDE, Zone.NOWHERE):
        bad.append(words(f"gate.zone.{impact.zone}"))
    held = gate.facts.get("sandbox", "")
    if not impact.reversible:
        bad.append(_undo_words(gate, words))
    if held in BARE:
        bad.append(words(f"gate.held.{held}"))
        if impact.reversible:
            bad.append(_undo_words(gate, words))
    for name, said in (("hosts_open", bad), ("hosts", notes)):
        if name in gate.facts:
            said.append(words(f"gate.{name}", hosts=visible_line(gate.facts[name])))
    high = impact.risk.rank >= Risk.HIGH.rank
    medium = impact.risk is Risk.MEDIUM and held not in HOLDS  # what is held is not risky by itself
    if high or medium or impact.reasons:
        (bad if high else notes).append(risk_words(gate, words))
    if document.left_out:
        count, total = len(document.left_out), len(document.hunks)
        notes.append(words("gate.left_out", count=count, total=total))
    for parts in (bad, notes):
        if parts:
            text = SafeText(_capitalize_first(" · ".join(parts)))
            yield QuestionRow("", text, tone="warning" if parts is bad else "notice", wide=True)
    for text in _real_places(gate, words):
        yield QuestionRow("", text, tone="warning", wide=True)
    usual: list[str] = []
    if held and held not in BARE:
        usual.append(_sandbox_words(held, words))
    elif impact.zone is Zone.INSIDE and not bad:
        usual.append(words("gate.zone.inside"))
    if impact.reversible and held not in BARE and (held or not bad):
        usual.append(_undo_words(gate, words))
    if gate.also:
        usual.append(words("gate.leaves_files"))
    if usual:
        text = _capitalize_first((" · " if held else words("gate.list")).join(usual))
        yield QuestionRow("", SafeText(text), tone="quiet", wide=True)


def _capitalize_first(text: str) -> str:
    """Return the text with its first character in upper case."""
    return f"{text[:1].upper()}{text[1:]}"


def _sandbox_words(held: str, words: Catalogue) -> str:
    """Return the rights of a command in the sandbox level ``held``; of an unknown level
    its name.
    """
    said = f"gate.held.{held}"
    return words(said) if words.has(said) else f"{words('gate.fact.sandbox')} {visible_line(held)}"


def _undo_words(gate: Gate, words: Catalogue) -> str:
    """Return whether undo covers the call; of a command only its changes of files in the
    workspace.
    """
    if not gate.impact.reversible:
        return words("gate.irreversible")
    if gate.effect is not Effect.EXECUTE:
        return words("gate.reversible")
    said = words("gate.files_reversible")
    if "uncovered" in gate.facts:
        said = words("gate.files_uncovered", paths=visible_line(gate.facts["uncovered"]))
    if "until_quit" in gate.facts:
        paths = visible_line(gate.facts["until_quit"])
        said = words("gate.files_until_quit", undo=said, paths=paths)
    return said


def _join_alternatives(gate: Gate) -> QuestionRow:
    """Return one row with all alternatives, each after its key."""
    items = [f"{n} {shown_line(text)}" for n, text in enumerate(gate.alternatives, 1)]
    starts = [len(_GAP.join([*items[:n], ""])) for n in range(len(items))]
    keys = tuple((at, at + 1) for at in starts)
    return QuestionRow("", SafeText(_GAP.join(items)), says=True, keys=keys, wide=True)


def point_rows(gate: Gate, words: Catalogue, document: DiffDocument) -> list[QuestionRow]:
    """Return rows with every fact of a gate, each labelled (S4-61, S4-65)."""
    rows = [QuestionRow("", text, tone="notice") for text in _notice_words(gate, words)]
    named = gate.previews[:1] if gate.also else gate.previews
    paths = ", ".join(shown_path(preview) for preview in named) or subject_words(gate, words)
    rows.append(QuestionRow(words("gate.file" if gate.previews else "gate.what"), paths))
    if gate.checks:
        wanted = shown_line(gate.checks.strip())
        rows.append(
            QuestionRow(words("gate.intent"), words("gate.checks.intent", requirement=wanted))
        )
        rows.append(QuestionRow(words("gate.why"), words("gate.checks.why")))
    else:
        rows.append(_model_row(words("gate.intent"), gate.intent, words))
        if not gate.why or gate.why.strip() != gate.intent.strip():
            rows.append(_model_row(words("gate.why"), gate.why, words))
        for preview, other in zip(gate.previews[1:], gate.also, strict=False):
            rows.append(QuestionRow(words("gate.file"), shown_path(preview)))
            rows.append(_model_row(words("gate.intent"), other.intent, words))
    rows.append(QuestionRow(words("gate.impact"), impact_words(gate, words, document)))
    rows.extend(QuestionRow("", text, tone="warning") for text in _real_places(gate, words))
    high = gate.impact.risk.rank >= Risk.HIGH.rank
    rows.append(QuestionRow("", risk_words(gate, words), tone="warning" if high else "text"))
    rows.extend(_list_alternatives(gate, words))
    return rows


def argument_rows(gate: Gate, words: Catalogue, *, brief: bool = False) -> list[QuestionRow]:
    """Return rows with the call's arguments, as they will be used, that neither a preview nor the
    subject shows (R14); ``brief``: without facts that belong to the details.
    """
    facts = list(_fact_rows(gate, words, brief=brief))
    lines: list[tuple[str, bool]] = []
    shown = subject_words(gate, words)
    called = visible_line(words.name_operations(gate.operation))
    if not (gate.previews or gate.facts.get("runs")) and called not in (
        shown,
        verb_words(gate, words),
    ):
        lines.append((called, False))
    for name, value in gate.args.items():
        said = name in ("command", "path") and isinstance(value, str) and value == shown
        said = said or (brief and name == "hosts" and gate.effect is Effect.EXECUTE)
        if not said and not _on_the_diff(gate, name, value):
            lines.extend(_argument_lines(name, value, words))
    return facts + [
        QuestionRow(
            words("gate.args") if number == 0 else "", text, tone="quiet" if note else "text"
        )
        for number, (text, note) in enumerate(lines)
    ]


#: Facts that are shown only among the details.
_DETAILS: Final = frozenset(
    {"sandbox", "rule", "timeout", "hosts", "hosts_open", "uncovered", "until_quit"}
)

#: Values of the fact ``sandbox`` where nothing holds a command.
BARE: Final = frozenset({"none", "outside"})


def _fact_rows(gate: Gate, words: Catalogue, *, brief: bool) -> Iterator[QuestionRow]:
    """Yield rows with facts that the app computed: what really runs, where, and in which
    sandbox.
    """
    for name, value in gate.facts.items():
        known = name in _DETAILS or (name == "cwd" and value == ".")
        if (brief and known) or (name == "runs" and value == subject_words(gate, words)):
            continue
        key, said = f"gate.fact.{name}", f"gate.fact_value.{name}.{value}"
        label = words(key) if words.has(key) else visible_line(name)
        if name == "sandbox":
            tone: Tone = "warning" if value in BARE else "text"
            yield QuestionRow(label, _sandbox_words(value, words), tone=tone)
            if gate.can_grant_session and _is_for_all_held(gate):
                yield QuestionRow("", words("gate.in_sandbox"))
            continue
        if words.has(said):
            yield QuestionRow(label, words(said))
            continue
        if name == "hosts_open":
            yield QuestionRow(
                label, words("gate.hosts_open", hosts=visible_line(value)), tone="warning"
            )
            continue
        for number, line in enumerate(value.split("\n")):
            yield QuestionRow(label if number == 0 else "", shown_line(line))


def _is_for_all_held(gate: Gate) -> bool:
    """Whether an approval for the session covers every command in the sandbox."""
    return gate.grant_pattern.endswith(f" {IN_SANDBOX}")


def _real_places(gate: Gate, words: Catalogue) -> list[SafeText]:
    """Return warnings about links and shortened paths: where they really lead."""
    named = {preview.path for preview in gate.previews} | {
        preview.target for preview in gate.previews
    }
    named.update(gate.facts.values())  # said in a row of its own
    if not gate.previews:
        named.update(str(value) for value in gate.args.values() if isinstance(value, str))
    return [words("gate.leads_to", path=p) for p in gate.impact.places if p not in named]


def scope_rows(
    gate: Gate, choice: GateChoice, alike: Sequence[OperationMessage], words: Catalogue
) -> list[QuestionRow]:
    """Return rows that say exactly what an answer allows beyond this call, and for how long; for a
    project's rule also the calls of this session that it would have allowed (``alike``).
    """
    grant = grant_for(gate, "", choice)
    lasts = choice if choice in (GateChoice.STEP, GateChoice.PROJECT) else GateChoice.SESSION
    rows = [
        QuestionRow(words("gate.rule.pattern"), SafeText(rule_words(grant, words)), tone="notice"),
        QuestionRow(words("gate.rule.holds"), words(f"gate.rule.holds_{lasts}")),
    ]
    if choice is not GateChoice.PROJECT:
        return rows
    asks = "asks_still_run" if gate.effect is Effect.EXECUTE else "asks_still"
    asks = "asks_still_hosts" if grant.path.startswith(ON_NETWORK) else asks
    rows.append(QuestionRow(words("gate.rule.asks"), words(f"gate.rule.{asks}")))
    refused = sum(m.answer is not None and not m.answer.is_approval for m in alike)
    said = words("gate.rule.none_before")
    if alike:
        key = "gate.rule.before_refused" if refused else "gate.rule.before"
        said = words(key, count=len(alike), refused=refused)
    tone: Tone = "warning" if refused else "text"
    rows.append(QuestionRow(words("gate.rule.would_have"), said, tone=tone))
    for message in reversed(alike):
        then = to_datetime(message.at)
        at = f"{then:%H:%M}  " if then else ""
        then_chosen = message.answer.choice if message.answer is not None else "none"
        answered = words(f"transcript.answer.{then_chosen}")
        why = shown_line(message.reasoning.strip())
        rows.append(QuestionRow("", SafeText(f"{at}{answered}  {why}".rstrip()), tone="quiet"))
    return rows


def impact_words(gate: Gate, words: Catalogue, document: DiffDocument) -> SafeText:
    """Return the impact as ``1 file, +3 −2 · inside the workspace · can be undone``, without
    excluded hunks.
    """
    impact = gate.impact
    added, removed = impact.added, impact.removed
    if document.left_out:
        added, removed = document.figures()
    parts: list[str] = []
    if impact.files:
        parts.append(words("gate.files", files=impact.files, added=added, removed=removed))
    else:
        parts.append(words(f"gate.effect.{gate.effect}"))
    if document.left_out:
        parts.append(
            words("gate.left_out", count=len(document.left_out), total=len(document.hunks))
        )
    if impact.zone is not Zone.NOWHERE:
        parts.append(words(f"gate.zone.{impact.zone}"))
    parts.append(_undo_words(gate, words))
    return SafeText(" · ".join(parts))


def risk_words(gate: Gate, words: Catalogue) -> SafeText:
    """Return the risk with its reasons, as ``high risk: a hidden file, an executable
    extension``.
    """
    reasons = [_reason_words(code, words) for code in gate.impact.reasons]
    level = words(f"gate.risk.{gate.impact.risk}")
    return SafeText(f"{level}: {words('gate.list').join(reasons)}" if reasons else level)


def verb_words(gate: Gate, words: Catalogue) -> SafeText:
    """Return the action in one word, by the previews or else the call's effect."""
    kinds = {preview.kind for preview in gate.previews}
    if len(kinds) == 1:
        return words(f"gate.kind.{kinds.pop()}")
    return words("gate.kind.modify" if kinds else f"gate.verb.{gate.effect}")


def subject_words(gate: Gate, words: Catalogue) -> SafeText:
    """Return the target of the call: its file, command or path, else the operation."""
    if gate.previews:
        return shown_path(gate.previews[0])
    if gate.facts.get("runs"):  # its parts stand on lines of their own, the command does not
        command = gate.args.get("command")
        return visible_line(command if isinstance(command, str) else gate.facts["runs"])
    path = gate.args.get("path")
    if isinstance(path, str) and path and gate.effect is not Effect.EXECUTE:
        return visible_line(path)
    return visible_line(words.name_operations(gate.operation))


def _notice_words(gate: Gate, words: Catalogue) -> Iterator[SafeText]:
    """Yield notices that the gate was renewed or edited."""
    if gate.renewed:
        yield words("gate.renewed")
    if gate.edited_by_user:
        yield words("gate.edited")


def _model_row(label: str, text: str, words: Catalogue) -> QuestionRow:
    """Return a row with the model's words; says so where it gave none."""
    safe = shown_line(text.strip())
    if not safe:
        return QuestionRow(label, words("gate.not_given"), tone="quiet")
    return QuestionRow(label, safe, says=True)


def _list_alternatives(gate: Gate, words: Catalogue) -> Iterator[QuestionRow]:
    """Yield a row for each alternative, or one that says there are none."""
    label = words("gate.alternatives")
    if not gate.alternatives:
        yield QuestionRow(label, words("gate.none_given"), tone="quiet")
        return
    for number, text in enumerate(gate.alternatives, 1):
        item = f"{number} {shown_line(text)}"
        yield QuestionRow(label if number == 1 else "", item, says=True, keys=((0, 1),))


def _reason_words(code: str, words: Catalogue) -> str:
    """Return a reason for the risk in words; an unknown code as it is."""
    key = f"gate.reason.{code}"
    return words(key) if words.has(key) else visible_line(code).replace("_", " ")


def _on_the_diff(gate: Gate, name: str, value: Any) -> bool:
    """Whether the previews show this argument: a path itself, a content by its effect."""
    if name in _RESULTS:
        return any(preview.hunks for preview in gate.previews)
    return any(value in (preview.path, preview.target) for preview in gate.previews if value)


def _argument_lines(name: str, value: Any, words: Catalogue) -> Iterator[tuple[str, bool]]:
    """Yield ``name = value`` as lines; a text of several lines is below its name, with runs of
    blank lines counted. The flag marks lines that are notes.
    """
    head = f"{visible_line(name)} ="
    if not isinstance(value, str) or "\n" not in value.rstrip("\n"):
        text = json.dumps(value, ensure_ascii=False)
        yield f"{head} {shown_line(text)}", False
        return
    lines = [shown_line(line) for line in value.split("\n")]
    yield f"{head} {words('gate.lines', count=len(lines))}", True
    blanks = 0
    for line in [*lines, None]:
        if line is not None and not line.strip():
            blanks += 1
            continue
        if blanks >= BLANK_RUN:
            yield f"│ {words('diff.blank_lines', count=blanks)}", True
        else:
            yield from (("│", False) for _ in range(blanks))
        blanks = 0
        if line is not None:
            yield f"│ {line}", False


_LETTERS: Final = {key.action: key.label for key in keys_of("gate", "diff")}


def _list_acts() -> dict[str, str]:
    """Return the widget's action for each key of a gate or diff that answers nothing."""
    acts: dict[str, str] = {}
    for key in keys_of("gate", "diff"):
        for name, action in key.list_actions():
            if key.surface == "gate" and action not in ("details", "whole_diff"):
                continue
            own = action in ("details", "whole_diff", "remark") or action.startswith("line")
            acts[name] = action if own else f"on_diff('{action}')"
    return acts


_ACTS: Final = _list_acts()
#: Keys that need not wait: they decide nothing, and open no place to write in.
AT_ONCE: Final = frozenset(_ACTS) - {_LETTERS["remark"]}
#: Those of them that change what an approval applies.
SELECTS: Final = frozenset(key for key, act in _ACTS.items() if "toggle_hunk" in act)
#: Keys that have an effect at some gate.
LETTERS: Final = frozenset(key for keys in keys_of("gate", "diff") for key in keys.keys)


def gate_question(
    gate: Gate,
    words: Catalogue,
    document: DiffDocument,
    *,
    step: str = "",
    waiting: int = 1,
    detailed: bool = False,
) -> QuestionSpec:
    """Return the gate as a question. ``step`` names the step that asks, ``waiting`` is the number
    of open questions; ``detailed``: with all facts and keys.
    """
    verb, subject = _capitalize_first(verb_words(gate, words)), subject_words(gate, words)
    figures = figures_of(gate, words, document)
    count = words("gate.waiting", number=1, total=waiting) if waiting > 1 else ""
    files = len(gate.previews)
    paths = ", ".join(shown_path(preview) for preview in gate.previews) or subject
    headline = " ".join(part for part in (verb, subject, figures) if part)
    scopes = [_scope_choice(gate, words, scope) for scope in WIDENS if gate.can_grant(scope)]
    alternatives = [
        AnswerChoice(str(number), GateChoice.ALTERNATIVE, shown_line(text), takes_remarks=True)
        for number, text in enumerate(gate.alternatives, 1)
    ]
    arguments = argument_rows(gate, words, brief=True)
    return QuestionSpec(
        title=Title(
            verb,
            words("gate.several", count=files) if files > 1 else subject,
            "".join(f"  {part}" for part in (figures, step, count) if part),
            # Of a path the end says most, of a command the beginning.
            keep="start" if gate.effect is Effect.EXECUTE else "end",
        ),
        headline=QuestionRow("", headline, tone="notice", wide=True),
        path=QuestionRow("", paths, wide=True),
        rows=sentence_rows(gate, words, document),
        arguments=arguments,
        details=[*point_rows(gate, words, document), *argument_rows(gate, words)]
        if detailed
        else (),
        choices=[*_daily_choices(gate, words, detailed=detailed), *(scopes if detailed else ())],
        unlisted=[*alternatives, *(() if detailed else scopes)],
        acts=_ACTS,
        at_once=AT_ONCE,
        hint=words("gate.hint_focused"),
        blocks="gate.takes_nothing" if document.takes_nothing else "",
    )


def _daily_choices(gate: Gate, words: Catalogue, *, detailed: bool) -> Iterator[AnswerChoice]:
    """Yield the usual keys of a gate; ``detailed``: with those of its diff."""
    once, reject, edit = GateChoice.ONCE, GateChoice.REJECT, GateChoice.EDIT
    yield AnswerChoice(_LETTERS[once], once, words("gate.key.once"), leads=True, consents=True)
    entry = TextEntry(words("gate.ask_reason"), words("gate.hint_reason"), is_optional=True)
    yield AnswerChoice(REFUSES, reject, words("gate.key.reject"), takes_remarks=True, entry=entry)
    if gate.can_edit and gate.previews:
        yield AnswerChoice(_LETTERS[edit], edit, words("gate.key.edit"), acts="edit_proposal")
    if detailed and gate.previews:
        yield AnswerChoice(_LETTERS["remark"], "", words("gate.key.remark"), acts="remark")
        yield AnswerChoice(_LETTERS["whole_diff"], "", words("gate.key.diff"), acts="whole_diff")
    label = words("gate.key.less" if detailed else "gate.key.more")
    yield AnswerChoice(_LETTERS["details"][:1], "", label, acts="details")


def _scope_choice(gate: Gate, words: Catalogue, scope: GateChoice) -> AnswerChoice:
    """Return the answer that allows more than this call, with its duration and scope in words."""
    operation, _, what = gate.pattern_of(scope).partition(" ")
    if operation.startswith("mcp."):  # behind the # stands a hash of what its server says of it
        what = what.partition("#")[0]
    allowed = granted_words(what, words)
    allowed = allowed or f"{words.name_operations(operation)} {visible_line(what)}"
    span = scope if scope in (GateChoice.STEP, GateChoice.PROJECT) else GateChoice.SESSION
    text = words(f"gate.key.{span}", what=SafeText(allowed))
    return AnswerChoice(_LETTERS[scope][:1], scope, text, consents=True, widens=True)


def gate_answer(gate: Gate, choice: AnswerChoice, document: DiffDocument, text: str) -> GateAnswer:
    """Return the answer to exactly the gate that was shown; ``text`` is the reason of a refusal, or
    the edited file.
    """
    answer = GateChoice(choice.answer)
    alternative = answer is GateChoice.ALTERNATIVE
    return GateAnswer(
        gate_id=gate.gate_id,
        call_id=gate.call_id,
        args_hash=gate.args_hash,
        before_hashes=before_hashes(gate),
        choice=answer,
        reason=text if answer is GateChoice.REJECT else "",
        remarks=document.list_remarks() if choice.takes_remarks else (),
        alternative=int(choice.key) if alternative else None,
        left_out=tuple(sorted(document.left_out)) if choice.consents else (),
        edited=text if answer is GateChoice.EDIT else None,
    )


def figures_of(gate: Gate, words: Catalogue, document: DiffDocument) -> str:
    """Return ``+3 −2`` without excluded hunks; of a created or deleted file the number of lines."""
    added, removed = gate.impact.added, gate.impact.removed
    if document.left_out:
        added, removed = document.figures()
    kinds = {preview.kind for preview in gate.previews}
    if not gate.previews or not (added or removed):
        return ""
    if kinds == {"create"}:
        return words("gate.new", count=added)
    if kinds == {"delete"}:
        return words("gate.gone", count=removed)
    return figures_text(added, removed)
