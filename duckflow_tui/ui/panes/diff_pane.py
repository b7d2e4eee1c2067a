"""The diff pane: title, whether the change was made wholly, the diff, and a line with keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from rich.cells import cell_len
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Size
from textual.reactive import var
from textual.widget import Widget
from textual.widgets import Static

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import Message, UserMessage
from duckflow_tui.state.gates import FilePreview
from duckflow_tui.state.operations import Outcome
from duckflow_tui.tools.undo import find_last_change
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.diff import DiffView
from duckflow_tui.ui.panes.diff_document import DiffDocument
from duckflow_tui.ui.panes.diff_paint import figures_text
from duckflow_tui.ui.panes.key_guard import InlineField
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.panes.side_pane import SidePane
from duckflow_tui.ui.panes.strips import fit
from duckflow_tui.words.catalogue import Catalogue


def find_newest_change(
    messages: Sequence[Message], undone: Collection[str] = ()
) -> tuple[OperationMessage | None, bool]:
    """Return the newest call whose change of files stands, wholly or in part, and whether the user
    sent a request after it. ``undone`` are the ids of calls that were taken back.
    """
    overtaken = False
    for message in reversed(messages):
        if isinstance(message, OperationMessage) and _has_standing_change(message, undone):
            return message, overtaken
        overtaken |= isinstance(message, UserMessage) and not message.aside
    return None, overtaken


def _has_standing_change(message: OperationMessage, undone: Collection[str]) -> bool:
    """Whether a call with a diff went well, or changed files before it failed, and was not taken
    back.
    """
    result = message.result
    if not previews_of(message) or message.call_id in undone:
        return False
    return result.outcome is Outcome.OK or bool(result.changes or result.touched)


def previews_of(message: OperationMessage) -> tuple[FilePreview, ...]:
    """Return the file changes of a call, as shown at its gate where there was one."""
    return message.previews or (message.gate.previews if message.gate is not None else ())


def document_of(message: OperationMessage) -> DiffDocument:
    """Return the changes of a call without the hunks that the user left out."""
    document = DiffDocument(previews_of(message))
    if message.answer is not None:
        document.left_out |= set(message.answer.left_out)
    return document


def verdict_text(message: OperationMessage, words: Catalogue, palette: Palette) -> Text:
    """Return whether a change was made wholly, such as ``✗ only partly applied: failed: disk
    full``.
    """
    result = message.result
    if result.outcome is Outcome.OK or result.touched:
        return Text(f"✓ {_applied_words(message, words)}", style=palette.good)
    why, detail = words(f"transcript.outcome.{result.outcome}"), visible_line(result.summary)
    said = words("diff.verdict.partly", reason=f"{why}: {detail}" if detail else why)
    return Text(f"✗ {said}", style=f"bold {palette.bad}")


def _applied_words(message: OperationMessage, words: Catalogue) -> str:
    """Return that a change was applied, with the number of hunks that the user left out."""
    answer, gate = message.answer, message.gate
    if answer is None or gate is None or not answer.left_out:
        return words("diff.verdict.applied")
    total = sum(len(preview.hunks) for preview in gate.previews)
    return words("diff.verdict.applied_without", count=len(answer.left_out), total=total)


MOST_VERDICT: Final = 3  # lines, as the style sheet has it
_LEAST_PATH = 8  # cells of the path in the title; below, the end of it names no file
_FEWEST_HINTS = 3  # lines of room below which the keys give way to the diff itself


class DiffFoot(Widget):
    """A line below a diff, computed when it is drawn, so that it is right in the first frame."""

    def __init__(self, make_text: Callable[[], Text]) -> None:
        super().__init__(classes="diff-foot")
        self._make_text = make_text

    def render(self) -> Text:
        return self._make_text()


class DiffPane(Vertical, SidePane):
    """A DiffView, above it whether the change was made wholly, and below it a line with counts and
    keys, where remarks are written.

    Without ``titled`` the line below names the file, and the view begins at the first change.
    """

    pane_name = "diff"
    words: var[Catalogue] = var(Catalogue)

    def __init__(
        self, *, focusable: bool = True, titled: bool = True, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self.view = DiffView(focusable=focusable)
        self.call_id = ""  # of the call that would make the change
        self._since: tuple[object, ...] | None = None  # how files stood at the session's diff
        self._titled = titled
        self.view.bare = not titled
        self.leads_back = False  # it is on the whole screen, and z and Esc lead back
        self.decides = False  # and so do the keys of the gate, which act there
        self._made: OperationMessage | None = None
        self._verdict = Static(classes="diff-verdict", markup=False)
        self._foot = DiffFoot(self._foot_text)
        #: Where a remark is written; shown only meanwhile.
        self.field = InlineField(self.stop_writing)
        self._row = -1  # of the document: what is written is about it
        self._back: Widget = self.view  # gets the focus after that
        self.view.lines_beside = self._lines_beside
        self.view.on_change(self._refresh_foot)
        self.view.write_remark = lambda: self.write(self.view)

    def compose(self) -> ComposeResult:
        yield self._verdict
        yield self.view
        yield self._foot
        yield self.field

    def on_mount(self) -> None:
        self._verdict.display = self.field.display = False

    # --- remarks ----------------------------------------------------------------------------

    def write(self, back: Widget) -> None:
        """Open the field for a remark on the current line; ``back`` gets the focus again
        afterwards.
        """
        document, row = self.view.document, self.view.line_at_hand()
        if not document.choosing or row < 0:
            self.view.refuse("diff.no_line" if document.choosing else "diff.whole.only_shown")
            return
        self.view.point_at(row)
        self._row, self._back = row, back
        line = document.rows[row]
        self.field.value = document.remarks.get(row, "")
        self.field.cursor_position = len(self.field.value)
        number = line.old if line.mark == "-" else line.new
        self.field.placeholder = self.words("diff.ask_remark", number=number)
        self.field.display, self._foot.display = True, False
        self.field.focus()
        self.refresh(layout=True)

    def on_input_submitted(self, event: InlineField.Submitted) -> None:
        """Store the remark; an empty one removes that of the line."""
        event.stop()
        document, row = self.view.document, self._row
        self.stop_writing()
        document.remark(row, event.value)
        self.view.invalidate()
        self.view.point_at(row)

    def stop_writing(self) -> None:
        """Close the field for a remark and discard its text."""
        if not self.field.display:
            return
        had_focus = self.field.has_focus
        self.field.value = ""
        self.field.display, self._foot.display = False, True
        self.refresh(layout=True)
        if had_focus:
            self.screen.set_focus(self._back)

    def _lines_beside(self, width: int) -> int:
        """Return the pane's lines other than the diff's."""
        if not self._verdict.display:
            return 1
        room = Size(max(1, width - 2), MOST_VERDICT)
        return 1 + min(self._verdict.get_content_height(room, room, room.width), MOST_VERDICT)

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """The slices of the state that ``show`` reads."""
        return len(state.messages), state.undone_calls, state.rewound

    def show(self, state: AgentState) -> None:
        """Show the newest change of files that stands, and whether it was made wholly; nothing
        without one.
        """
        if self._since is not None and self._since == self._changed_by(state):
            return
        newest, _ = self._find_change(state)
        call_id = newest.call_id if newest is not None else ""
        if call_id != self.call_id or self._since is not None:
            self.open(document_of(newest) if newest is not None else DiffDocument(()), call_id)
        if newest != self._made:
            self._made = newest
            self._refresh_verdict()

    def _find_change(self, state: AgentState) -> tuple[OperationMessage | None, bool]:
        """Return the change to show, and whether a request came after it."""
        return find_newest_change(state.messages, state.undone_calls)

    def _changed_by(self, state: AgentState) -> tuple[object, ...]:
        """Return the newest calls that changed files."""
        calls = (find_last_change(state), self._find_change(state)[0])
        return tuple(call and call.call_id for call in calls)

    def open(self, document: DiffDocument, call_id: str = "", *, at: int = 0) -> None:
        """Show what the call would change, from the start or from hunk ``at``."""
        self.stop_writing()
        self.call_id = call_id
        self._since = self._made = None
        self.view.show(document, at_change=not self._titled, at=at)
        self._refresh_verdict()

    def open_session(self, previews: Sequence[FilePreview], state: AgentState) -> None:
        """Show all changes since the session began, until the next change of a file."""
        self.open(DiffDocument(previews))
        self._since = self._changed_by(state)
        self._refresh_verdict()

    def follow(self, state: AgentState) -> None:
        """Return to showing the newest change."""
        if self._since is not None:
            self.open(DiffDocument(()))
            self.show(state)

    def height_for(self, width: int) -> int:
        """Lines that the whole document and the line below take at this width."""
        return self.view.height_for(width) + 1

    def has_content(self, state: AgentState) -> bool:
        """Whether a change made for the last request stands."""
        newest, overtaken = self._find_change(state)
        return newest is not None and not overtaken

    def describe_folded(self) -> str:
        """Return nothing where there is a change, because the title names it."""
        return "" if self.view.document.previews else super().describe_folded()

    @property
    def focus_target(self) -> Widget:
        return self.view

    def make_title(self, width: int) -> Text:
        """Return ``Diff  pricing.py  +3 −2  hunk 1/2  seen 40 of 599`` in at most ``width`` cells.

        In a narrow pane the word before the path goes first, then the hunk, then the start of the
        path.
        """
        palette = palette_of(self)
        heading = self.view.heading
        word, seen = self.words("diff.title"), self._seen_words()
        if not heading.files:
            return Text(word, style=f"bold {palette.accent}", no_wrap=True)
        facts = [figures_text(heading.added, heading.removed)]
        if heading.left_out:
            facts.append(self.words("diff.left_out"))
        if heading.hunks > 1:
            facts.append(self.words("diff.hunk", number=heading.hunk, total=heading.hunks))
        least = min(cell_len(heading.path), _LEAST_PATH)
        for head, said in ((f"{word}  ", facts), ("", facts), ("", facts[:1])):
            rest = "".join(f"  {fact}" for fact in said)
            end = f"  {seen}" if seen else ""
            room = width - cell_len(f"{head}{rest}{end}")
            if room >= least:
                break
        text = Text(head, style=f"bold {palette.accent}", no_wrap=True)
        text.append(fit(heading.path, max(room, 1), keep="end"), style=f"bold {palette.text}")
        text.append(rest, style=f"not bold {palette.quiet}")
        gap = width - text.cell_len - cell_len(end) if end else 0
        text.append(f"{' ' * gap}{end}", style=f"not bold {palette.accent}")
        text.truncate(max(1, width), overflow="ellipsis")
        return text

    def _seen_words(self) -> str:
        """Return ``seen 40 of 599`` while a gate asks and parts were not on screen; empty before
        any was.
        """
        document = self.view.document
        total = document.to_see
        if not document.choosing or not 0 < document.unseen_lines < total:
            return ""
        return self.words("diff.seen", count=total - document.unseen_lines, total=total)

    def watch_words(self, words: Catalogue) -> None:
        self.view.words = words
        self.view.announce_change()
        self._refresh_verdict()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.view.announce_change()
        self._refresh_verdict()

    def on_resize(self) -> None:
        self.view.announce_change()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _focus_moved(self) -> None:
        self.call_after_refresh(self.view.announce_change)

    def _refresh_foot(self) -> None:
        self._foot.refresh()

    def _refresh_verdict(self) -> None:
        if not self.is_attached:
            return
        if self._since is not None:
            self._verdict.display = True
            self._verdict.update(self._session_text())
            return
        # Of a call that changes no file there is nothing here that could have been applied.
        self._verdict.display = self._made is not None and bool(self.view.document.previews)
        if self._made is not None:
            self._verdict.update(verdict_text(self._made, self.words, palette_of(self)))

    def _session_text(self) -> Text:
        """Return ``session so far: 2 files, +5 −3``."""
        document = self.view.document
        if not document.previews:
            said = self.words("diff.session_none")
        else:
            added, removed = document.figures()
            counts = {"files": len(document.previews), "added": added, "removed": removed}
            said = self.words("diff.session_said", **counts)
        return Text(said, style=palette_of(self).accent)

    def _foot_text(self) -> Text:
        palette = palette_of(self)
        off = self.view.off_screen
        text = Text(" ", no_wrap=True, overflow="ellipsis", end="")
        counts: list[str] = []
        roomy = self.size.height > _FEWEST_HINTS
        if self.view.refused:
            text.append(self.words(self.view.refused), style=palette.accent)
            return text
        if not self._titled and not roomy and self.view.document.previews:
            added, removed = self.view.document.figures()
            figures = figures_text(added, removed)
            text.append(f"{self.words('diff.title')} {figures}  ", style=palette.quiet)
        seen = "" if self._titled else self._seen_words()
        if seen:
            text.append(f"{seen}  ", style=palette.accent)
        if off.lines_above:
            counts.append(self.words("diff.above", lines=off.lines_above))
        if off.lines_below:
            counts.append(self.words("diff.more", count=off.lines_below))
        if off.files_below:
            counts.append(self.words("diff.more_files", count=off.files_below))
        text.append(self.words("gate.list").join(counts), style=palette.quiet)
        if self.view.document.previews and roomy:
            text.append("   " if counts else " ")
            room = self.size.width - text.cell_len
            text.append(self._key_hints(room), style=palette.quiet)
        return text

    def _key_hints(self, room: int) -> str:
        """Return the keys of this pane, as many as fit."""
        heading = self.view.heading
        hints: list[str] = [self.words("diff.hint_back")] if self.leads_back else []
        labels = {key.action: key.label for key in keys_of("diff", "gate")}
        if self.decides:
            hints += [
                f"{labels[key]} {self.words(f'gate.key.{key}')}" for key in ("once", "reject")
            ]
        leave = f"{labels['toggle_hunk']} {self.words('diff.hint_toggle')}"
        if heading.can_leave and heading.files > 1:  # among many files that is what matters most
            hints.append(leave)
        if heading.hunks > 1:
            pair = labels["next_hunk|previous_hunk"]
            hints.append(f"{pair} {self.words('diff.hint_hunks')}")
        if heading.can_leave and heading.files == 1:
            hints.append(leave)
        if self.view.has_focus and self.view.document.choosing:  # else the gate's keys say so
            hints.append(f"{labels['remark']} {self.words('gate.key.remark')}")
        split = "diff.hint_unified" if self.view.is_split else "diff.hint_split"
        wrap = "diff.hint_cut" if self.view.wrap else "diff.hint_wrap"
        if self.view.can_split:
            hints.append(f"{labels['toggle_split']} {self.words(split)}")
        hints.append(f"{labels['toggle_wrap']} {self.words(wrap)}")
        while hints and cell_len("  ".join(hints)) > room:
            hints.pop()
        return "  ".join(hints)
