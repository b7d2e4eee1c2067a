"""Exports of a session: as Markdown for people, as JSON that can be read back, or only its
decisions or network traffic.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.session.blobs import LARGEST
from duckflow_tui.session.decisions import decisions_markdown
from duckflow_tui.session.facts import MARKS, SessionFacts, make_facts
from duckflow_tui.session.faults import SessionFault, make_fault
from duckflow_tui.session.folders import SessionFolder, draft_in, open_directory
from duckflow_tui.session.network import network_markdown
from duckflow_tui.session.reader import MAX_SEQ, SessionRead, Unread, read_session
from duckflow_tui.session.records import (
    SCHEMA,
    JournalHeader,
    Redact,
    as_bytes,
    header_of,
    is_event,
    redact_value,
)
from duckflow_tui.session.resume import open_to_read
from duckflow_tui.session.words import describe_session, format_time
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import ELLIPSIS, one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, Message, NoticeMessage, UserMessage
from duckflow_tui.state.gates import CardMessage
from duckflow_tui.state.goal import (
    AttemptMessage,
    Evidence,
    RequirementItem,
    ReviewMessage,
    is_outdated,
)
from duckflow_tui.state.lines import split_bare_lines
from duckflow_tui.state.memory import CompactionMessage
from duckflow_tui.state.operations import FileChange, Outcome, describe_target
from duckflow_tui.state.plan import Plan, ReportMessage, WorkStatus
from duckflow_tui.state.rewind import list_all_calls
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import verdict_words

Format = Literal["markdown", "json", "decisions", "network"]

FORMATS: Final[tuple[Format, ...]] = get_args(Format)
_HEAD: Final = 30  # lines of a result that are written, and of its end
_TAIL: Final = 10
_WIDEST: Final = 400  # characters of such a line

_STEP: Final = {
    WorkStatus.PENDING: "○",
    WorkStatus.IN_PROGRESS: "▶",
    WorkStatus.COMPLETED: "✓",
    WorkStatus.FAILED: "✗",
    WorkStatus.BLOCKED: "■",
    WorkStatus.SKIPPED: "–",
    WorkStatus.CANCELLED: "–",
}


def export_lines(path: Path, kind: Format, words: Catalogue, redact: Redact) -> Iterator[str]:
    """Yield the export of the session in this folder, line by line. Raises SessionFault."""
    if kind == "json":
        yield from json_lines(path, redact)
    elif kind == "decisions":
        state = open_to_read(path).state
        yield from split_bare_lines(decisions_markdown(state, words, redact))
    elif kind == "network":
        yield from split_bare_lines(network_markdown(open_to_read(path).state, words, redact))
    else:
        found = open_to_read(path)
        text = render_markdown(found.state, make_facts(path.name, found), words, redact)
        yield from split_bare_lines(text)


def make_export_name(session_id: str, kind: Format) -> str:
    """Return the default file name of an export."""
    endings = {"markdown": ".md", "json": ".json"}
    return f"duckflow-{session_id}{endings.get(kind, f'-{kind}.md')}"


def guess_format(name: str) -> Format:
    """Return the format for a file name: JSON for ``.json``, else Markdown."""
    return "json" if name.lower().endswith(".json") else "markdown"


def render_markdown(
    state: AgentState, facts: SessionFacts, words: Catalogue, redact: Redact
) -> str:
    """Render a session as a Markdown document. Secrets are redacted and control characters made
    visible.
    """
    paper = _Paper(state, words)
    paper.add_heading(facts)
    if state.objective is not None:
        paper.add_requirements(state.objective.extracted_requirements, words("export.requirements"))
    for request in reversed(state.earlier):
        name = _join_lines(request.original_query)
        paper.add_requirements(
            request.extracted_requirements, words("export.earlier_request", name=name)
        )
    for plan in state.listed_plans:
        paper.add_plan(plan)
    paper.add_changes(state)
    paper.add_block(f"## {words('export.conversation')}")
    for message in state.messages:
        paper.add_message(message)
    return redact(make_visible("\n\n".join(paper.blocks))) + "\n"


class _Paper:
    """Collects the blocks of a Markdown document about a session in ``blocks``."""

    def __init__(self, state: AgentState, words: Catalogue) -> None:
        self.blocks: list[str] = []  # each a paragraph, a list, a table or a fenced text
        self._above = ""  # what the model said last
        self._state, self._words = state, words

    def add_block(self, block: str) -> None:
        """Append a paragraph, list or fenced text; a blank one is left out."""
        if block.strip():
            self.blocks.append(block.rstrip())

    def add_heading(self, facts: SessionFacts) -> None:
        """Add the title and a list of the session's other facts."""
        self.add_block(f"# {_join_lines(facts.title)}")
        rows = [
            f"- {self._words(f'export.fact.{name}')}: {said}"
            for name, said in describe_session(facts, self._words)
            if name != "title"
        ]
        self.add_block("\n".join(rows))

    def add_requirements(self, items: Iterable[RequirementItem], title: str) -> None:
        """Add requirements with state, priority and evidence; nothing for none."""
        lines: list[str] = []
        for item in items:
            state = self._words(f"ledger.state.{item.state.value}")
            because = f" · {_join_lines(item.waived_because)}" if item.waived_because else ""
            lines.append(
                f"- {MARKS[item.state]} P{item.priority} {_join_lines(item.requirement)} — "
                f"{state}{because}"
            )
            lines += [f"  - {self._format_evidence(evidence)}" for evidence in item.evidence]
        if lines:
            self.add_block(f"## {title}")
            self.add_block("\n".join(lines))

    def add_plan(self, plan: Plan) -> None:
        """Add a plan with its goal and the state of each step."""
        done, steps = plan.progress
        name = _join_lines(plan.name)
        self.add_block(f"## {self._words('export.plan', name=name, done=done, steps=steps)}")
        self.add_block(_join_lines(plan.goal))
        lines: list[str] = []
        for number, step in enumerate(plan.steps, 1):
            note = f" — {_join_lines(step.note)}" if step.note else ""
            lines.append(f"{number}. {_STEP[step.status]} {_join_lines(step.name)}{note}")
        self.add_block("\n".join(lines))

    def add_changes(self, state: AgentState) -> None:
        """Add the files that calls changed; marks those undone since or left behind by a rewind."""
        calls = list_all_calls(state)
        found = {m.call_id: m for m in calls if m.result.undoable_changes}
        left = {message.call_id for message in state.left_behind}
        if not found:
            return
        self.add_block(f"## {self._words('export.changes')}")
        lines: list[str] = []
        for call_id, call in found.items():
            standing = state.list_standing_changes(call)
            for change in call.result.undoable_changes:
                undone = f" · {self._words('decisions.undone')}" if change not in standing else ""
                outside = f" · {self._words('export.left_behind')}" if call_id in left else ""
                lines.append(f"- {_describe_change(change)}{outside}{undone}")
        self.add_block("\n".join(lines))

    def add_message(self, message: Message) -> None:
        """Add one message of the session as the chat shows it."""
        words = self._words
        match message:
            case UserMessage():
                self._add_speaker("export.you", message.at)
                self.add_block(
                    "\n".join(f"> {line}".rstrip() for line in split_bare_lines(message.text))
                )
            case AssistantMessage():
                self._add_speaker("export.ai", message.at)
                self.add_block(message.text)
                self._above = message.text
                if not message.complete:
                    key = "transcript.stopped_here" if message.stopped else "transcript.cut_off"
                    self.add_block(f"*{words(key)}*")
            case OperationMessage():
                self._add_operation(message)
            case NoticeMessage():
                self.add_block(f"*{_join_lines(words(message.key, **message.params))}*")
            case CardMessage():
                kind = words(f"card.kind.{message.card.kind}")
                answer = _join_lines(f"{message.answer.action} {message.answer.full_text}")
                self.add_block(f"**{kind}** → {answer}")
            case ReportMessage():
                report = message.report
                sign = "✓" if report.status == "completed" else "✗"
                head = f"**{sign} {_join_lines(report.step_name)}**"
                said = "" if report.is_repeated_in(self._above) else _join_lines(report.summary)
                self.add_block(f"{head}: {said}" if said else head)
                told = report.told
                cause = self._words(told.key, **told.params) if told is not None else report.cause
                self.add_block(_join_lines(cause))
            case ReviewMessage():
                self._add_review(message)
            case AttemptMessage():
                number, limit = message.attempt, message.max_attempts
                said = words("review.attempt", number=number, limit=limit)
                self.add_block(f"**{said}** {_join_lines(message.plan.strategy)}")
            case CompactionMessage(compaction=found):
                before, after = f"{found.tokens_before:,}", f"{found.tokens_after:,}"
                self.add_block(f"**{words('compaction.title')}**: {before} → {after}")
                self.add_block(_join_lines(found.digest))

    def _add_speaker(self, key: str, at: float) -> None:
        """Add a heading with the speaker, by its entry of the words, and the time."""
        self.add_block(f"### {self._words(key)} · {format_time(at)}")

    def _add_operation(self, message: OperationMessage) -> None:
        """Add a call's verb, target, outcome and answer on a line, then its result, shortened."""
        words, result = self._words, message.result
        target = describe_target(message.args, 200)
        failed = result.outcome is Outcome.OK and not result.went_well  # it ran, with an exit code
        outcome = words(f"transcript.outcome.{Outcome.ERROR if failed else result.outcome}")
        verb = words.name_operations(message.operation)
        verb = verb if verb != message.operation else f"`{verb}`"
        parts = [verb, _inline_code(target), outcome, _join_lines(result.summary)]
        if message.answer is not None:
            parts.append(words(f"transcript.answer.{message.answer.choice}"))
            parts.append(_join_lines(message.answer.full_text))
        self.add_block(f"- {' · '.join(filter(None, parts))}")
        self.add_block(_fence_code(_shorten_text(result.text, words)))

    def _add_review(self, message: ReviewMessage) -> None:
        """Add a review's verdict and its requirements."""
        review = message.review
        outdated = is_outdated(self._state, review)
        self.add_block(f"**{_join_lines(verdict_words(review, self._words, outdated=outdated))}**")
        lines = [f"- {MARKS[item.state]} {_join_lines(item.requirement)}" for item in review.items]
        self.add_block("\n".join(lines))

    def _format_evidence(self, evidence: Evidence) -> str:
        """Return an evidence on one line: sign, source, exit code, excerpt."""
        sign = "✓" if evidence.supports else "✗"
        exit_code = "" if evidence.exit_code is None else f"exit {evidence.exit_code}"
        parts = [
            _inline_code(evidence.source),
            exit_code,
            _join_lines(one_line(evidence.text, 200)),
        ]
        return f"{sign} {' · '.join(filter(None, parts))}"


