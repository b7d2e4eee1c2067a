"""What a gate says: its rows, its title, its keys.

The model's words are marked as its own; facts are computed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.cells import cell_len
from rich.text import Text

from duckflow_tui.safety.safe_text import SafeText, visible_line
from duckflow_tui.state.base import calendar
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import IN_SANDBOX, Gate, GateChoice
from duckflow_tui.state.operations import Effect, Risk, Zone
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.diff_document import BLANK_RUN, DiffDocument, shown_line, shown_path
from duckflow_tui.ui.panes.question import KeyHint
from duckflow_tui.ui.panes.request import QuestionRow, Tone
from duckflow_tui.ui.panes.strips import fit
from duckflow_tui.words.catalogue import Catalogue

_ONE_ROW: Final = 56  # cells that the alternatives may take together before each gets its row
_GAP: Final = "   "

#: Arguments whose whole effect is the difference that the previews show.
_RESULTS: Final = frozenset({"content", "edits"})


def point_rows(
    gate: Gate, words: Catalogue, document: DiffDocument, *, with_path: bool, close: bool = False
) -> list[QuestionRow]:
    """What is always in sight: intent, why, impact and alternatives (S4-61).

    ``close`` takes one row for each of them, and one for all that is to be noticed.
    """
    rows = _to_notice(gate, words, close=close)
    if with_path:
        paths = ", ".join(shown_path(preview) for preview in gate.previews) or subject(gate)
        rows.append(QuestionRow(words("gate.file"), paths))
    if gate.checks:
        wanted = shown_line(gate.checks.strip())
        rows.append(
            QuestionRow(words("gate.intent"), words("gate.checks.intent", requirement=wanted))
        )
        rows.append(QuestionRow(words("gate.why"), words("gate.checks.why")))
    else:
        rows.append(_said(words("gate.intent"), gate.intent, words))
        rows.append(_said(words("gate.why"), gate.why, words))
    rows.append(QuestionRow(words("gate.impact"), impact_words(gate, words, document)))
    rows.extend(QuestionRow("", text, tone="warning") for text in _real_places(gate, words))
    if not close:
        rows.extend(_risk(gate, words))
    rows.extend(_alternatives(gate, words, close=close))
    return rows


def argument_rows(gate: Gate, words: Catalogue) -> list[QuestionRow]:
    """The arguments that will be used and that no preview shows (R14), as the app has them."""
    facts = list(_facts(gate, words))
    lines: list[tuple[str, bool]] = []
    if not gate.previews:
        lines.append((visible_line(gate.operation), False))
    for name, value in gate.args.items():
        if not _on_the_diff(gate, name, value):
            lines.extend(_argument(name, value, words))
    return facts + [
        QuestionRow(
            words("gate.args") if number == 0 else "", text, tone="quiet" if note else "text"
        )
        for number, (text, note) in enumerate(lines)
    ]


def _facts(gate: Gate, words: Catalogue) -> Iterator[QuestionRow]:
    """Figures that the app computed: what really runs, where, and what holds it."""
    for name, value in gate.facts.items():
        key, said = f"gate.fact.{name}", f"gate.fact_value.{name}.{value}"
        label = words(key) if words.has(key) else visible_line(name)
        if words.has(said):
            bare = name == "sandbox" and value in ("none", "outside")
            tone: Tone = "warning" if bare else "text"
            yield QuestionRow(label, words(said), tone=tone)
            if name == "sandbox" and gate.can_grant_session and _is_for_all_held(gate):
                yield QuestionRow("", words("gate.in_sandbox"))
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


def rule_rows(gate: Gate, alike: Sequence[OperationMessage], words: Catalogue) -> list[QuestionRow]:
    """The rule that a second ``p`` keeps for the project: its exact pattern, how long it holds, and
    what it would have allowed in this session.
    """
    runs = gate.effect is Effect.EXECUTE
    asks = "gate.rule.asks_still_run" if runs else "gate.rule.asks_still"
    rows = [
        QuestionRow(words("gate.rule.pattern"), visible_line(gate.grant_pattern), tone="notice"),
        QuestionRow(words("gate.rule.holds"), words("gate.rule.holds_how")),
        QuestionRow(words("gate.rule.asks"), words(asks)),
    ]
    refused = sum(m.answer is not None and not m.answer.approves for m in alike)
    said = words("gate.rule.none_before")
    if alike:
        key = "gate.rule.before_refused" if refused else "gate.rule.before"
        key = f"{key}_one" if len(alike) == 1 else key
        said = words(key, count=len(alike), refused=refused)
    tone: Tone = "warning" if refused else "text"
    rows.append(QuestionRow(words("gate.rule.would_have"), said, tone=tone))
    for message in reversed(alike):
        then = calendar(message.at)
        at = f"{then:%H:%M}  " if then else ""
        choice = message.answer.choice if message.answer is not None else "none"
        answered = words(f"gate.rule.was.{choice}")
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
    key = "gate.reversible" if impact.reversible else "gate.irreversible"
    if gate.operation == "shell.run" and not gate.args.get("background"):
        key = "gate.files_reversible"  # a command that goes on has no copy to go back to
    parts.append(words(key))
    return SafeText(" · ".join(parts))


def risk_words(gate: Gate, words: Catalogue) -> SafeText:
    """The risk with its reasons: ``high risk: a hidden file, an executable extension``."""
    reasons = [_reason(code, words) for code in gate.impact.reasons]
    level = words(f"gate.risk.{gate.impact.risk}")
    return SafeText(f"{level}: {', '.join(reasons)}" if reasons else level)


def verb(gate: Gate, words: Catalogue) -> SafeText:
    """What would be done, in one word: from the preview where there is one."""
    kinds = {preview.kind for preview in gate.previews}
    if len(kinds) == 1:
        return words(f"gate.kind.{kinds.pop()}")
    return words("gate.kind.modify" if kinds else f"gate.verb.{gate.effect}")


def subject(gate: Gate) -> SafeText:
    """What it would be done to: the file, else the command or the path among the arguments, else
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
    return visible_line(gate.operation)


