"""The gate as it looks: its rows, the diff inside, the keys, and how many lines each part gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text
from textual.app import ComposeResult
from textual.geometry import Size
from textual.reactive import var

from duckflow_tui.state.base import Clock
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import Gate, GateChoice, Remark
from duckflow_tui.ui.layout import ROOMY, TALK_AT_GATE
from duckflow_tui.ui.panes.diff import DiffView
from duckflow_tui.ui.panes.diff_document import DiffDocument
from duckflow_tui.ui.panes.diff_paint import counted
from duckflow_tui.ui.panes.diff_pane import DiffPane
from duckflow_tui.ui.panes.gate_words import (
    Title,
    UnreadWay,
    argument_rows,
    figures_of,
    headline,
    key_hints,
    letter_of,
    point_rows,
    scope_rows,
    sentence_rows,
    title_of,
    unread_hints,
)
from duckflow_tui.ui.panes.key_guard import InlineField
from duckflow_tui.ui.panes.question import KeyHint, KeyRow, QuestionWidget
from duckflow_tui.ui.panes.request import QuestionRow, RequestView
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.panes.strips import fit
from duckflow_tui.words.catalogue import Catalogue

_LEAST_DIFF: Final = 3  # lines: two of the file and the one that counts the rest
_POINTS: Final = 7  # lines that the points get before arguments and diff get more than the least
_FAIR: Final = (_POINTS, 3, 6)  # lines they get before another part gets all it wants


@dataclass(frozen=True, slots=True)
class Wants:
    """Lines that each part would take whole; 0 where it has nothing to show."""

    keys: int
    points: int
    arguments: int
    diff: int
    least_points: int = 1  # lines that name every point, each cut to one


@dataclass(frozen=True, slots=True)
class Shares:
    """Lines that each part gets; together with the keys never more than there are."""

    points: int
    arguments: int
    diff: int


def shares(wants: Wants, height: int) -> Shares:
    """Share ``height`` lines: a line of each point first, then arguments and diff. Where not even
    that has room, the first part that has something to show has all of it.
    """
    room = max(0, height - wants.keys)
    parts = (wants.points, wants.arguments, wants.diff)
    # The line that counts what is left of the diff can stand alone.
    diff = 2 if wants.least_points <= 1 else 1
    tight = [min(wants.points, wants.least_points), min(1, parts[1]), min(diff, parts[2])]
    if sum(tight) > room:
        chosen = next((n for n in range(3) if parts[n]), 0)
        return Shares(*(room if number == chosen else 0 for number in range(3)))
    given = list(tight)
    points = max(_POINTS, room // 2)
    for some in ((0, 1, _LEAST_DIFF), (points, 0, 0), _FAIR, parts):
        for number, want in enumerate(parts):
            more = min(want, some[number]) - given[number]
            spare = room - sum(given)
            given[number] += max(0, min(more, spare))
    return Shares(*given)


_SHARE: Final = 0.6  # of the container's height that the card takes at most
_SHARE_WITH_DIFF: Final = 0.8  # the same when the diff is inside the card, or room is short
_TIGHT: Final = 30  # rows of the screen below which each point is one row, and all have one
_TIGHT_LINES: Final = 10  # lines that it gets there, if two are left to the chat
_LEAST_YIELDED: Final = 6  # lines that it keeps where the chat has some of its room
_LEAST_BESIDE: Final = (24, 4)  # cells and lines of a pane that can show a diff


class InnerDiff(DiffPane):
    """The diff inside the card, where no other pane shows it."""

    def __init__(self, allot: Callable[[Size], int]) -> None:
        super().__init__(focusable=False, titled=False)
        self._allot = allot

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._allot(container)


class GateView(QuestionWidget):
    """Shows one gate. What its keys do is added by ``GatePane``."""

    gates: var[tuple[Gate, ...]] = var(())  # open ones, oldest first; the first is shown
    step: var[str] = var("")  # "step 2": which step of the plan asks, empty for none

    def __init__(self, clock: Clock, beside: DiffPane | None, *, id: str | None) -> None:
        super().__init__(clock, KeyRow(), field_id="gate-reason", id=id)
        self._beside = beside
        self._document = DiffDocument()
        self._gate: Gate | None = None
        self._scope: GateChoice | None = None  # the answer whose scope is shown
        self._call_id = ""  # of the gate that is shown, or was last
        self._points = RequestView(lambda size: self._shares(size).points, id="gate-points")
        self._arguments = RequestView(lambda size: self._shares(size).arguments, id="gate-args")
        self._inner = InnerDiff(lambda size: self._shares(size).diff)
        self._rule = RequestView(lambda size: self._shares(size).points, id="gate-rule")
        self._details = RequestView(lambda size: self._shares(size).points, id="gate-details")
        self._details.folds = False
        for pane in (self._inner, beside):
            if pane is not None:
                pane.view.on_change(self._tell_frame)

    def compose(self) -> ComposeResult:
        yield self._points
        yield self._arguments
        yield self._inner
        yield self._rule
        yield self._details
        yield self._field
        yield self._keys

    def on_mount(self) -> None:
        self._points.on_seen(self._refresh_frame)
        self._arguments.on_seen(self._refresh_frame)
        self.screen.screen_layout_refresh_signal.subscribe(self, self._laid_out)  # pyright: ignore[reportUnknownMemberType]  # Screen[Unknown]
        self._rule.on_seen(self._refresh_frame)
        self._details.on_seen(self._refresh_frame)
        self._field.display = self._rule.display = self.display = False
        self._details.display = False

    @property
    def gate(self) -> Gate | None:
        """The gate that is shown."""
        return self._gate

    @property
    def _line(self) -> InlineField | None:
        field = self._pane.field
        return field if field.display else super()._line

    def unseen(self) -> int:
        """Lines of the request that have not been on screen: rows, arguments and diff."""
        rule = self._rule.unseen() if self._rule.display else 0
        request = self._points.unseen() + self._arguments.unseen()
        if self._details.rows:  # they say the same, and more
            request = min(request, self._details.unseen())
        return request + self._document.unseen + rule

    # --- what it shows ---------------------------------------------------------------------

    def show_gate(self, gate: Gate | None) -> None:
        """Show another gate from its start; none hides the card.

        What stays in the pane beside is only to be read from then on.
        """
        self._gate = gate
        self._hint, self._unread_for = "", ""
        self._scope = None
        self._rule.display, self._details.display, self._points.display = False, False, True
        self._details.show((), fresh=True)
        self._pane.stop_writing()
        self._document.choosing = False
        self.display = gate is not None
        if gate is None:
            self._show_again()
            return
        before = self._document
        self._document = DiffDocument(gate.previews, choosing=True, apart=bool(gate.also))
        if gate.call_id == self._call_id:  # the same change, another version of it
            self._document.take_remarks(before)
            self._tell_remarks(gate)
        elif gate.previews and self.kept is not None:
            self._put_remarks(self.kept(gate.args_hash))
        self._call_id = gate.call_id
        self._document.on_choice(self._chosen)
        if self._beside is not None:
            self._beside.open(self._document, gate.call_id)
        self._place_diff()
        self._refresh_rows(fresh=True)

    def show_scope(self, choice: GateChoice | None, alike: Sequence[OperationMessage] = ()) -> None:
        """Show what this answer would allow in place of the request, and of a rule for the project
        the calls that asked for the same; None: the request again.
        """
        self._scope = choice
        self._rule.display, self._points.display = choice is not None, choice is None
        self._details.display = False
        if self._gate is not None and choice is not None:
            self._rule.show(scope_rows(self._gate, choice, alike, self.words), fresh=True)
        self._hint, self._unread_for = "", ""
        self._place_diff()
        self._refresh_rows(fresh=False)

    def show_details(self, *, shown: bool) -> None:
        """Everything about the gate in place of the sentence and the diff, or those again."""
        self._details.display, self._points.display = shown, not shown
        self._rule.display, self._scope = False, None
        if shown:
            self._details.scroll_to(0, 0, animate=False)
        self._hint = ""
        self._place_diff()
        self._refresh_rows(fresh=False)

    @property
    def _over(self) -> RequestView | None:
        """The text in place of the request: the rule, or all about it."""
        return next((view for view in (self._rule, self._details) if view.display), None)

    def watch_words(self, words: Catalogue) -> None:
        self._inner.words = words
        if self.is_mounted:
            self._refresh_rows(fresh=False)

    def watch_step(self) -> None:
        self._refresh_frame()

    def _put_remarks(self, remarks: tuple[Remark, ...]) -> None:
        """Let these stand on their lines again."""
        document = self._document
        for row in document.lines if remarks else ():
            here = (document.rows[row].old, document.rows[row].new)
            for one in remarks:
                if one.number in here and document.remark_on(row, one.said) == one:
                    document.remarks[row] = one.said

    def _tell_remarks(self, gate: Gate) -> None:
        self.post_message(self.Remarked(gate.args_hash, self._document.remarked()))

    def _chosen(self) -> None:
        if self._gate is not None:
            self._tell_remarks(self._gate)
        self._hint, self._unread_for = "", ""
        self._show_again()
        self._refresh_rows(fresh=False)

    def _show_again(self) -> None:
        if self._inner.display:
            self._inner.view.invalidate()
        if self._beside is not None:
            self._beside.view.invalidate()

    def _refresh_rows(self, *, fresh: bool) -> None:
        gate = self._gate
        if gate is None or not self.is_attached:
            return
        small = self.screen.size.height < ROOMY
        self.set_class(small, "-small")
        # Where the title cuts the path it stands in a row of its own.
        with_path = self._title().cut and not small
        points = sentence_rows(gate, self.words, self._document, with_path=with_path)
        if small:  # no border, so no title
            what = headline(gate, self.words, self._figures())
            points.insert(0, QuestionRow("", what, tone="notice", wide=True))
        arguments = argument_rows(gate, self.words, titled=True)
        self._points.show(points, fresh=fresh)
        self._arguments.show(arguments, fresh=fresh)
        self._arguments.display = bool(arguments) and self._over is None
        if self._details.display:
            self._details.says = self.words("gate.says")
            rows = point_rows(gate, self.words, self._document)
            self._details.show((*rows, *argument_rows(gate, self.words)), fresh=False)
        self._refresh_frame()
        self._relayout()

    def _refresh_frame(self) -> None:
        """Along with what is said at the diff: both count the same lines."""
        self._view.announce()

    def _tell_frame(self) -> None:
        gate = self._gate
        if gate is None or not self.is_attached:
            return
        palette = palette_of(self)
        lit = self.has_focus and not self._sent
        hint = self._hint or self.words("gate.hint_focused" if lit else "gate.hint")
        if self._staying:
            hint = self.words("gate.answered")
        if self._line is not None:
            writes = "gate.hint_reason" if self._line is self._field else "gate.hint_remark"
            hint = self._hint or self.words(writes)
        elif self._scope is not None:
            letter = letter_of(self._scope)
            hint = self._hint or self.words("gate.rule.hint", key=letter)
        self.border_title = self._title().text
        room = max(0, self.size.width - 2)
        self.border_subtitle = Text(fit(hint, room), style=palette.accent, no_wrap=True)
        self._points.lit = self._details.lit = self._keys.lit = lit
        if self._staying:
            hints = (KeyHint("✓", self.words("gate.answered_hint")),)
        else:
            unread = self._unread() if self._unread_for else ""
            remarks = len(self._document.remarks)
            if (unread or remarks) and self._unread_for:
                choice = GateChoice(self._unread_for)
                hints = unread_hints(gate, self.words, choice, remarks, unread, self._way())
            else:
                hints = key_hints(
                    gate,
                    self.words,
                    width=self.size.width,
                    scope=self._scope,
                    whole=self._details.display,
                    remarks=remarks,
                )
        if hints != self._keys.hints:
            self._keys.hints = hints
            self._relayout()

    @property
    def _is_tight(self) -> bool:
        return self.screen.size.height < _TIGHT

    def _figures(self) -> str:
        assert self._gate is not None
        return figures_of(self._gate, self.words, self._document)

    def _title(self) -> Title:
        assert self._gate is not None
        palette = palette_of(self)
        room = max(0, self.size.width - 2)  # the border leaves a space at both ends of it
        return title_of(
            self._gate,
            self.words,
            palette,
            room,
            figures=self._figures(),
            step=self.step,
            waiting=len(self.gates),
        )

    # --- room ------------------------------------------------------------------------------

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        wants = self._wants(Size(width, container.height))
        share = _SHARE_WITH_DIFF if wants.diff or self._is_tight else _SHARE
        most = max(int(container.height * share), min(container.height, 4))
        if self._is_tight:
            most = max(most, min(container.height - 2, _TIGHT_LINES))
        if self.alone:
            most = container.height
        elif self.yields:
            most = min(most, max(container.height - TALK_AT_GATE, _LEAST_YIELDED))
        return min(wants.keys + wants.points + wants.arguments + wants.diff, most)

    def _wants(self, size: Size) -> Wants:
        width = size.width
        points = self._over or self._points
        return Wants(
            keys=1 if self._field.display else self._keys.height_for(width, size.height),
            points=points.height_for(width),
            least_points=points.least_for(width),
            arguments=self._arguments.height_for(width) if self._arguments.display else 0,
            diff=self._inner.height_for(width) if self._inner.display else 0,
        )

    def _shares(self, size: Size) -> Shares:
        return shares(self._wants(size), size.height)

    def _needs_inner(self) -> bool:
        """Whether the diff has to be in the card, because no pane beside it can be seen."""
        if self._gate is None or not self._gate.previews or self._over is not None:
            return False
        if self._beside is None or not self._beside.is_on_screen:
            return True
        width, height = self._beside.view.size
        whole = self._beside.view.virtual_size.height  # a short change needs no more
        return width < _LEAST_BESIDE[0] or height < min(_LEAST_BESIDE[1], max(whole, 1))

    def _laid_out(self, _: object) -> None:
        if self._gate is not None and self._inner.display != self._needs_inner():
            self._place_diff()

    def _place_diff(self) -> None:
        self._inner.display = self._needs_inner()
        if self._inner.display:
            self._inner.open(self._document)
        self._relayout()

    @property
    def _pane(self) -> DiffPane:
        """The pane that shows the diff now."""
        return self._inner if self._beside is None or self._inner.display else self._beside

    @property
    def _view(self) -> DiffView:
        return self._pane.view

    @property
    def _part(self) -> DiffView | RequestView:
        """The part that keys scroll."""
        if self._over is not None:
            return self._over
        if self._document.rows:
            return self._view
        return self._arguments if self._arguments.max_scroll_y else self._points

    def _way(self) -> UnreadWay:
        """Which keys show what of the request has not been on screen."""
        above, below = self._view.unseen_lies() if self._document.unseen else (False, False)
        return ("both" if below else "up") if above else "down"

    def _unread(self) -> str:
        """The part of the request that has not been on screen, in words (R14); empty for none."""
        left, lines = self._document.unseen, self._document.to_see
        rows = self.unseen() - left
        parts = [self.words("gate.unread.lines", count=left, total=lines)] if left else []
        parts += [counted(self.words, "gate.unread.rows", rows)] if rows else []
        return self.words("gate.unread.and").join(parts)