def _describe_change(change: FileChange) -> str:
    """Return a changed file as ``kind path → target +added −removed``."""
    target = f" → {_inline_code(change.target)}" if change.target else ""
    return f"{change.kind} {_inline_code(change.path)}{target} +{change.added} −{change.removed}"


def _shorten_text(text: str, words: Catalogue) -> str:
    """Return the first 30 and the last 10 lines of a text, with the number of lines left out
    between.
    """
    lines = [
        line if len(line) <= _WIDEST else line[:_WIDEST] + ELLIPSIS
        for line in split_bare_lines(text)
    ]
    hidden = len(lines) - _HEAD - _TAIL
    if hidden > 1:
        lines[_HEAD:-_TAIL] = [words("transcript.more_lines", count=hidden)]
    return "\n".join(lines)


def _fence_code(text: str) -> str:
    """Return the text as a code block whose fence is longer than any in the text; empty for a blank
    one.
    """
    if not text.strip():
        return ""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text}\n{fence}"


def _inline_code(text: str) -> str:
    """Return the text as inline code on one line; text with a backtick is not marked as code."""
    line = visible_line(text)
    if not line:
        return ""
    return _join_lines(line) if "`" in line else f"`{line}`"


def _join_lines(text: str) -> str:
    """Return the text on one line, so that it can neither begin a list nor end a heading."""
    return " ".join(text.split())


