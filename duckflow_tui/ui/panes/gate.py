"""The gate: a proposal that waits for the user's key, and nothing else can answer it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.reactive import var
from textual.timer import Timer

from duckflow_tui.state.base import Clock
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import Gate, GateAnswer, GateChoice, Remark, before_hashes
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.layout import MAIN, ROOMY, TALK_AT_GATE
from duckflow_tui.ui.panes.diff import DiffView
from duckflow_tui.ui.panes.diff_document import DiffDocument, shown_line
from duckflow_tui.ui.panes.diff_paint import count_words
from duckflow_tui.ui.panes.diff_pane import DiffPane
from duckflow_tui.ui.panes.gate_words import (
    UnreadWay,
    argument_rows,
    figures_of,
    headline_words,
    key_hints,
    letter_of,
    point_rows,
    scope_rows,
    sentence_rows,
    subject_words,
    title_of,
    unread_hints,
)
from duckflow_tui.ui.panes.key_guard import InlineField, Typed
from duckflow_tui.ui.panes.question import (
    KeyHint,
    KeyRow,
    QuestionFrame,
    QuestionWidget,
    scroll_bindings,
)
from duckflow_tui.ui.panes.request import QuestionRow, RequestView
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.ui.screens.whole_diff import WholeDiff

_READABLE: Final = MAIN - 16  # cells of a line in the width for reading, less frame and numbers
_LEAST_DIFF: Final = 3  # lines: two of the file and the one that counts the rest
_POINTS: Final = 7  # lines that the points get before arguments and diff get more than the least
_FAIR: Final = (_POINTS, 3, 6)  # lines they get before another part gets all it wants

Lines = tuple[int, int, int]  # of the points, the arguments and the diff


def share_lines(room: int, wants: Lines, *, least_points: int) -> Lines:
    """Share ``room`` lines: a line of each point first, then arguments and diff. Where not even
    that has room, the first part that has something to show has all of it.

    ``wants`` are the lines that each part takes whole, 0 where it has nothing to show;
    ``least_points`` those that name every point, each cut to one.
    """
    # The line that counts what is left of the diff can stand alone.
    diff = 2 if least_points <= 1 else 1
    given = [min(want, least) for want, least in zip(wants, (least_points, 1, diff), strict=True)]
    if sum(given) > room:
        first = next((part for part in range(3) if wants[part]), 0)
        return 0 if first else room, room if first == 1 else 0, room if first == 2 else 0
    points = max(_POINTS, room // 2)
    for limits in ((0, 1, _LEAST_DIFF), (points, 0, 0), _FAIR, wants):
        for part, want in enumerate(wants):
            more = min(want, limits[part]) - given[part]
            given[part] += max(0, min(more, room - sum(given)))
    return given[0], given[1], given[2]


_SHARE: Final = 0.6  # of the container's height that the card takes at most
_SHARE_WITH_DIFF: Final = 0.8  # the same with a diff, or where room is short
_TIGHT: Final = 30  # rows of the screen below which each point is one row, and all have one
_TIGHT_LINES: Final = 10  # lines that it gets there, if two are left to the chat
_LEAST_YIELDED: Final = 6  # lines that it keeps where the chat has some of its room


class GateDiff(DiffPane):
    """The diff of a gate, inside its card."""

    def __init__(self, allot: Callable[[Size], int]) -> None:
        super().__init__(focusable=False, titled=False)
        self._allot = allot

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._allot(container)


#: What each key of a gate does, by the name of its action.
_ACTIONS: Final = {name: key.action for key in keys_of("gate") for name in key.keys}
#: Actions that answer with an approval, of this call or of more.
_APPROVES: Final = frozenset({"once", "session", "step", "only", "routine", "project"})
#: Keys that the diff in the card carries out.
_ON_DIFF: Final = frozenset({"next_hunk", "previous_hunk", "toggle_split", "toggle_wrap"})
_ON_HUNK: Final = frozenset({"toggle_hunk", "only_hunk"})


def gate_bindings() -> list[BindingType]:
    """The keys of a gate and of the diff in it, and those that scroll."""
    found: list[BindingType] = [Binding("escape", "escape", show=False)]
    own = {name for key in keys_of("gate") for name in key.keys}
    for key in keys_of("gate", "diff"):
        for name, action in key.list_actions():
            if key.surface == "diff" and name in own:
                continue  # at a gate it means what it means there
            if action == "alternative":
                action = f"alternative({name})"
            elif action in _APPROVES:
                action = f"approve('{action}')"
            elif action in _ON_DIFF:
                action = f"on_diff('{action}')"
            elif action in _ON_HUNK:
                action = f"on_hunk('{action}')"
            found.append(Binding(name, action, show=False))
    return found + scroll_bindings({k for key in keys_of("diff") for k in key.keys})


#: Seconds that an answered gate keeps the focus at most while its reply may ask again.
STAY: Final = 2.0

#: Answers after which the same reply asks nothing more: they skip what it asked for.
_ENDS: Final = (GateChoice.REJECT, GateChoice.ALTERNATIVE)

Proposed = Callable[[str], str | None]
Alike = Callable[[Gate], Sequence[OperationMessage]]


class GatePane(QuestionWidget):
    """The oldest open gate: what, why, with what consequences, and the keys (S4-60…62, S4-65).

    While part of the request was not on screen, or remarks would be lost, a key that consents
    scrolls to it and asks once, naming what; the same key, pressed anew, then decides (R14). One
    that allows more than this call shows first exactly what. An answer carries the hashes of
    exactly what was shown.

    Once answered by a key it keeps the focus, and says so, while the same reply may ask again:
    the focus stays for that gate and never comes to it. Whatever is typed meanwhile goes to the
    composer, and the focus with it.
    """

    BINDINGS: ClassVar[list[BindingType]] = gate_bindings()
    surfaces = ("gate", "diff")
    LETTERS = frozenset(key for keys in keys_of("gate", "diff") for key in keys.keys)
    WALKS = frozenset(
        {"left_square_bracket", "right_square_bracket", "j", "k", "space", "up", "down"}
    )

    gates: var[tuple[Gate, ...]] = var(())  # open ones, oldest first; the first is shown
    step: var[str] = var("")  # "step 2": which step of the plan asks, empty for none
    may_ask_again: var[bool] = var(False)  # the reply at hand may open another gate

    def __init__(
        self,
        clock: Clock,
        *,
        proposed: Proposed | None = None,
        alike: Alike | None = None,
        id: str | None = None,
    ) -> None:
        """``proposed`` gives the whole new content behind a gate, by its id, ``alike`` the calls of
        the session that asked for the same.
        """
        super().__init__(clock, KeyRow(), field_id="gate-reason", id=id)
        self._clock = clock
        self._document = DiffDocument()
        self._gate: Gate | None = None
        self._scope: GateChoice | None = None  # the answer whose scope is shown
        self._call_id = ""  # of the gate that is shown, or was last
        self._points = RequestView(partial(self._allot_lines, 0), id="gate-points")
        self._arguments = RequestView(partial(self._allot_lines, 1), id="gate-args")
        self.diff = GateDiff(partial(self._allot_lines, 2))
        self._rule = RequestView(partial(self._allot_lines, 0), id="gate-rule")
        self._details = RequestView(partial(self._allot_lines, 0), id="gate-details")
        self._details.folds = False
        self.diff.view.on_change(super()._refresh_frame)
        self._proposed = proposed
        self._alike = alike
        self._whole: WholeDiff | None = None  # it shows the diff of the gate at hand
        self._stay_timer: Timer | None = None

    def compose(self) -> ComposeResult:
        yield self._points
        yield self._arguments
        yield self.diff
        yield self._rule
        yield self._details
        yield self._field
        yield self._keys

    def on_mount(self) -> None:
        for view in (self._points, self._arguments, self._rule, self._details):
            view.on_seen(self._refresh_frame)
        self._field.display = self._rule.display = self._details.display = self.display = False
        self._show_next_gate()

    def watch_gates(self) -> None:
        if self.is_mounted:
            self._show_next_gate()

    def _show_next_gate(self) -> None:
        gate = self.gates[0] if self.gates else None
        if gate == self._gate:
            self._refresh_frame()
            return
        if gate is None and self._staying and self.may_ask_again:
            return
        self._end_stay()
        if self._whole is not None:  # what it shows is no longer asked about
            self._whole.dismiss()
            self._whole = None
        other = gate is None or self._gate is None or gate.gate_id != self._gate.gate_id
        typing = self._active_field is not None and self._active_field.has_focus
        had_focus = self.has_focus or typing
        self._sent = False
        self._close_field()
        self.show_gate(gate)
        if had_focus and gate is None:
            self._leave_question(self._guard.take_back())
        elif had_focus and other:
            self.take_focus()
        elif had_focus:  # the same, shown anew
            self._begin_guard()
            if typing:
                self.focus()

    @property
    def gate(self) -> Gate | None:
        """The gate that is shown."""
        return self._gate

    @property
    def _active_field(self) -> InlineField | None:
        field = self.diff.field
        return field if field.display else super()._active_field

    def count_unseen(self) -> int:
        """Lines of the request that have not been on screen: rows, arguments and diff."""
        rule = self._rule.count_unseen() if self._rule.display else 0
        request = self._points.count_unseen() + self._arguments.count_unseen()
        if self._details.rows:  # they say the same, and more
            request = min(request, self._details.count_unseen())
        return request + self._document.unseen_lines + rule

    # --- what it shows ---------------------------------------------------------------------

    def show_gate(self, gate: Gate | None) -> None:
        """Show another gate from its start; none hides the card."""
        self._gate = gate
        self._points.folds = self._rule.folds = True
        self._hint, self._unread_for = "", ""
        self._scope = None
        self._rule.display, self._details.display, self._points.display = False, False, True
        self._details.show_rows((), fresh=True)
        self.diff.stop_writing()
        self.display = gate is not None
        if gate is None:
            return
        before = self._document
        self._document = DiffDocument(gate.previews, choosing=True, apart=bool(gate.also))
        if gate.call_id == self._call_id:  # the same change, another version of it
            self._document.take_remarks(before)
            self._tell_remarks(gate)
        elif gate.previews and self.kept is not None:
            self._put_remarks(self.kept(gate.args_hash))
        self._call_id = gate.call_id
        self._document.on_choice(self._on_choice)
        self.diff.open(self._document, gate.call_id)
        self._refresh_rows(fresh=True)

    def show_scope(self, choice: GateChoice | None, alike: Sequence[OperationMessage] = ()) -> None:
        """Show what this answer would allow in place of the request, and of a rule for the project
        the calls that asked for the same; None: the request again.
        """
        self._scope = choice
        self._rule.display, self._points.display = choice is not None, choice is None
        self._details.display = False
        if self._gate is not None and choice is not None:
            self._rule.show_rows(scope_rows(self._gate, choice, alike, self.words), fresh=True)
        self._hint, self._unread_for = "", ""
        self._refresh_rows(fresh=False)

    def show_details(self, *, shown: bool) -> None:
        """Everything about the gate in place of the sentence and the diff, or those again."""
        self._details.display, self._points.display = shown, not shown
        self._rule.display, self._scope = False, None
        if shown:
            self._details.scroll_to(0, 0, animate=False)
        self._hint = ""
        self._refresh_rows(fresh=False)

    @property
    def _overlay_view(self) -> RequestView | None:
        """The text in place of the request: the rule, or all about it."""
        return next((view for view in (self._rule, self._details) if view.display), None)

    def watch_words(self, words: Catalogue) -> None:
        self.diff.words = words
        if self.is_mounted:
            self._refresh_rows(fresh=False)

    def on_diff_view_arranged(self, event: DiffView.Arranged) -> None:
        self.set_class(event.split or self._is_broad(), "-broad")

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
        self.post_message(self.Remarked(gate.args_hash, self._document.list_remarks()))

    def _on_choice(self) -> None:
        if self._gate is not None:
            self._tell_remarks(self._gate)
        self._hint, self._unread_for = "", ""
        self.diff.view.invalidate()
        self._refresh_rows(fresh=False)

    def _refresh_rows(self, *, fresh: bool) -> None:
        gate = self._gate
        if gate is None or not self.is_attached:
            return
        small = self.screen.size.height < ROOMY
        self.set_class(small, "-small")
        self.diff.display = bool(gate.previews) and self._overlay_view is None
        # Where the title cuts the path it stands in a row of its own.
        with_path = self._make_title()[1] and not small
        points = sentence_rows(gate, self.words, self._document, with_path=with_path)
        if small:  # no border, so no title
            what = headline_words(gate, self.words, self._figure_words())
            points.insert(0, QuestionRow("", what, tone="notice", wide=True))
        arguments = argument_rows(gate, self.words, titled=True)
        self._points.show_rows(points, fresh=fresh)
        self._arguments.show_rows(arguments, fresh=fresh)
        self.set_class(self._is_broad(), "-broad")
        self._arguments.display = bool(arguments) and self._overlay_view is None
        if self._details.display:
            self._details.says = self.words("gate.says")
            rows = point_rows(gate, self.words, self._document)
            self._details.show_rows((*rows, *argument_rows(gate, self.words)), fresh=False)
        self._refresh_frame()
        self._lay_out_again()

    def _refresh_frame(self) -> None:
        """Along with what is said at the diff: both count the same lines."""
        self._diff_view.announce_change()

    def _describe_frame(self, *, lit: bool) -> QuestionFrame | None:
        gate = self._gate
        if gate is None:
            return None
        hint = self._hint or self.words("gate.hint_focused" if lit else "gate.hint")
        if self._staying:
            hint = self.words("gate.answered")
        if self._active_field is not None:
            writes = "gate.hint_reason" if self._active_field is self._field else "gate.hint_remark"
            hint = self._hint or self.words(writes)
        elif self._scope is not None:
            hint = self._hint or self.words("gate.rule.hint", key=letter_of(self._scope))
        return QuestionFrame(self._make_title()[0], hint, self._key_hints(gate))

    def _key_hints(self, gate: Gate) -> tuple[KeyHint, ...]:
        if self._staying:
            return (KeyHint("✓", self.words("gate.answered_hint")),)
        remarks = len(self._document.remarks)
        if self._unread_for:
            choice, unread = GateChoice(self._unread_for), self._unread_words()
            return unread_hints(gate, self.words, choice, remarks, unread, self._unread_way())
        return key_hints(
            gate,
            self.words,
            scope=self._scope,
            every=self._details.display,
            remarks=remarks,
        )

    def _is_broad(self) -> bool:
        """Whether a line of the diff, the command or an argument is longer than text should be; two
        versions side by side are.
        """
        assert self._gate is not None
        rows = (*self._document.rows, *self._arguments.rows)
        shown = (subject_words(self._gate, self.words), *(row.text for row in rows))
        return self.diff.view.split or any(
            len(text) * 2 > _READABLE and cell_len(text) > _READABLE for text in shown
        )

    @property
    def _is_tight(self) -> bool:
        return self.screen.size.height < _TIGHT

    def _figure_words(self) -> str:
        assert self._gate is not None
        return figures_of(self._gate, self.words, self._document)

    def _make_title(self) -> tuple[Text, bool]:
        assert self._gate is not None
        palette = palette_of(self)
        room = max(0, self.line_cells - 2)  # the border leaves a space at both ends of it
        return title_of(
            self._gate,
            self.words,
            palette,
            room,
            figures=self._figure_words(),
            step=self.step,
            waiting=len(self.gates),
        )

    # --- room ------------------------------------------------------------------------------

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        keys, wants = self._wanted_lines(Size(width, container.height))
        share = _SHARE_WITH_DIFF if wants[2] or self._is_tight else _SHARE
        most = max(int(container.height * share), min(container.height, 4))
        if self._is_tight:
            most = max(most, container.height - 2 if wants[2] else _TIGHT_LINES)
            most = min(most, max(container.height - 2, 4))
        if self.alone:
            most = container.height
        elif self.yields:
            most = min(most, max(container.height - TALK_AT_GATE, _LEAST_YIELDED))
        return min(keys + sum(wants), most)

    def _wanted_lines(self, size: Size) -> tuple[int, Lines]:
        """Lines that the keys take, and those that the other parts would take whole."""
        width = size.width
        keys = 1 if self._field.display else self._keys.height_for(width, size.height)
        return keys, (
            (self._overlay_view or self._points).height_for(width),
            self._arguments.height_for(width) if self._arguments.display else 0,
            self.diff.height_for(width) if self.diff.display else 0,
        )

    def _allot_lines(self, part: int, size: Size) -> int:
        """The lines of one part of ``Lines``."""
        keys, wants = self._wanted_lines(size)
        least = (self._overlay_view or self._points).least_for(size.width)
        return share_lines(max(0, size.height - keys), wants, least_points=least)[part]

    @property
    def _diff_view(self) -> DiffView:
        return self.diff.view

    def _reveal_unseen(self) -> None:
        for view in (self._overlay_view or self._points, self._arguments, self._diff_view):
            view.reveal_unseen()

    def _scrolled_view(self) -> DiffView | RequestView:
        if self._overlay_view is not None:
            return self._overlay_view
        if self._document.rows:
            return self._diff_view
        return self._arguments if self._arguments.max_scroll_y else self._points

    def _unread_way(self) -> UnreadWay:
        """Which keys show what of the request has not been on screen."""
        above, below = (
            self._diff_view.unseen_lies() if self._document.unseen_lines else (False, False)
        )
        return ("both" if below else "up") if above else "down"

    def _unread_words(self) -> str:
        """The part of the request that has not been on screen, in words (R14); empty for none."""
        left, lines = self._document.unseen_lines, self._document.to_see
        rows = self.count_unseen() - left
        parts = [self.words("gate.unread.lines", count=left, total=lines)] if left else []
        parts += [count_words(self.words, "gate.unread.rows", rows)] if rows else []
        return self.words("gate.unread.and").join(parts)

    # --- the focus between two gates ---------------------------------------------------------

    @property
    def is_staying(self) -> bool:
        """Whether it has been answered and keeps the focus for the next gate of the reply."""
        return self._staying

    def release_focus(self) -> None:
        """Keep the focus no longer: the composer should have it."""
        if self._staying:
            self._leave_question()

    def watch_may_ask_again(self) -> None:
        if self.is_mounted and self._staying and not self.may_ask_again and not self.gates:
            self._show_next_gate()

    def _begin_stay(self) -> None:
        self._staying = True
        self.focus()
        self._stay_timer = self.set_timer(STAY, self.release_focus)

    def _end_stay(self) -> None:
        self._staying = False
        if self._stay_timer is not None:
            self._stay_timer.stop()
            self._stay_timer = None

    def _leave_question(self, typed: Sequence[Typed] = (), *, pending: bool = False) -> None:
        self._end_stay()
        super()._leave_question(typed, pending=pending)

    def on_blur(self) -> None:
        if self._staying and host_of(self).app_focus:
            self._end_stay()
        if not self._staying and not self.gates and self._gate is not None:
            self.show_gate(None)

    # --- keys ------------------------------------------------------------------------------

    def _can_do(self, key: str) -> bool:
        gate = self._gate
        match _ACTIONS.get(key):
            case "alternative":
                return gate is not None and int(key) <= len(gate.alternatives)
            case "session" | "step" | "only" | "routine" | "project" as choice:
                return gate is not None and gate.can_grant(GateChoice(choice))
            case "edit":
                return gate is not None and gate.can_edit and bool(gate.previews)
            case _:
                return key in self.LETTERS

    def _waiting_words(self, key: str) -> str:
        if _ACTIONS.get(key) == "once":
            return self.words("gate.allowing")
        if _ACTIONS.get(key) == "alternative" and self._gate is not None:
            return shown_line(self._gate.alternatives[int(key) - 1])
        return super()._waiting_words(key)

    def _open_gate(self) -> Gate | None:
        """The gate, if a key may answer it now."""
        return self._gate if self._is_ready else None

    def action_approve(self, choice: str) -> None:
        answer = GateChoice(choice)
        if answer is GateChoice.ONCE:
            self._approve_call(answer)
        else:
            self._widen_rights(answer)

    def _widen_rights(self, choice: GateChoice) -> None:
        """Allow more than this call: the first time show exactly what, then do it."""
        gate = self._open_gate()
        if gate is None or not gate.can_grant(choice):
            return
        if self._scope is choice:
            self._approve_call(choice)
        elif self._document.takes_nothing:
            self._show_hint("gate.takes_nothing")
        else:
            try:
                self.show_scope(choice, self._alike(gate) if self._alike else ())
            except ValueError:  # it can be allowed once only
                self.show_scope(None)
                self._show_hint("shell.answer_refused")
            self._guard.begin_settling()  # nobody has read it yet

    def action_escape(self) -> None:
        if self._scope is not None:
            self.show_scope(None)
        elif self._details.display:
            self.show_details(shown=False)
        else:
            super().action_escape()

    def action_details(self) -> None:
        """Everything about it, or no more than what decides."""
        if self._is_ready:
            self.show_details(shown=not self._details.display)

    def action_whole_diff(self) -> None:
        """The diff on the whole screen, with the keys of the gate."""
        gate = self._gate
        if self._is_ready and gate is not None and gate.previews:
            from duckflow_tui.ui.screens.whole_diff import WholeDiff

            self._guard.stop_guarding()  # what comes until the screen has the keys answers nothing
            self._whole = WholeDiff(self.words, self._clock, self._document, self._diff_view)
            host_of(self).push_screen(self._whole, lambda key: self._back_from(gate, key))

    async def _back_from(self, gate: Gate, key: str | None) -> None:
        """The whole screen is left: go on with the hunk that was at hand there, and act on the key
        that was pressed there, which was guarded there.
        """
        whole, self._whole = self._whole, None
        if self.has_focus:
            self._guard.begin_settling()
        if whole is None or gate != self._gate:
            return
        self._diff_view.go_on_at(whole.at)
        if key is not None:
            await self._run_key(key)

    def action_reject(self) -> None:
        """With remarks at once: they are the reason. Else ask for one."""
        gate = self._open_gate()
        if gate is None:
            return
        if self._document.remarks:
            self._send_answer(gate, GateChoice.REJECT, remarks=self._document.list_remarks())
        else:
            asked = self.words("gate.ask_reason")
            if cell_len(asked) > self.size.width - 1:  # the cursor stands before it
                asked = self.words("gate.ask_reason_short")
            self._open_field(asked)

    def action_edit(self) -> None:
        gate = self._open_gate()
        if gate is None or not gate.can_edit or not gate.previews:
            return
        from duckflow_tui.ui.screens.edit_proposal import EditProposal, can_edit, leave_out_hunks

        text = self._proposed(gate.gate_id) if self._proposed else None
        preview, out = gate.previews[0], [hunk for _, hunk in self._document.left_out]
        if text is not None and not can_edit(text):
            self._show_hint("gate.unsafe_edit")
            return
        if text is not None and out:  # what was left out stays so
            rest = leave_out_hunks(text, preview, out)
            text, preview = rest if rest is not None else (None, preview)
        if text is None:
            self._show_hint("gate.cannot_edit")
        else:
            self._guard.stop_guarding()  # what comes until the screen has the keys answers nothing
            screen = EditProposal(self.words, preview, text)
            host_of(self).push_screen(screen, lambda edited: self._apply_edit(gate, text, edited))

    def action_alternative(self, number: int) -> None:
        gate = self._open_gate()
        if gate is not None and number <= len(gate.alternatives):
            remarks = self._document.list_remarks()
            self._send_answer(gate, GateChoice.ALTERNATIVE, alternative=number, remarks=remarks)

    def action_line(self, by: int) -> None:
        """To another line of the diff; without one, scroll what there is."""
        if self._document.rows and self._overlay_view is None:
            self._diff_view.action_line(by)
        else:
            self._scrolled_view().scroll_relative(y=by, animate=False)

    def action_remark(self) -> None:
        """Write on the line at the cursor."""
        gate = self._gate
        if not self._is_ready or gate is None:
            return
        if gate.previews and self._overlay_view is None:
            self.diff.write(self)
            self._refresh_frame()
        else:
            self._show_hint("diff.no_line")

    async def action_on_diff(self, action: str) -> None:
        await self._diff_view.run_action(action)

    async def action_on_hunk(self, action: str) -> None:
        """Take or leave hunks; where the change is one whole, say why not."""
        whole = self._diff_view.whole_reason
        if not self._is_ready:
            return
        if whole is None:
            await self._diff_view.run_action(action)
        else:
            self._show_hint(f"diff.whole.{whole}")

    def _submit_text(self, text: str) -> None:
        gate = self._gate
        if gate is None or self._sent:
            return
        self._send_answer(gate, GateChoice.REJECT, reason=text.strip())

    # --- answers ---------------------------------------------------------------------------

    def _approve_call(self, choice: GateChoice) -> None:
        gate = self._open_gate()
        if gate is None:
            return
        if self._scope not in (None, choice):
            self.show_scope(None)
        if self._document.takes_nothing:
            self._show_hint("gate.takes_nothing")
            return
        # R14a
        why = bool(self.count_unseen() or self._document.remarks)  # these would be lost
        if self._asks_first(choice, why=why):
            return
        left_out = tuple(sorted(self._document.left_out))
        self._send_answer(gate, choice, left_out=left_out)

    def _send_answer(self, gate: Gate, choice: GateChoice, **fields: Any) -> None:
        answer = GateAnswer(
            gate_id=gate.gate_id,
            call_id=gate.call_id,
            args_hash=gate.args_hash,
            before_hashes=before_hashes(gate),
            choice=choice,
            **fields,
        )
        self._sent = True
        self._guard.forget_keys()
        self._close_field()
        self.post_message(self.Answered(answer))
        if len(self.gates) > 1:
            self.focus()  # the next one waits here
        elif self.may_ask_again and choice not in _ENDS:
            self._begin_stay()
        else:
            self._leave_question()
        self._refresh_frame()

    def _apply_edit(self, gate: Gate, before: str, edited: str | None) -> None:
        self._guard.begin_settling()
        if edited is None:
            return
        if gate != self._gate:
            self._show_hint("gate.changed_meanwhile")
        elif edited == before:
            self._show_hint("gate.not_edited")
        else:
            self._send_answer(gate, GateChoice.EDIT, edited=edited)