def _to_notice(gate: Gate, words: Catalogue, *, close: bool) -> list[QuestionRow]:
    rows = [QuestionRow("", text, tone="notice") for text in _notices(gate, words)]
    if not close:
        return rows
    rows = [*_risk(gate, words), *rows]
    text = " · ".join(row.text for row in rows)
    return [QuestionRow("", SafeText(text), tone=rows[0].tone)] if rows else []


def _risk(gate: Gate, words: Catalogue) -> Iterator[QuestionRow]:
    if gate.impact.reasons or gate.impact.risk.rank >= Risk.MEDIUM.rank:
        high = gate.impact.risk.rank >= Risk.HIGH.rank
        yield QuestionRow("", risk_words(gate, words), tone="warning" if high else "notice")


def _notices(gate: Gate, words: Catalogue) -> Iterator[SafeText]:
    if gate.renewed:
        yield words("gate.renewed")
    if gate.edited_by_user:
        yield words("gate.edited")


def _said(label: str, text: str, words: Catalogue) -> QuestionRow:
    safe = shown_line(text.strip())
    if not safe:
        return QuestionRow(label, words("gate.not_given"), tone="quiet")
    return QuestionRow(label, safe, says=True)


def _alternatives(gate: Gate, words: Catalogue, *, close: bool) -> Iterator[QuestionRow]:
    label = words("gate.alternatives")
    if not gate.alternatives:
        yield QuestionRow(label, words("gate.none_given"), tone="quiet")
        return
    items = [f"{n} {shown_line(text)}" for n, text in enumerate(gate.alternatives[:9], 1)]
    one = _GAP.join(items)
    if close or cell_len(one) <= _ONE_ROW:
        starts = [len(_GAP.join([*items[:n], ""])) for n in range(len(items))]
        yield QuestionRow(label, one, says=True, keys=tuple((at, at + 1) for at in starts))
        return
    for number, item in enumerate(items):
        yield QuestionRow(label if number == 0 else "", item, says=True, keys=((0, 1),))


def _reason(code: str, words: Catalogue) -> str:
    key = f"gate.reason.{code}"
    return words(key) if words.has(key) else visible_line(code).replace("_", " ")


def _on_the_diff(gate: Gate, name: str, value: Any) -> bool:
    """Whether the previews show the argument: the path as it is, the content as what it does."""
    if name in _RESULTS:
        return any(preview.hunks for preview in gate.previews)
    return any(value in (preview.path, preview.target) for preview in gate.previews if value)