MARK: Final = "duckflow_session"  # the first key of such a file
VERSION: Final = 1
_LONG_NUMBER: Final = 20  # digits


def json_lines(path: Path, redact: Redact) -> Iterator[str]:
    """Yield the session as one JSON object in ASCII, one record a line, redacted. Raises
    SessionFault.
    """
    with closing(SessionFolder.open(path)) as folder:
        read = read_session(folder)
    head = {
        MARK: VERSION,
        "schema_version": SCHEMA,
        "header": redact_value(read.header.model_dump(), redact) if read.header else None,
        "lost": read.lost_count,
    }
    yield _to_text(head)[:-1] + ',"records":['
    last = len(read.entries) - 1
    for number, entry in enumerate(read.entries):
        event = redact_value(entry.fields, redact, is_event)
        record = {"seq": entry.seq, "at": entry.at, "event": event}
        yield _to_text(record) + ("," if number < last else "")
    yield "]}"


def read_export(path: Path) -> SessionRead:
    """Read the records of a file that ``json_lines`` wrote. Raises SessionFault."""
    data = _read_file(path)
    try:
        fields = cast("dict[str, Any]", json.loads(data, parse_int=_parse_integer))
        version, schema = int(fields[MARK]), int(fields["schema_version"])
        if version > VERSION or schema > SCHEMA:
            raise SessionFault("newer", path)
        return _read_records(fields)
    except (*(ValueError, TypeError, KeyError, AttributeError), *(OverflowError, RecursionError)):
        raise SessionFault("foreign", path) from None


