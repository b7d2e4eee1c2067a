"""Prompt files: text with ``{field}`` marks, filled in one pass, so that values stay as they are.

- A comment ``<!-- … -->`` at the top says what the file is for and is not sent.
- ``{name}`` is a field only where an identifier follows the brace, so JSON needs no escapes.
  There are no attributes, indices or conversions: ``{state.mode}`` is an error of the file.
- A line whose fields are all empty is left out, then a line before it that ends in a colon,
  then a heading under which nothing is left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Final, get_type_hints

from duckflow_tui.prompting.lines import SPOKEN
from duckflow_tui.state.base import ModelText

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
        kept: list[tuple[Sequence[str], str]] = []  # the template's own line, its text here
        for pieces in self._lines:
            text = pieces[0]
            if len(pieces) > 1:
                filled = list(pieces)
                filled[1::2] = map(given.__getitem__, pieces[1::2])
                if not any(filled[1::2]):
                    if kept and kept[-1][0][-1].endswith((":", "：")):
                        kept.pop()
                    continue
                text = "".join(filled)
            kept.append((pieces, text))
        result: list[str] = []
        pending: list[str] = []  # a heading and the blank lines after it, while nothing follows
        for pieces, text in kept:
            if pieces[0].startswith("#"):
                pending = [text]
            elif pending and not text.strip():
                pending.append(text)
            else:
                result.extend(pending)
                pending = []
                if text.strip() or not result or result[-1].strip():
                    result.append(text)
        return "\n".join(result).strip("\n")


@dataclass(frozen=True, slots=True)
class PromptTexts:
    """Every template of one language, each read from the file of its name. Beside it stand the
    fields that the file may use; one that it may not lose ends with ``!``.
    """

    base: Annotated[Template, ""]
    judge: Annotated[Template, ""]
    session: Annotated[
        Template,
        "session_id total_conversations last_updated total_files "
        "successful_operations learned_patterns user_settings earlier at_hand project",
    ]
    operations: Annotated[Template, "workspace"]
    project: Annotated[Template, "instructions!"]
    no_project: Annotated[Template, ""]
    main: Annotated[
        Template,
        "phase attempt max_attempts loop limit last_one mode refused_move request unfinished "
        "recovery overview maybe_other plan_done plan_total plan_step plan_brought "
        "execution_mode running why_now plan_brief open_questions context_refs decision_log "
        "last_delta by_user changed_outside digests goal_guess goal! constraints! "
        "requirements! gates!",
    ]
    step: Annotated[
        Template,
        "decision_log plan_name plan_goal plan_done plan_total step_number loop limit mode "
        "tasks digests changed_outside op_revise op_update recovery execution goal_guess goal! "
        "constraints! requirements! gates! step!",
    ]
    aside: Annotated[
        Template,
        "phase status mode request plan plan_done plan_total step_number step tasks_done "
        "tasks_total loop limit elapsed running cards results digests asked op_get op_revise "
        "op_pause op_stop goal! constraints! requirements! gates!",
    ]
    approval: Annotated[Template, "mode runs asks refused named held alone"]
    recovery: Annotated[Template, "error!"]
    planning: Annotated[Template, "plan learned avoid op_propose"]
    execution: Annotated[Template, "plan step learned"]
    review: Annotated[Template, "criteria evidence results changes"]
    format_json: Annotated[
        Template,
        "max_actions max_alternatives line item max_constraints max_plan_brief "
        "max_open_questions also operations!",
    ]
    format_tools: Annotated[
        Template,
        "max_actions max_alternatives line item max_constraints max_plan_brief "
        "max_open_questions also operations",
    ]
    left_out: Annotated[Template, "characters handle op_read"]
    left_line: Annotated[Template, "about!"]
    compacted: Annotated[Template, "digest!"]
    in_hand: Annotated[Template, "files!"]
    nothing: Annotated[Template, ""]
    ask_plan: Annotated[
        Template,
        "workspace conversation plans rejection avoid learned files soft_steps problems "
        "operations! asked! goal!",
    ]
    ask_tasks: Annotated[
        Template,
        "plan_goal plan step_number needs conversation tasks results files failure problems "
        "operations! asked! step!",
    ]
    ask_report: Annotated[
        Template,
        "plan_name plan_goal criteria step_number step status note next_steps said asked! "
        "counts! log!",
    ]
    ask_requirements: Annotated[Template, "workspace conversation ids waived since asked!"]
    ask_satisfaction: Annotated[Template, "conversation plan wanted! asked! requirements! facts!"]
    ask_missing: Annotated[Template, "judgement conversation asked! requirements! facts!"]
    ask_failure: Annotated[
        Template,
        "workspace operations succeeded failed missing results asked! errors!",
    ]
    ask_continuation: Annotated[
        Template,
        "soft_steps plans files found partial suggestions alternatives attempts errors "
        "limitations unavailable instructions operations! asked! missing! avoid!",
    ]
    ask_digest: Annotated[Template, "limit wish asked! text!"]
    asked: Annotated[Template, "said constraints decisions requirements request!"]
    ask_again: Annotated[Template, "problems!"]

    @classmethod
    @cache
    def load(cls, folder: Path, language: str) -> PromptTexts:
        """Read ``folder/<language>/*.md``, once in the life of a process.

        Raises TemplateError for a missing file, an unknown field, a file without a field that
        must not be lost, and a file that nothing reads.
        """
        place = folder / language
        files = _template_fields()
        known = {*files, *_NOTICES}
        surplus = sorted(path.stem for path in place.glob("*.md") if path.stem not in known)
        if surplus:
            raise TemplateError(f"{language}/{surplus[0]}.md: no prompt is called that")
        read: dict[str, Template] = {}
        for name, fields in files.items():
            must = [field[:-1] for field in fields if field.endswith("!")]
            may = [field.removesuffix("!") for field in fields]
            read[name] = Template.read(place / f"{name}.md", may, must)
        return cls(**read)


#: Files of short texts, a section for each.
_NOTICES: Final = ("notices", "refusals")


@cache
def load_notices(folder: Path, language: str) -> Mapping[str, Template]:
    """The sections of ``notices.md`` and ``refusals.md`` of a language by their names, read once in
    the life of a process. Raises TemplateError for a file that cannot be read.
    """
    found: dict[str, Template] = {}
    for file in _NOTICES:
        source = f"{language}/{file}.md"
        try:
            text = (folder / source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TemplateError(f"{source}: cannot be read: {error}") from error
        parts = re.split(r"^:: (\S+)\n", text, flags=re.MULTILINE)
        for name, words in zip(parts[1::2], parts[2::2], strict=True):
            found[name] = Template(f"{source}:{name}", words, _MARK.findall(words))
    return found


def notice_words(folder: Path, language: str) -> Callable[..., str]:
    """A function that renders a section by its name and values, or a ``ModelText``; a section may
    also speak of operations.
    """
    texts = load_notices(folder, language)

    def render_value(value: str | ModelText | Sequence[str | ModelText]) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, ModelText):
            return render_notice(value)
        return "\n".join(map(render_value, value))

    def render_notice(text: str | ModelText, /, **values: str | ModelText) -> str:
        name, given = (text.name, text.values) if isinstance(text, ModelText) else (text, values)
        rendered = {field: render_value(value) for field, value in given.items()}
        return texts[name].render({**SPOKEN, **rendered})

    return render_notice


@cache
def _template_fields() -> dict[str, list[str]]:
    """Template fields allowed for each field of PromptTexts."""
    hints = get_type_hints(PromptTexts, include_extras=True)
    return {name: hint.__metadata__[0].split() for name, hint in hints.items()}
