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
from functools import cache
from pathlib import Path
from typing import Annotated, Final, NamedTuple, get_type_hints

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
        kept: list[tuple[bool, str]] = []  # whether it is the template's own heading, its text
        for pieces in self._lines:
            filled = list(pieces)
            filled[1::2] = map(given.__getitem__, pieces[1::2])
            if len(filled) > 1 and not any(filled[1::2]):
                if kept and kept[-1][1].endswith((":", "：")):
                    kept.pop()
                continue
            kept.append((pieces[0].startswith("#"), "".join(filled)))
        result: list[str] = []
        pending: list[str] = []  # a heading and the blank lines after it, while nothing follows
        for is_heading, text in kept:
            if is_heading:
                pending = [text]
            elif pending and not text.strip():
                pending.append(text)
            else:
                result.extend(pending)
                pending = []
                if text.strip() or not result or result[-1].strip():
                    result.append(text)
        return "\n".join(result).strip("\n")


LANGUAGES: Final = ("en", "ja")

_NEVER_CUT: Final = "goal constraints requirements gates"

_LIMITS: Final = (
    "max_actions max_alternatives line item max_constraints max_plan_brief max_open_questions also"
)


class _File(NamedTuple):
    """The fields that a prompt file may use, and those that it may not lose."""

    may: str = ""
    must: str = ""


@dataclass(frozen=True, slots=True)
class PromptTexts:
    """Every template of one language, each read from the file of its name."""

    base: Annotated[Template, _File()]
    judge: Annotated[Template, _File()]
    session: Annotated[
        Template,
        _File(
            "session_id workspace total_conversations last_updated total_files "
            "successful_operations learned_patterns user_settings earlier",
        ),
    ]
    operations: Annotated[Template, _File("op_tasks op_remember op_recall also")]
    project: Annotated[Template, _File(must="instructions")]
    no_project: Annotated[Template, _File()]
    main: Annotated[
        Template,
        _File(
            "phase status status_detail attempt max_attempts loop limit mode request unfinished "
            "recovery profiles overview maybe_other plan_done plan_total plan_step plan_brought "
            "execution_mode op_propose first running why_now plan_brief open_questions "
            "context_refs decision_log last_delta by_user changed_outside digests",
            must=_NEVER_CUT,
        ),
    ]
    step: Annotated[
        Template,
        _File(
            "plan_name plan_goal plan_done plan_total conversation step_number loop limit "
            "mode tasks digests changed_outside op_revise recovery execution",
            must=f"{_NEVER_CUT} step results",
        ),
    ]
    step_opening: Annotated[Template, _File("needs results files", must="asked")]
    aside: Annotated[
        Template,
        _File(
            "phase status mode request plan plan_done plan_total step_number step tasks_done "
            "tasks_total loop limit elapsed running cards results digests asked op_get op_revise "
            "op_pause op_stop",
            must=_NEVER_CUT,
        ),
    ]
    approval: Annotated[Template, _File("plan strict standard trusted named alone")]
    profiles: Annotated[Template, _File()]
    recovery: Annotated[Template, _File(must="error")]
    planning: Annotated[Template, _File("plan learned avoid op_propose")]
    execution: Annotated[Template, _File("plan step learned")]
    review: Annotated[Template, _File("criteria evidence results changes")]
    format_json: Annotated[Template, _File(_LIMITS, must="operations")]
    format_tools: Annotated[Template, _File(_LIMITS)]
    left_out: Annotated[Template, _File("characters handle op_read")]
    left_line: Annotated[Template, _File(must="about")]
    compacted: Annotated[Template, _File(must="digest")]
    in_hand: Annotated[Template, _File(must="files")]
    nothing: Annotated[Template, _File()]
    ask_plan: Annotated[
        Template,
        _File(
            "workspace conversation plans rejection avoid learned files soft_steps problems",
            must="operations asked goal",
        ),
    ]
    ask_tasks: Annotated[
        Template,
        _File(
            "plan_goal plan step_number needs conversation tasks results files failure problems",
            must="operations asked step",
        ),
    ]
    ask_report: Annotated[
        Template,
        _File(
            "plan_name plan_goal criteria step_number step status note next_steps said",
            must="asked counts log",
        ),
    ]
    ask_requirements: Annotated[
        Template,
        _File(
            "workspace conversation ids waived since",
            must="asked",
        ),
    ]
    ask_satisfaction: Annotated[
        Template,
        _File(
            "again changes log reply",
            must="wanted asked requirements",
        ),
    ]
    ask_missing: Annotated[Template, _File("judgement log reply", must="asked requirements")]
    ask_failure: Annotated[
        Template,
        _File(
            "workspace operations succeeded failed missing results",
            must="asked errors",
        ),
    ]
    ask_continuation: Annotated[
        Template,
        _File(
            "soft_steps plans files found partial suggestions alternatives attempts errors "
            "limitations unavailable instructions",
            must="operations asked missing avoid",
        ),
    ]
    ask_digest: Annotated[Template, _File("limit wish", must="asked text")]
    asked: Annotated[Template, _File("said constraints decisions requirements", must="request")]
    ask_again: Annotated[Template, _File(must="problems")]

    @classmethod
    def load(cls, folder: Path, language: str) -> PromptTexts:
        """Read ``folder/<language>/*.md``.

        Raises TemplateError for a missing file, an unknown field, a file without a field that
        must not be lost, and a file that nothing reads.
        """
        place = folder / language
        files = _files()
        surplus = sorted(path.stem for path in place.glob("*.md") if path.stem not in files)
        if surplus:
            raise TemplateError(f"{language}/{surplus[0]}.md: no prompt is called that")
        read: dict[str, Template] = {}
        for name, file in files.items():
            may, must = file.may.split(), file.must.split()
            read[name] = Template.read(place / f"{name}.md", (*may, *must), must)
        return cls(**read)


@cache
def _files() -> dict[str, _File]:
    """What stands beside each field of PromptTexts."""
    hints = get_type_hints(PromptTexts, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}
