"""The content of a gate: its rows, its title, its keys.

The model's words are marked as its own; facts are computed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from rich.cells import cell_len
from rich.text import Text

from duckflow_tui.safety.hosts import ON_NETWORK
from duckflow_tui.safety.policy import grant_for
from duckflow_tui.safety.safe_text import SafeText, visible_line
from duckflow_tui.session.decisions import granted_words, rule_words
from duckflow_tui.state.base import to_datetime
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import IN_SANDBOX, WIDENS, Gate, GateChoice
from duckflow_tui.state.operations import Effect, Risk, Zone
from duckflow_tui.state.session import HOLDS
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.diff_document import BLANK_RUN, DiffDocument, shown_line, shown_path
from duckflow_tui.ui.panes.diff_paint import count_words, figures_text
from duckflow_tui.ui.panes.question import KeyHint
from duckflow_tui.ui.panes.request import QuestionRow, Tone
from duckflow_tui.ui.panes.strips import fit
from duckflow_tui.words.catalogue import Catalogue

_GAP: Final = "   "
AI_MARK: Final = "◆"  # before what the AI says, in the chat as well

#: Arguments whose whole effect is the difference that the previews show.
_RESULTS: Final = frozenset({"content", "edits"})


def sentence_rows(
    gate: Gate, words: Catalogue, document: DiffDocument, *, with_path: bool
) -> list[QuestionRow]:
    """The rows that are always in sight: intent and why as a sentence, what is not as ever, and the
    alternatives (S4-61). The sign of the AI stands before its own words.
    """
    rows: list[QuestionRow] = []
    if with_path:
        paths = ", ".join(shown_path(preview) for preview in gate.previews) or subject_words(
            gate, words
        )
        rows.append(QuestionRow("", paths, wide=True))
    apart = any(other.intent != gate.intent for other in gate.also)
    says = not gate.checks and not apart
    text = f"{AI_MARK} {_intent_sentence(gate, words)}" if says else _intent_sentence(gate, words)
    if apart:  # the reason of one file is not that of all
        text = words("gate.each_its_reason", count=len(gate.previews))
    mark: Tone | None = "ai" if says else None
    rows.append(QuestionRow("", SafeText(text), says=says, mark=mark, wide=True))
    rows.extend(_deviation_rows(gate, words, document))
    if gate.alternatives:
        rows.append(_alternatives_row(gate))
    return rows


def _intent_sentence(gate: Gate, words: Catalogue) -> SafeText:
    """Intent and reason, each with its end; what is missing is said to be."""
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
    """The text with a full stop, unless it ends with a mark of its own."""
    if text.endswith((".", "!", "?", "。", "！", "？", "…", ")", "）")):
        return text
    return f"{text}." if text[-1:].isascii() else f"{text}。"


def _deviation_rows(gate: Gate, words: Catalogue, document: DiffDocument) -> Iterator[QuestionRow]:
    """The rows about what is unusual; where nothing is, one quiet line that says so."""
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
    return f"{text[:1].upper()}{text[1:]}"


def _sandbox_words(held: str, words: Catalogue) -> str:
    """The rights of a command there; of an unknown level its name."""
    said = f"gate.held.{held}"
    return words(said) if words.has(said) else f"{words('gate.fact.sandbox')} {visible_line(held)}"


def _undo_words(gate: Gate, words: Catalogue) -> str:
    """The reach of undo; of a command only its changes of files here."""
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


def _alternatives_row(gate: Gate) -> QuestionRow:
    items = [f"{n} {shown_line(text)}" for n, text in enumerate(gate.alternatives[:9], 1)]
    starts = [len(_GAP.join([*items[:n], ""])) for n in range(len(items))]
    keys = tuple((at, at + 1) for at in starts)
    return QuestionRow("", SafeText(_GAP.join(items)), says=True, keys=keys, wide=True)


def point_rows(gate: Gate, words: Catalogue, document: DiffDocument) -> list[QuestionRow]:
    """Everything about a gate, each point with its name and where it is from (S4-61, S4-65)."""
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
    rows.extend(_alternative_rows(gate, words))
    return rows


def argument_rows(gate: Gate, words: Catalogue, *, titled: bool = False) -> list[QuestionRow]:
    """The arguments that will be used and that neither a preview nor the row of the subject shows
    (R14), as the app has them; ``titled``: without figures that change nothing.
    """
    facts = list(_fact_rows(gate, words, titled=titled))
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
        said = said or (titled and name == "hosts" and gate.effect is Effect.EXECUTE)
        if not said and not _on_the_diff(gate, name, value):
            lines.extend(_argument_lines(name, value, words))
    return facts + [
        QuestionRow(
            words("gate.args") if number == 0 else "", text, tone="quiet" if note else "text"
        )
        for number, (text, note) in enumerate(lines)
    ]


#: Facts of which nobody needs to know before the details are asked for.
_DETAILS: Final = frozenset(
    {"sandbox", "rule", "timeout", "hosts", "hosts_open", "uncovered", "until_quit"}
)

#: Values of the fact ``sandbox`` where nothing holds a command.
BARE: Final = frozenset({"none", "outside"})


def _fact_rows(gate: Gate, words: Catalogue, *, titled: bool) -> Iterator[QuestionRow]:
    """Figures that the app computed: what really runs, where, and what holds it."""
    for name, value in gate.facts.items():
        known = name in _DETAILS or (name == "cwd" and value == ".")
        if (titled and known) or (name == "runs" and value == subject_words(gate, words)):
            continue
        key, said = f"gate.fact.{name}", f"gate.fact_value.{name}.{value}"
        label = words(key) if words.has(key) else visible_line(name)
        if words.has(said):
            bare = name == "sandbox" and value in BARE
            tone: Tone = "warning" if bare else "text"
            yield QuestionRow(label, words(said), tone=tone)
            if name == "sandbox" and gate.can_grant_session and _is_for_all_held(gate):
                yield QuestionRow("", words("gate.in_sandbox"))
            continue
        if name == "hosts_open":
            yield QuestionRow(
                label, words("gate.hosts_open", hosts=visible_line(value)), tone="warning"
            )
            continue
        for number, line in enumerate(value.split("\n")):
            yield QuestionRow(label if number == 0 else "", shown_line(line))


def _is_for_all_held(gate: Gate) -> bool:
    """Whether a consent for the session is one for all that the sandbox holds."""
    return gate.grant_pattern.endswith(f" {IN_SANDBOX}")


def _real_places(gate: Gate, words: Catalogue) -> list[SafeText]:
    """Where a link or a shortened path really leads, unless its own name says so."""
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
    """Exactly what an answer allows that allows more than this call, and for how long; of a rule
    for the project what it would have allowed in this session too.
    """
    grant = grant_for(gate, "", choice)
    rows = [
        QuestionRow(words("gate.rule.pattern"), SafeText(rule_words(grant, words)), tone="notice"),
        QuestionRow(words("gate.rule.holds"), words(f"gate.rule.holds_{choice}")),
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
        key = f"{key}_one" if len(alike) == 1 else key
        said = words(key, count=len(alike), refused=refused)
    tone: Tone = "warning" if refused else "text"
    rows.append(QuestionRow(words("gate.rule.would_have"), said, tone=tone))
    for message in reversed(alike):
        then = to_datetime(message.at)
        at = f"{then:%H:%M}  " if then else ""
        then_chosen = message.answer.choice if message.answer is not None else "none"
        answered = words(f"gate.rule.was.{then_chosen}")
        why = shown_line(message.reasoning.strip())
        rows.append(QuestionRow("", SafeText(f"{at}{answered}  {why}".rstrip()), tone="quiet"))
    return rows


def impact_words(gate: Gate, words: Catalogue, document: DiffDocument) -> SafeText:
    """``1 file, +3 −2 · inside the workspace · can be undone``, less what is left out."""
    impact = gate.impact
    added, removed = impact.added, impact.removed
    if document.left_out:
        added, removed = document.figures()
    parts: list[str] = []
    if impact.files:
        key = "gate.one_file" if impact.files == 1 else "gate.files"
        parts.append(words(key, files=impact.files, added=added, removed=removed))
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
    """The risk with its reasons: ``high risk: a hidden file, an executable extension``."""
    reasons = [_reason_words(code, words) for code in gate.impact.reasons]
    level = words(f"gate.risk.{gate.impact.risk}")
    return SafeText(f"{level}: {words('gate.list').join(reasons)}" if reasons else level)


def verb_words(gate: Gate, words: Catalogue) -> SafeText:
    """The action in one word: from the preview where there is one."""
    kinds = {preview.kind for preview in gate.previews}
    if len(kinds) == 1:
        return words(f"gate.kind.{kinds.pop()}")
    return words("gate.kind.modify" if kinds else f"gate.verb.{gate.effect}")


def subject_words(gate: Gate, words: Catalogue) -> SafeText:
    """The target of the action: the file, else the command or the path among the arguments, else
    the operation.
    """
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
    if gate.renewed:
        yield words("gate.renewed")
    if gate.edited_by_user:
        yield words("gate.edited")


def _model_row(label: str, text: str, words: Catalogue) -> QuestionRow:
    safe = shown_line(text.strip())
    if not safe:
        return QuestionRow(label, words("gate.not_given"), tone="quiet")
    return QuestionRow(label, safe, says=True)


def _alternative_rows(gate: Gate, words: Catalogue) -> Iterator[QuestionRow]:
    label = words("gate.alternatives")
    if not gate.alternatives:
        yield QuestionRow(label, words("gate.none_given"), tone="quiet")
        return
    for number, text in enumerate(gate.alternatives[:9], 1):
        item = f"{number} {shown_line(text)}"
        yield QuestionRow(label if number == 1 else "", item, says=True, keys=((0, 1),))


def _reason_words(code: str, words: Catalogue) -> str:
    key = f"gate.reason.{code}"
    return words(key) if words.has(key) else visible_line(code).replace("_", " ")


def _on_the_diff(gate: Gate, name: str, value: Any) -> bool:
    """Whether the previews show the argument: the path as it is, the content as what it does."""
    if name in _RESULTS:
        return any(preview.hunks for preview in gate.previews)
    return any(value in (preview.path, preview.target) for preview in gate.previews if value)


def _argument_lines(name: str, value: Any, words: Catalogue) -> Iterator[tuple[str, bool]]:
    """``name = value``; a text of several lines below its name, blank lines counted."""
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


_LETTERS: Final = {key.action: key.label for key in keys_of("gate")}
#: Answers that allow more than this call, in the order of the keys.
_SCOPES: Final = (
    GateChoice.SESSION,
    GateChoice.ONLY,
    GateChoice.STEP,
    GateChoice.PROJECT,
    GateChoice.ROUTINE,
)
_REMARK: Final = next(key.label for key in keys_of("diff") if key.action == "remark")


def title_of(
    gate: Gate,
    words: Catalogue,
    palette: Palette,
    room: int,
    *,
    figures: str,
    step: str,
    waiting: int,
) -> tuple[Text, bool]:
    """``Edit src/shop/pricing.py  +3 −2  step 2  1 of 3`` in at most ``room`` cells, and whether
    its subject is cut.
    """
    head = f"{_capitalize_first(verb_words(gate, words))} "
    rest = f"  {figures}" if figures else ""
    rest += f"  {step}" if step else ""
    if waiting > 1:
        rest += f"  {words('gate.waiting', number=1, total=waiting)}"
    several = len(gate.previews) > 1
    what = (
        words("gate.several", count=len(gate.previews)) if several else subject_words(gate, words)
    )
    # Of a path the end says most, of a command the beginning.
    keep = "start" if gate.effect is Effect.EXECUTE else "end"
    shown = fit(what, max(room - cell_len(f"{head}{rest}"), 0), keep=keep)
    text = Text(f"{head}{shown}", style=f"bold {palette.accent}", no_wrap=True)
    text.append(rest, style=f"not bold {palette.quiet}")
    return text, shown != what


def figures_of(gate: Gate, words: Catalogue, document: DiffDocument) -> str:
    """``+3 −2``, less what is left out; of a file that comes or goes its lines."""
    added, removed = gate.impact.added, gate.impact.removed
    if document.left_out:
        added, removed = document.figures()
    kinds = {preview.kind for preview in gate.previews}
    if not gate.previews or not (added or removed):
        return ""
    if kinds == {"create"}:
        return count_words(words, "gate.new", added)
    if kinds == {"delete"}:
        return count_words(words, "gate.gone", removed)
    return figures_text(added, removed)


def headline_words(gate: Gate, words: Catalogue, figures: str) -> SafeText:
    """The title without a border to stand in."""
    parts = (_capitalize_first(verb_words(gate, words)), subject_words(gate, words), figures)
    return SafeText(" ".join(part for part in parts if part))


def key_hints(
    gate: Gate,
    words: Catalogue,
    *,
    scope: GateChoice | None = None,
    every: bool = False,
    remarks: int = 0,
) -> tuple[KeyHint, ...]:
    """The letters that this gate answers to, the daily ones or ``every`` one of them; ``scope``:
    what this answer allows is shown; ``remarks``: so many were written.
    """
    once = KeyHint(_LETTERS["once"], words("gate.key.once"), leads=True)
    if scope is not None:
        return _scope_hint(gate, words, scope), KeyHint("Esc", words("gate.key.back")), once
    hints = [once, _reject_hint(words, remarks)]
    if gate.can_edit:
        hints.append(KeyHint(_LETTERS["edit"], words("gate.key.edit")))
    more = _LETTERS["details"][:1]
    if not every:
        return *hints, KeyHint(more, words("gate.key.more"))
    if gate.previews:
        hints.append(KeyHint(_REMARK, words("gate.key.remark")))
        hints.append(KeyHint(_LETTERS["whole_diff"], words("gate.key.diff")))
    hints.append(KeyHint(more, words("gate.key.less")))
    wide = (choice for choice in _SCOPES if gate.can_grant(choice))
    return *hints, *(_scope_hint(gate, words, choice) for choice in wide)


def _reject_hint(words: Catalogue, remarks: int) -> KeyHint:
    """``n reject``, or ``n send 2 remarks``."""
    if not remarks:
        return KeyHint(_LETTERS["reject"], words("gate.key.reject"))
    return KeyHint(_LETTERS["reject"], words("gate.key.reject_with", count=remarks))


def letter_of(choice: GateChoice) -> str:
    """The key that gives this answer; one that widens rights is pressed twice."""
    return _LETTERS[choice][:1]


def _scope_hint(gate: Gate, words: Catalogue, choice: GateChoice) -> KeyHint:
    """The key of an answer that allows more than this call: how long, and exactly what."""
    operation, _, what = gate.pattern_of(choice).partition(" ")
    if operation.startswith("mcp."):  # behind the # stands a hash of what its server says of it
        what = what.partition("#")[0]
    scope = granted_words(what, words) or f"{words.name_operations(operation)} {visible_line(what)}"
    span = choice if choice in (GateChoice.STEP, GateChoice.PROJECT) else GateChoice.SESSION
    return KeyHint(letter_of(choice), words(f"gate.key.{span}", what=SafeText(scope)))


UnreadWay = Literal["up", "down", "both"]


def unread_hints(
    gate: Gate,
    words: Catalogue,
    choice: GateChoice,
    remarks: int,
    unread: str,
    way: UnreadWay,
) -> tuple[KeyHint, ...]:
    """The question before this answer to a gate where part of it was not on screen (R14), or
    remarks would be lost. The same key then decides; ``unread`` is what is left to see, ``way``
    where it lies.
    """
    asks: list[str] = []
    scope = _scope_hint(gate, words, choice).text if choice in WIDENS else ""
    allow = words("gate.unread.allow_scope", what=scope) if scope else words("gate.unread.allow")
    if unread:
        asks.append(words("gate.unread.asks", what=unread))
    if remarks:
        asks.append(words("gate.unread.remarks", count=remarks))
    if not asks:
        asks.append(words("gate.unread.none_left"))
        allow = scope or words("gate.key.once")
    show = KeyHint(words(f"gate.unread.scroll.{way}"), words("gate.unread.show"))
    return (
        KeyHint("", words("gate.unread.joint").join(asks), asks=True),
        KeyHint(letter_of(choice), allow),
        _reject_hint(words, remarks),
        *((show,) if unread else ()),
    )
