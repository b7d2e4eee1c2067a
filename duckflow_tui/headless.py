"""Runs one turn without a screen (``-p``), with output as text or as JSON lines."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, NamedTuple, TextIO

from duckflow_tui.commands import Invocation, describe_unknown, parse_command
from duckflow_tui.engine import Engine
from duckflow_tui.safety.rules import ANY_END, format_flags, rules_for
from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.session.decisions import decisions_markdown
from duckflow_tui.session.faults import log_fault
from duckflow_tui.session.network import network_markdown
from duckflow_tui.session.records import redact_value
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import LocalizedText, describe_error, one_line
from duckflow_tui.state.calls import OperationFinished, OperationMessage, OperationOutput
from duckflow_tui.state.conversation import AssistantReplied, Level, NoticeAdded
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.goal import (
    AttemptStarted,
    ObjectiveReviewed,
    RequirementState,
    Review,
)
from duckflow_tui.state.memory import Compaction, ContextCompacted
from duckflow_tui.state.operations import ApprovalMode, Outcome
from duckflow_tui.state.plan import WorkStatus
from duckflow_tui.state.plan_events import ReportAdded, StepChanged
from duckflow_tui.state.processes import ProcessOutput
from duckflow_tui.state.store import Record, Recorder
from duckflow_tui.state.turn import TurnFinished, TurnOutcome
from duckflow_tui.state.usage import LlmWaiting, ReasoningDelta, ReplyDelta, Waiting
from duckflow_tui.tools.mcp.offers import PromptRefused, parse_prompt_name
from duckflow_tui.tools.session_diff import diff_text
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import (
    figures_words,
    find_target,
    lack_words,
    no_digest_words,
    reason_words,
    verdict_words,
    waiting_words,
)

EXIT_STATUS: Final[dict[TurnOutcome, int]] = {
    "done": 0,
    "answered": 0,
    "failed": 1,
    "partial": 1,
    "denied": 3,
    "limit": 4,
    "stopped": 130,
}

#: Events that carry a piece of a text.
Piece = ReplyDelta | ReasoningDelta | OperationOutput | ProcessOutput

WAITS: Final = 5  # the exit status of a turn that ended with a question to the user
USAGE: Final = 2  # the exit status of a command that does not run here
MOMENT: Final = 0.05  # seconds that a caller waits for its text to be written
MOST_WAITING: Final = 64_000_000  # characters for a reader that does not read
READ_WITHIN: Final = 0.5  # seconds that a reader is given after a signal
LEAVE_WITHIN: Final = 2.5  # seconds from a signal to the end of the process


class HeadlessOptions(NamedTuple):
    """Options of a run without a screen. ``stream`` adds transient events and needs ``as_json``.
    ``sandboxed``: the command line allows all commands in the sandbox (R19). ``is_piped``: the
    text came from a pipe, so it is a message even if it looks like a command.
    """

    text: str
    as_json: bool = False
    stream: bool = False
    sandboxed: bool = False
    is_piped: bool = False


class TaskSpawn:
    """Starts the loops' coroutines as asyncio tasks; keeps the newest error of a task in
    ``broken``.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self.broken: BaseException | None = None
        self.loop_broke = asyncio.Event()  # set when a task ended with an error

    def __call__(self, coroutine: Coroutine[Any, Any, None], group: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine, name=group)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[None]) -> None:
        """Forget an ended task; store its error and set ``loop_broke``."""
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is None:
            return
        self.broken = task.exception()
        self.loop_broke.set()

    async def end_tasks(self) -> None:
        """Cancel the running tasks and wait for their end."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Outlet:
    """Writes text to streams in a thread, so that a stalled reader does not block the work.

    While nothing else is queued, a write waits up to 50 ms for its result, so that a lost output is
    noticed before the work goes on.
    """

    def __init__(self) -> None:
        self._texts: queue.SimpleQueue[tuple[TextIO, str]] = queue.SimpleQueue()
        self._guard = threading.Lock()  # of the two below
        self._waiting = 0  # characters
        self._lost: dict[TextIO, OSError] = {}  # streams that cannot be written
        self.idle = threading.Event()  # all was written, or cannot be
        self.idle.set()
        threading.Thread(target=self._write_loop, name="outlet", daemon=True).start()

    def write_text(self, stream: TextIO, text: str) -> None:
        """Queue a text for the stream; wait up to 50 ms for it where nothing else is queued. Raises
        OSError if the stream has failed, or over 64 million characters are queued.
        """
        behind = not self.idle.is_set()
        with self._guard:
            if self._waiting > MOST_WAITING:
                self._lost.setdefault(stream, OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS)))
            if stream not in self._lost:
                self._waiting += len(text)
                self.idle.clear()
                self._texts.put((stream, text))
        if not behind:
            self.idle.wait(MOMENT)
        if stream in self._lost:
            raise self._lost[stream]

    def error_of(self, stream: TextIO) -> OSError | None:
        """Return the error that made the stream unusable; None while it can be written."""
        return self._lost.get(stream)

    def _write_loop(self) -> None:
        """Write queued texts to their streams. The body of the thread; errors are kept for each
        stream.
        """
        while True:
            stream, text = self._texts.get()
            if stream not in self._lost:
                try:
                    stream.write(text)
                    stream.flush()
                except OSError as error:
                    self._lost[stream] = error
                except Exception as error:  # noqa: BLE001 - the thread may not end unsaid
                    self._lost[stream] = OSError(errno.EIO, describe_error(error))
            with self._guard:
                self._waiting -= len(text)
                if self._texts.empty():
                    self.idle.set()


async def run_turn(
    open_engine: Callable[[TaskSpawn], AbstractAsyncContextManager[Engine]],
    options: HeadlessOptions,
    catalogue: Catalogue,
    out: TextIO | None = None,
    err: TextIO | None = None,
    leave: Callable[[int], None] = os._exit,
) -> int:
    """Run one turn and return its exit status: 0 done, 1 failed or partial, 2 a command that cannot
    run here, 3 denied, 4 limit, 5 a question to the user, 130 stopped, 143 after SIGTERM, 129
    after SIGHUP.

    ``out`` and ``err`` are the standard streams by default; their readers are waited for. After a
    signal the run ends within three seconds; if something blocks it, ``leave`` ends the process
    with the status.
    """
    turn = _Turn(catalogue, out or sys.stdout, err or sys.stderr, leave)
    try:
        async with open_engine(turn.spawn) as engine:
            status = await turn.run(engine, options)
        if isinstance(turn.printer, _JsonLines) and turn.printer.printing is not None:
            await asyncio.wait((turn.printer.printing,), timeout=READ_WITHIN)
    finally:
        if turn.deadline is not None:
            turn.deadline.cancel()
    if not turn.has_written():  # after a signal; a flush now could block for ever
        leave(status)
    return status


class _Turn:
    """The single turn of a run; a signal or a lost output ends it early."""

    def __init__(
        self, catalogue: Catalogue, out: TextIO, err: TextIO, leave: Callable[[int], None]
    ) -> None:
        self.spawn = TaskSpawn()
        self.outlet = Outlet()
        one_place = out.isatty() and err.isatty()  # the order of the two matters then
        self._err_outlet = self.outlet if one_place else Outlet()
        self.deadline: threading.Timer | None = None  # after a signal
        self.printer: _JsonLines | _Words | None = None
        self._say = catalogue
        self._out = out
        self._err = err
        self._leave = leave

    async def run(self, engine: Engine, options: HeadlessOptions) -> int:
        """Run the turn and return its exit status."""
        loop = asyncio.get_running_loop()
        finished: asyncio.Future[int] = loop.create_future()  # the exit status
        ended_by: asyncio.Future[int] = loop.create_future()
        if options.as_json:
            printer = _JsonLines(
                self.outlet, options.stream, self._out, engine.store.recorder, engine.redact
            )
        else:
            one_place = self._err_outlet is self.outlet
            printer = _Words(
                self.outlet, self._say, self._out, self._print_note, one_place=one_place
            )
        self.printer = printer
        lost: list[OSError] = []  # errors of an output that nobody reads any more
        stopping = False

        def follow(state: AgentState, record: Record) -> None:
            """Print a record; note the turn's end; stop the work once the output is lost."""
            nonlocal stopping
            if isinstance(record.event, TurnFinished) and not finished.done():
                event = record.event
                waits = event.question is not None and event.outcome == "partial"
                finished.set_result(WAITS if waits else EXIT_STATUS[event.outcome])
            if not lost:
                try:
                    printer.show(record, state)
                except OSError as error:
                    lost.append(error)
            if lost and not stopping and state.turn is not None:
                stopping = True
                engine.stop()

        def stop(number: int) -> None:
            """Handle a signal: stop the turn, and end the process after a deadline."""
            if ended_by.done():
                return
            ended_by.set_result(number)
            self.deadline = threading.Timer(LEAVE_WITHIN, self._leave, (128 + number,))
            self.deadline.daemon = True
            self.deadline.start()
            engine.stop()
            if engine.store.state.turn is None and not finished.done():
                finished.set_result(
                    EXIT_STATUS["stopped"]
                )  # there is no turn yet that could say so

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)
        for record in engine.begun:
            follow(engine.store.state, record)
        typed, text = None if options.is_piped else parse_command(options.text), options.text
        quoted = options.is_piped
        if typed is not None and typed.command is None and engine.servers is not None:
            named = parse_prompt_name(typed.name)
            try:
                if named is not None:
                    text, typed = await engine.servers.fetch_prompt(*named, typed.argument), None
                    quoted = True
            except PromptRefused as refused:
                self._print_note(self._say.localize(refused.told))
                return USAGE
        if typed is not None and (refused := _why_not_now(typed, engine.store.state)) is not None:
            self._print_note(self._say.localize(refused))
            return USAGE
        if options.sandboxed and not await engine.rules.allow_in_sandbox():
            level = self._say(f"status.sandbox.{engine.store.state.session.sandbox}")
            self._print_note(self._say("headless.not_sandboxed", level=level))
            return USAGE
        if rule := await engine.rules.find_unusable_rule():
            level = self._say(f"status.sandbox.{engine.store.state.session.sandbox}")
            exact = visible_line(rule.removesuffix(ANY_END))
            said = self._say("headless.not_held", rule=visible_line(rule), exact=exact, level=level)
            self._print_note(said)
            return USAGE
        engine.store.subscribe(follow)
        chat = self.spawn(engine.chat_loop(), "chat")
        try:
            if typed is None:
                await engine.note_project_files()
                await engine.send(text or engine.suggestion, quoted=quoted)
            else:
                works = await self._works_after(typed, engine, as_json=options.as_json)
                if not works and not finished.done():
                    finished.set_result(EXIT_STATUS["done"])
            broken = asyncio.create_task(self.spawn.loop_broke.wait())
            await asyncio.wait((finished, chat, broken), return_when=asyncio.FIRST_COMPLETED)
            broken.cancel()
            # After an error in a loop no turn ends any more.
            status = finished.result() if finished.done() else EXIT_STATUS["failed"]
        finally:
            await self.spawn.end_tasks()
        if isinstance(printer, _JsonLines) and (printing := printer.printing) is not None:
            await asyncio.wait((printing, ended_by), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait((printing,), timeout=READ_WITHIN)
            error = printing.exception() if printing.done() else None
            if isinstance(error, OSError) and not lost:
                lost.append(error)
        if self.spawn.broken is not None:
            self._print_note(self._say.localize(log_fault(self.spawn.broken)))
        written = asyncio.create_task(asyncio.to_thread(self._wait_until_written))
        await asyncio.wait((written, ended_by), return_when=asyncio.FIRST_COMPLETED)
        if ended_by.done():
            await asyncio.wait((written,), timeout=READ_WITHIN)
        written.cancel()
        if ended_by.done():
            return 128 + ended_by.result()
        error = lost[0] if lost else self.outlet.error_of(self._out)
        if error is None:
            return status
        if not isinstance(error, BrokenPipeError):  # else the reader has enough, as ``head``
            self._print_note(self._say("headless.unwritten", error=error.strerror or str(error)))
            await asyncio.to_thread(self._err_outlet.idle.wait, READ_WITHIN)
        return EXIT_STATUS["failed"]

    def has_written(self) -> bool:
        """Whether all texts were written, or cannot be."""
        return self.outlet.idle.is_set() and self._err_outlet.idle.is_set()

    def _wait_until_written(self) -> None:
        """Block until all texts were written, or cannot be."""
        self.outlet.idle.wait()
        self._err_outlet.idle.wait()

    async def _works_after(self, typed: Invocation, engine: Engine, *, as_json: bool) -> bool:
        """Run a typed command and return whether the session works afterwards. ``as_json``:
        standard output is reserved for records.
        """
        assert typed.command is not None
        if _is_printable(typed):
            text = await _command_text(typed, engine, self._say)
            if as_json:
                self._print_note(text.rstrip("\n"))
            else:
                with contextlib.suppress(OSError):  # reported at the end
                    self.outlet.write_text(self._out, text)
            return False
        assert typed.command.act is not None
        work = typed.command.act(engine, typed.argument, self._on_command_notice)
        if work is not None:
            await work
        return engine.is_working

    def _on_command_notice(self, key: str, *, stays: bool = False, **params: object) -> None:
        """Print the message of a command on standard error."""
        if key:
            told = {
                n: self._say.localize(v) if isinstance(v, LocalizedText) else v
                for n, v in params.items()
            }
            self._print_note(self._say(key, **told))

    def _print_note(self, text: str) -> None:
        """Print a line on standard error; a lost stream is ignored."""
        with contextlib.suppress(OSError):
            self._err_outlet.write_text(self._err, f"{text}\n")


def _why_not_now(typed: Invocation, state: AgentState) -> LocalizedText | None:
    """Return why a typed command cannot run without a screen; None where it can."""
    if typed.command is None:
        return describe_unknown(typed.name)
    problem = typed.command.problem(typed.argument, state)
    if problem is None and not (typed.command.acts_with(typed.argument) or _is_printable(typed)):
        return LocalizedText(key="headless.needs_screen", params={"name": typed.name})
    return problem


def _is_printable(typed: Invocation) -> bool:
    """Whether the command's page can be printed as text."""
    name = typed.command.name if typed.command is not None else ""
    return (name, typed.argument) in (("network", ""), ("decisions", ""), ("diff", "session"))


async def _command_text(typed: Invocation, engine: Engine, words: Catalogue) -> str:
    """Return the output of a printable command, in Markdown or as a diff; secrets are redacted and
    control characters made visible.
    """
    state, redact = engine.store.state, engine.redact
    if typed.name == "network":
        return network_markdown(state, words, redact)
    if typed.name == "decisions":
        return decisions_markdown(state, words, redact)
    files, command = await engine.session_diff()
    blocks: list[str] = [
        make_visible(redact(diff_text(preview, words.localize))) for preview in files
    ]
    if not files:
        blocks.append(f"{words('diff.session_none')}\n")
    if command:
        blocks.append(f"{words('diff.session_command', command=one_line(command, 100))}\n")
    return "".join(blocks)


class _JsonLines:
    """Prints each record as a line of JSON in ASCII, redacted as in the journal, once the record is
    on disk; at once where the session is not recorded.

    Text that arrives in pieces is printed in complete lines, so that redaction sees each secret
    whole; an unfinished line is printed before the next record of the journal.
    """

    def __init__(
        self,
        outlet: Outlet,
        stream: bool,
        out: TextIO,
        recorder: Recorder,
        redact: Callable[[str], str],
    ) -> None:
        self._outlet = outlet
        self._stream = stream
        self._out = out
        self._recorder = recorder
        self._redact = redact
        #: Unfinished lines: text after the last line break, by an event without its text.
        self._partial: dict[Piece, str] = {}
        self._due: list[Record] = []
        self._newest = 0  # the last number among them
        self.printing: asyncio.Task[None] | None = None  # runs until all due records are printed

    def show(self, record: Record, state: AgentState) -> None:
        """Queue a record for printing. Raises OSError where earlier ones could not be printed."""
        if self.printing is not None and self.printing.done():
            self.printing.result()
            self.printing = None
        if record.seq is not None or self._stream:
            self._due += self._join_lines(record)
            self._newest = record.seq or self._newest
            self.printing = self.printing or asyncio.create_task(self._print_pending())

    def _join_lines(self, record: Record) -> list[Record]:
        """Return the records to print now: the complete lines of a text that arrives in pieces, or
        the record, preceded by unfinished lines.
        """
        event = record.event
        if not isinstance(event, Piece):
            if record.seq is None:
                return [record]
            partial, self._partial = self._partial, {}
            return [
                *(
                    Record(seq=None, at=record.at, event=source.replace(text=rest, at=record.at))
                    for source, rest in partial.items()
                ),
                record,
            ]
        source = event.replace(text="", at=0.0)
        head, line_break, rest = (self._partial.pop(source, "") + event.text).rpartition("\n")
        if rest:
            self._partial[source] = rest
        return [record.replace(event=event.replace(text=head + line_break))] if line_break else []

    async def _print_pending(self) -> None:
        """Print the queued records, each batch once it is on disk."""
        while self._due:
            due, self._due = self._due, []
            await self._recorder.wait_until_flushed(self._newest)
            for record in due:
                line = await asyncio.to_thread(self._make_line, record)
                self._outlet.write_text(self._out, line)

    def _make_line(self, record: Record) -> str:
        """Return a record as a redacted line of JSON."""
        fields = redact_value(record.as_json(), self._redact)
        return json.dumps(fields, ensure_ascii=True) + "\n"


class _Words:
    """Prints the turn's last reply on standard output, and everything else on standard error."""

    def __init__(
        self,
        outlet: Outlet,
        catalogue: Catalogue,
        out: TextIO,
        tell: Callable[[str], None],
        *,
        one_place: bool,
    ) -> None:
        """``tell`` prints a line on standard error; ``one_place``: both streams go to the same
        terminal.
        """
        self._outlet = outlet
        self._say = catalogue
        self._out = out
        self._tell = tell
        self._one_place = one_place
        self._held = ""  # the newest reply, which may be the turn's last
        self._flags: dict[str, None] = {}  # flags that would have allowed denied calls
        self._all_have_flags = True  # whether each denied call has such a flag
        self._narrated = ""  # the newest reply printed on standard error

    def show(self, record: Record, state: AgentState) -> None:
        """Print a record in words; most kinds print nothing. Raises OSError where standard output
        is lost.
        """
        event = record.event
        match event:
            case AssistantReplied(message=message) if message.text:
                self._print_narration()
                self._held = message.text
                acts = message.decision is not None and bool(message.decision.actions)
                if acts or message.step_id or message.aside:
                    self._print_narration()
            case LlmWaiting(waiting=Waiting() as waiting):
                self._tell(f"· {waiting_words(waiting, record.at, self._say)}")
            case OperationFinished(message=message):
                result = message.result
                if result.outcome is Outcome.DENIED:
                    flags = _flags_for(message)
                    self._flags |= dict.fromkeys(flags)
                    self._all_have_flags = self._all_have_flags and bool(flags)
                target = make_visible(one_line(_describe_target(message), 100))
                how = "error" if result.exit_code else result.outcome
                self._tell(
                    self._say(
                        "headless.operation",
                        operation=make_visible(self._say.name_operations(message.operation)),
                        target=target,
                        outcome=self._say(f"transcript.outcome.{how}"),
                        summary=make_visible(
                            figures_words(message.operation, _describe_figures(message), self._say)
                        ),
                    )
                )
            case NoticeAdded(message=notice):
                sign = {Level.INFO: "·", Level.WARNING: "!", Level.ERROR: "✗"}[notice.level]
                self._tell(f"{sign} {self._say(notice.key, **notice.params)}")
            case ContextCompacted(compaction=made):
                self._tell(self._describe_compaction(made))
            case StepChanged(status=WorkStatus.IN_PROGRESS):
                self._tell(f"▶ {make_visible(_step_name(state, event))}")
            case ReportAdded(message=message):
                report = message.report
                sign = "✓" if report.status == "completed" else "✗"
                words = make_visible(" ".join((report.cause or report.summary).split()))
                if report.told is not None:
                    words = self._say(report.told.key, **report.told.params)
                self._tell(f"{sign} {make_visible(report.step_name)}: {words}")
            case ObjectiveReviewed(message=message):
                review = message.review
                if review.follows:
                    self._print_narration()  # a further attempt follows
                self._tell(self._describe_review(review))
            case AttemptStarted(message=message):
                number, limit = message.attempt, message.max_attempts
                say = self._say("review.attempt", number=number, limit=limit)
                self._tell(f"▸ {say}")
            case TurnFinished(reply=reply, question=question):
                if self._held != reply:
                    self._print_narration()
                if reply and not (self._one_place and reply == self._narrated):
                    self._outlet.write_text(self._out, f"{make_visible(reply)}\n")
                asked = question is not None and question.text not in reply
                rows = [question.text] if question is not None and asked else []
                for number, option in enumerate(question.options if question else (), start=1):
                    rows.append(f"  {number}  {option}")
                if rows:
                    self._outlet.write_text(self._out, make_visible("\n".join(rows)) + "\n")
                if (outcome := event.outcome) not in ("done", "answered"):  # a notice said so
                    waits = question is not None and outcome == "partial"
                    code = event.reason.code if event.reason is not None else ""
                    stuck = outcome == "limit" and self._say.has(f"consult.cause.{code}")
                    if outcome == "limit":
                        self._tell(self._describe_end(event, state))
                    key = "stuck" if stuck and code != "limit" else outcome
                    key = "question" if waits else code if code == "from_text" else key
                    if key == "denied" and self._flags and self._all_have_flags:
                        key = "denied_by"
                    flags = make_visible(" ".join(self._flags))
                    self._tell(self._say(f"headless.outcome.{key}", flags=flags))
                calls, tokens = event.llm_calls, f"{event.tokens:,}"
                self._tell(self._say("headless.calls", calls=calls, tokens=tokens))
            case _:
                pass

    def _print_narration(self) -> None:
        """Print the held reply on standard error, because it is not the turn's last."""
        text, self._held = self._held, ""
        if text:
            self._narrated = text
            self._tell(f"{make_visible(text)}\n")

    def _describe_review(self, review: Review) -> str:
        """Return the verdict of a review and the missing requirements."""
        said = [f"{'✓' if review.done else '✗'} {make_visible(verdict_words(review, self._say))}"]
        for lack in review.missing:
            what = make_visible(one_line(lack_words(lack.what, self._say), 200))
            said.append(f"  {self._say('review.missing', what=what)}")
        return "\n".join(said)

    def _describe_end(self, event: TurnFinished, state: AgentState) -> str:
        """Return why the turn stopped at a limit, the files it changed, and the unmet
        requirements.
        """
        said: list[str] = []
        if event.reason is not None and self._say.has(f"consult.cause.{event.reason.code}"):
            said.append(reason_words("consult.cause", event.reason, self._say))
        paths = make_visible(one_line(", ".join(event.files_changed), 400))
        said.append(self._say("headless.changed" if paths else "headless.unchanged", paths=paths))
        items = state.objective.extracted_requirements if state.objective is not None else ()
        unmet = [
            i.requirement for i in items if i.is_counted and i.state is not RequirementState.MET
        ]
        if unmet:
            what = make_visible(one_line("; ".join(unmet), 400))
            said.append(self._say("headless.unmet", what=what))
        return "\n".join(said)

    def _describe_compaction(self, made: Compaction) -> str:
        """Return the sizes before and after a compaction; without a digest also what was lost, and
        why.
        """
        before, after = f"{made.tokens_before:,}", f"{made.tokens_after:,}"
        size = self._say("compaction.size", before=before, after=after)
        if not made.failure:
            return f"· {self._say('compaction.title')}  {size}"
        reason = no_digest_words(made.failure, self._say)
        lost = self._say("compaction.no_digest", exchanges=str(made.exchanges), reason=reason)
        return f"! {self._say('compaction.title')}  {size}  {lost}"


def _step_name(state: AgentState, event: StepChanged) -> str:
    """Return the name of the event's step; its id where unknown."""
    step = state.get_plan(event.plan_id).get_step(event.step_id)
    return step.name if step else event.step_id


def _flags_for(message: OperationMessage) -> list[str]:
    """Return the flags that would allow such a denied call; empty where none would."""
    gate, ruling = message.gate, message.ruling
    if gate is None or ruling is None:
        return []
    if ruling.row == "write inside":
        lets = ruling.mode is not ApprovalMode.TRUSTED and not ruling.code
        lets = lets and gate.can_grant(GateChoice.SESSION)
        return ["--mode trusted"] if lets else []
    if ruling.mode not in (ApprovalMode.STANDARD, ApprovalMode.TRUSTED):
        return []  # in these modes --allow does not help
    rules: tuple[str, ...] = ()
    if ruling.row in ("shell inside", "shell held") and gate.facts.get("rule") == "not_named":
        rules = rules_for(str(message.args.get("command", "")))
    elif ruling.row in ("mcp", "mcp read", "mcp approved read"):
        rules = (message.operation,)
    return [format_flags((rule,)) for rule in rules]


def _describe_target(message: OperationMessage) -> str:
    """Return the target of a call as the chat shows it, else its arguments as JSON."""
    named = find_target(message.args)[0]
    return named or (json.dumps(message.args, ensure_ascii=False) if message.args else "")


def _describe_figures(message: OperationMessage) -> str:
    """Return a result's summary; for a call of a server without one, the first words of
    its text.
    """
    result = message.result
    if result.summary or not message.operation.startswith("mcp."):
        return result.summary
    return one_line(result.text, 80)