def write_file(path: Path, lines: Iterable[str], *, replace: bool = False) -> None:
    """Write lines to a file with mode 0600, by way of a draft.

    Raises FileExistsError for an existing file unless ``replace`` is set, and OSError; an existing
    file is then unchanged and no draft is left.
    """
    if not replace and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():  # a device or a pipe, which are no place of ours
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), str(path))
    with open_directory(path.parent) as folder, draft_in(Disk(), folder) as draft:
        for line in lines:
            draft.write(line.encode("utf-8", "backslashreplace") + b"\n")
        draft.publish_as(folder, path.name, new=not replace)


def _read_records(fields: dict[str, Any]) -> SessionRead:
    """Convert the parsed JSON of an export to a ``SessionRead``; raises ValueError, TypeError or
    KeyError for a wrong form.
    """
    read = SessionRead()
    if fields.get("header") is not None:
        found = header_of({"journal": fields["header"]})
        read.header = found if isinstance(found, JournalHeader) else None
    for number, record in enumerate(cast("list[dict[str, Any]]", fields["records"])):
        seq = int(record["seq"])
        if seq > MAX_SEQ:
            read.unread.append(Unread(0, number, "no_event"))
        else:
            read.take_record(seq, 0, number, record.copy)
    return read


def _parse_integer(digits: str) -> int | float:
    """Convert digits to an int, or to a float where there are 20 or more, so that no event accepts
    them as a count.
    """
    return int(digits) if len(digits) < _LONG_NUMBER else float(digits)


def _read_file(path: Path) -> bytes:
    """Return the content of a regular file of at most 1 GB. Raises SessionFault, also for a
    blank, larger or other kind of file.
    """
    try:
        with open(
            path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)
        ) as file:
            status = os.fstat(file.fileno())
            # A pipe tells its beginning only once; no export is that large.
            if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
                raise SessionFault("foreign", path)
            # None: of a file of the system's own, which has nothing to say now.
            data = cast("bytes | None", file.read(LARGEST)) or b""
    except OSError as error:
        raise make_fault(path, error) from error
    if not data.strip():
        raise SessionFault("empty", path)
    return data


def _to_text(value: object) -> str:
    """Encode a value as a line of JSON in ASCII."""
    return as_bytes(value).decode("ascii")