def _argument(name: str, value: Any, words: Catalogue) -> Iterator[tuple[str, bool]]:
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


@dataclass(frozen=True, slots=True)
class Title:
    """The title as it fits, and whether something of its subject does not."""

    text: Text
    cut: bool


def title_of(
    gate: Gate, words: Catalogue, palette: Palette, room: int, *, step: str, waiting: int
) -> Title:
    """``Approve  edit src/shop/pricing.py  step 2  1 of 3`` in at most ``room`` cells."""
    text = Text(words("gate.title"), style=f"bold {palette.accent}", no_wrap=True)
    rest = f"  {step}" if step else ""
    if waiting > 1:
        rest += f"  {words('gate.waiting', number=1, total=waiting)}"
    several = len(gate.previews) > 1
    what = words("gate.several", count=len(gate.previews)) if several else subject(gate)
    head = f"  {verb(gate, words)} "
    shown = fit(what, max(room - Text(f"{text.plain}{head}{rest}").cell_len, 0), keep="end")
    text.append(f"{head}{shown}")
    text.append(rest, style=f"not bold {palette.quiet}")
    return Title(text, shown != what)


def subtitle_of(gate: Gate, words: Catalogue, palette: Palette, hint: str, room: int) -> Text:
    """``low risk · Enter to decide`` in at most ``room`` cells, the hint before the risk.

    The risk is a word before it is a colour.
    """
    risk = gate.impact.risk
    whole = f"{words(f'gate.risk.{risk}')} · {hint}"
    if Text(whole).cell_len > room:
        return Text(fit(hint, room), style=palette.accent, no_wrap=True)
    style = palette.bad if risk.rank >= Risk.HIGH.rank else palette.accent
    text = Text(words(f"gate.risk.{risk}"), style=style, no_wrap=True)
    return text.append(f" · {hint}", style=palette.accent)


def key_hints(
    gate: Gate, words: Catalogue, *, width: int, rule: bool = False
) -> tuple[KeyHint, ...]:
    """The letters that this gate answers to; ``rule``: a rule for the project is shown."""
    once = KeyHint(_LETTERS["once"], words("gate.key.once"))
    keep = _LETTERS["project"][:1]  # the second press is of the same key
    if rule:
        back = KeyHint("Esc", words("gate.key.back"))
        return KeyHint(keep, words("gate.key.keep_rule")), back, once
    hints = [once]
    if gate.can_grant_session:
        hints.append(_session_hint(gate, words))
    if gate.can_grant_step:
        hints.append(KeyHint(_LETTERS["step"], words("gate.key.step")))
    if gate.can_grant_project:
        hints.append(KeyHint(keep, words("gate.key.project")))
    hints.append(KeyHint(_LETTERS["reject"], words("gate.key.reject")))
    if gate.can_edit:
        hints.append(KeyHint(_LETTERS["edit"], words("gate.key.edit")))
    if sum(hint.cells + 2 for hint in hints) - 2 > width:
        # What says the most comes last where one row does not hold them all.
        hints.sort(key=lambda hint: hint.letter == _LETTERS["session"])
    return tuple(hints)


def _session_hint(gate: Gate, words: Catalogue) -> KeyHint:
    if _is_for_all_held(gate):
        return KeyHint(_LETTERS["session"], words("gate.key.sandbox"))
    of_server = gate.operation.startswith("mcp.")  # behind a # stands what its server says of it
    pattern = gate.grant_pattern.partition("#")[0] if of_server else gate.grant_pattern
    return KeyHint(_LETTERS["session"], words("gate.key.session"), visible_line(pattern))


def unread_hints(
    gate: Gate, words: Catalogue, choice: GateChoice, unread: str
) -> tuple[KeyHint, ...]:
    """The question before this answer to a gate of which part was not on screen (R14). The same
    key then decides.
    """
    scope = _session_hint(gate, words).whole if choice is GateChoice.SESSION else ""
    return (
        KeyHint("", words("gate.unread.asks", what=unread), asks=True),
        KeyHint(_LETTERS[choice][:1], words("gate.unread.allow"), scope),
        KeyHint(_LETTERS["reject"], words("gate.key.reject")),
        KeyHint(words("gate.unread.scroll"), words("gate.unread.show")),
    )
