"""Prompt files: text with ``{field}`` marks, filled in one pass, so that values stay as they are.

- A comment ``<!-- … -->`` at the top says what the file is for and is not sent.
- ``{name}`` is a field only where an identifier follows the brace, so JSON needs no escapes.
  There are no attributes, indices or conversions: ``{state.mode}`` is an error of the file.
- A line whose fields are all empty is left out, then a line before it that ends in a colon,
  then a heading under which nothing is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_COMMENT: Final = re.compile(r"\A\s*<!--.*?-->\s*", re.DOTALL)

_MARK: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.\[\]!:]*)\}")


class TemplateError(ValueError):
    """A prompt file that cannot be used; the message names file, line and field."""


class Template:
    """One prompt file, parsed. ``fields`` are the names it uses."""

    def __init__(self, source: str, text: str, known: Iterable[str]) -> None:
        """Parse ``text``; raises TemplateError for a field that is not in ``known``."""
        comment = _COMMENT.match(text)
        skipped = comment.group().count("\n") if comment else 0
        body = (text[comment.end() :] if comment else text).strip("\n")
        allowed = frozenset(known)
        self.source = source
        # Literals and field names in turn, as re.split leaves them: odd places are fields.
        self._lines: list[list[str]] = []
        for number, line in enumerate(body.split("\n"), start=skipped + 1):
            pieces = _MARK.split(line)
            for name in pieces[1::2]:
                if name not in allowed:
                    raise TemplateError(f"{source}:{number}: there is no field {{{name}}}")
            self._lines.append(pieces)
        self.fields = frozenset(name for pieces in self._lines for name in pieces[1::2])

    @classmethod
    def read(cls, path: Path, known: Iterable[str], required: Iterable[str] = ()) -> Template:
        """Read a file; raises TemplateError also when it is missing or lacks a required field."""
        source = f"{path.parent.name}/{path.name}"
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TemplateError(f"{source}: cannot be read: {error}") from error
        template = cls(source, text, known)
        missing = sorted(set(required) - template.fields)
        if missing:
            raise TemplateError(f"{source}: the field {{{missing[0]}}} must stand in it")
        return template

    def render(self, values: Mapping[str, str] | None = None) -> str:
        """The text with its fields filled; raises TemplateError when a value is not given."""
        given = values or {}
        absent = self.fields - given.keys()
        if absent:
            raise TemplateError(f"{self.source}: no value for {{{min(absent)}}}")
        kept: list[tuple[bool, str]] = []  # whether it is the template's own heading, the text
        for pieces in self._lines:
            names = pieces[1::2]
            if names and not any(given[name] for name in names):
                if kept and kept[-1][1].endswith((":", "：")):
                    kept.pop()
                continue
            text = "".join(given[part] if i % 2 else part for i, part in enumerate(pieces))
            kept.append((pieces[0].startswith("#"), text))
        return "\n".join(_without_empty_sections(kept)).strip("\n")


def _without_empty_sections(lines: list[tuple[bool, str]]) -> list[str]:
    result: list[str] = []
    pending: list[str] = []  # a heading and the blank lines after it
    for is_heading, text in lines:
        if is_heading:
            pending = [text]
        elif pending and not text.strip():
            pending.append(text)
        else:
            result.extend(pending)
            pending = []
            if text.strip() or not result or result[-1].strip():
                result.append(text)
    return result


_SESSION: Final = (
    "session_id",
    "workspace",
    "total_conversations",
    "last_updated",
    "total_files",
    "successful_operations",
    "learned_patterns",
    "user_settings",
    "earlier",
)

_MAIN: Final = (
    "phase",
    "status",
    "status_detail",
    "attempt",
    "max_attempts",
    "loop",
    "limit",
    "mode",
    "request",
    "unfinished",
    "maybe_other",
    "plan_done",
    "plan_total",
    "execution_mode",
    "op_propose",
    "first",
    "running",
    "goal",
    "why_now",
    "constraints",
    "plan_brief",
    "open_questions",
    "context_refs",
    "decision_log",
    "last_delta",
    "requirements",
    "gates",
    "changed_outside",
    "digests",
)

_LIMITS: Final = (
    "max_actions",
    "max_alternatives",
    "line",
    "item",
    "max_constraints",
    "max_plan_brief",
    "max_open_questions",
)

_NEVER_CUT: Final = ("goal", "constraints", "requirements", "gates")

_STEP: Final = (
    "request",
    *_NEVER_CUT,
    "plan_name",
    "plan_goal",
    "plan_done",
    "plan_total",
    "conversation",
    "step_number",
    "step",
    "loop",
    "limit",
    "mode",
    "needs",
    "tasks",
    "digests",
    "results",
    "changed_outside",
    "op_revise",
)

_ASIDE: Final = (
    "phase",
    "status",
    "mode",
    "request",
    *_NEVER_CUT,
    "plan",
    "plan_done",
    "plan_total",
    "step_number",
    "step",
    "tasks_done",
    "tasks_total",
    "loop",
    "limit",
    "elapsed",
    "running",
    "cards",
    "results",
    "digests",
    "asked",
    "op_get",
    "op_revise",
    "op_pause",
    "op_stop",
)

_ASK_PLAN: Final = (
    "operations",
    "request",
    "goal",
    "constraints",
    "requirements",
    "workspace",
    "conversation",
    "plan",
    "rejection",
    "avoid",
    "soft_steps",
    "problems",
)

_ASK_TASKS: Final = (
    "operations",
    "arguments",
    "request",
    "constraints",
    "plan_goal",
    "plan",
    "step_number",
    "step",
    "needs",
    "conversation",
    "tasks",
    "results",
    "failure",
    "problems",
)

_ASK_REQUIREMENTS: Final = (
    "workspace",
    "constraints",
    "conversation",
    "requirements",
    "request",
)

_ASK_SATISFACTION: Final = (
    "wanted",
    "request",
    "said",
    "constraints",
    "requirements",
    "changes",
    "log",
    "reply",
)

_ASK_MISSING: Final = ("request", "requirements", "judgement", "log", "reply")

_ASK_FAILURE: Final = (
    "request",
    "workspace",
    "operations",
    "succeeded",
    "failed",
    "missing",
    "errors",
    "results",
)

_ASK_CONTINUATION: Final = (
    "soft_steps",
    "operations",
    "request",
    "constraints",
    "requirements",
    "missing",
    "problems",
    "partial",
    "suggestions",
    "alternatives",
    "attempts",
    "errors",
    "avoid",
    "limitations",
    "unavailable",
    "instructions",
)

_ASK_DIGEST: Final = ("limit", "request", "wish", "text")

_ASK_REPORT: Final = (
    "request",
    "plan_name",
    "plan_goal",
    "criteria",
    "step_number",
    "step",
    "status",
    "note",
    "counts",
    "log",
    "next_steps",
)


@dataclass(frozen=True, slots=True)
class _File:
    fields: tuple[str, ...] = ()
    required: tuple[str, ...] = ()  # what a file changed by a user may not lose


_FILES: Final[dict[str, _File]] = {
    "base": _File(),
    "session": _File(_SESSION),
    "operations": _File(("operations", "op_tasks", "op_remember", "op_recall"), ("operations",)),
    "project": _File(("instructions",), ("instructions",)),
    "no_project": _File(),
    "main": _File(_MAIN, _NEVER_CUT),
    "step": _File(_STEP, (*_NEVER_CUT, "step", "results")),
    "step_opening": _File(("step",), ("step",)),
    "aside": _File(_ASIDE, _NEVER_CUT),
    "planning": _File(("plan", "learned", "avoid", "op_propose")),
    "execution": _File(("plan", "step", "learned")),
    "review": _File(("criteria", "evidence", "results", "changes")),
    "format_json": _File((*_LIMITS, "arguments")),
    "format_tools": _File(_LIMITS),
    "left_out": _File(("characters", "handle", "op_read")),
    "compacted": _File(("digest",), ("digest",)),
    "nothing": _File(),
    "ask_plan": _File(_ASK_PLAN, ("operations", "goal")),
    "ask_tasks": _File(_ASK_TASKS, ("operations", "step")),
    "ask_report": _File(_ASK_REPORT, ("counts", "log")),
    "ask_requirements": _File(_ASK_REQUIREMENTS, ("request",)),
    "ask_satisfaction": _File(_ASK_SATISFACTION, ("wanted", "request", "requirements")),
    "ask_missing": _File(_ASK_MISSING, ("request", "requirements")),
    "ask_failure": _File(_ASK_FAILURE, ("request", "errors")),
    "ask_continuation": _File(_ASK_CONTINUATION, ("operations", "request", "missing", "avoid")),
    "ask_digest": _File(_ASK_DIGEST, ("text",)),
    "ask_again": _File(("problems",), ("problems",)),
}


LANGUAGES: Final = ("en", "ja")


@dataclass(frozen=True, slots=True)
class PromptTexts:
    """Every template of one language."""

    base: Template
    session: Template
    operations: Template
    project: Template
    no_project: Template
    main: Template
    step: Template
    step_opening: Template
    aside: Template
    planning: Template
    execution: Template
    review: Template
    format_json: Template
    format_tools: Template
    left_out: Template
    compacted: Template
    nothing: Template
    ask_plan: Template
    ask_tasks: Template
    ask_report: Template
    ask_requirements: Template
    ask_satisfaction: Template
    ask_missing: Template
    ask_failure: Template
    ask_continuation: Template
    ask_digest: Template
    ask_again: Template

    @classmethod
    def load(cls, folder: Path, language: str) -> PromptTexts:
        """Read ``folder/<language>/*.md``.

        Raises TemplateError for a missing file, an unknown field, a file without a field that
        must not be lost, and a file that nothing reads.
        """
        place = folder / language
        surplus = sorted(p.stem for p in place.glob("*.md") if p.stem not in _FILES)
        if surplus:
            raise TemplateError(f"{language}/{surplus[0]}.md: no prompt is called that")
        return cls(
            **{
                name: Template.read(place / f"{name}.md", file.fields, file.required)
                for name, file in _FILES.items()
            }
        )
