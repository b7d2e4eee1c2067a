"""The main screen: chat, question and composer, with the side panes beside them."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.dom import DOMNode
from textual.message import Message
from textual.reactive import var
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

from duckflow_tui import commands
from duckflow_tui.state.base import Clock, half_width, one_line
from duckflow_tui.state.gates import CardKind
from duckflow_tui.state.store import Store
from duckflow_tui.tools.mcp.offers import PromptRefused, parse_prompt_name
from duckflow_tui.ui.bridge import Bridge
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.layout import ROOMY, SCANT, column_width, layout_for
from duckflow_tui.ui.panes.completion import CompletionList
from duckflow_tui.ui.panes.composer import NEWLINES, Composer
from duckflow_tui.ui.panes.diff import DiffView
from duckflow_tui.ui.panes.header import Header, Tabs
from duckflow_tui.ui.panes.key_guard import Typed
from duckflow_tui.ui.panes.plan import PlanPill
from duckflow_tui.ui.panes.question_pane import QuestionPane
from duckflow_tui.ui.panes.queue import QueueChips
from duckflow_tui.ui.panes.rows import Rows
from duckflow_tui.ui.panes.side import MOST, Side
from duckflow_tui.ui.panes.status import StatusLine, VitalsPlace
from duckflow_tui.ui.panes.talk import Talk
from duckflow_tui.ui.screens.pick_list import Choice
from duckflow_tui.ui.session_host import AppOptions, Unsent
from duckflow_tui.ui.stored_arrangement import SHARE, Arrangement, Column
from duckflow_tui.ui.textual_private import draw_leanly
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.ui.app import DuckflowApp
    from duckflow_tui.ui.layout import Layout
    from duckflow_tui.ui.panes.replay_bar import ReplayBar

_NEXT_COLUMN: Final[dict[Column, Column]] = {"side": "wide", "wide": "hidden", "hidden": "side"}
_STEP: Final = 4  # percent of the width by which a key moves the border

TWICE_WITHIN: Final = 2.0  # seconds between two Ctrl+C that quit, two Esc that lead back
DRAFT_AFTER: Final = 0.5  # seconds from a key until the draft is saved


class Workbench(Screen[None], inherit_bindings=False):
    """Lays out the panes for the size of the screen, and decides which are shown where room is
    short.
    """

    AUTO_FOCUS = None

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", show=False),
        Binding("end", "chat_end", show=False),
        Binding("ctrl+c,super+c", "screen.copy_text", show=False),
    ]

    class Stands(Message):
        """Posted once the panes are mounted and the composer has the focus."""

    words: var[Catalogue] = var(Catalogue)
    shown: var[str] = var("chat")  # name of the pane that the user chose
    column: var[Column] = var[Column]("side")  # width of the side panes
    zoomed: var[bool] = var(False)  # the shown pane fills the screen
    vitals_place: var[VitalsPlace] = var[VitalsPlace]("auto")  # where the gauges are shown

    def __init__(
        self, options: AppOptions, clock: Clock, bridge: Bridge, bar: ReplayBar | None = None
    ) -> None:
        """With the ``bar`` of a replay in place of the composer nothing can be typed."""
        super().__init__(id="workbench")
        draw_leanly(self)
        self._clock = clock
        self._bridge = bridge
        self.layout_name: Layout = "wide"
        self._stands = False
        self._whole = False  # the shown pane fills all but the bottom line
        self._kept_in = options.data_dir  # folder of the arrangement; None: it is not saved
        self._first_press = ("", float("-inf"))  # effect of a second press, time of the first
        self._drafting: Timer | None = None  # from a key until the draft is saved
        self.header = Header(options.title, demo=options.demo, id="header")
        self.status = StatusLine(id="status")
        self.all_tabs = Tabs(id="all-tabs")
        self.side = Side(clock, animation=options.animation)
        self.plan, self.diff = self.side.plan, self.side.diff
        self.goal, self.vitals = self.side.goal, self.side.goal.vitals
        self.pill = PlanPill(id="pill")
        self.queue = QueueChips(id="queue")
        self.completions = CompletionList(id="completions")
        self.composer = Composer(self.completions, id="composer")
        self.bar = bar
        self.home: Widget = bar or self.composer  # the focus comes back to it
        self.composer.display = bar is None
        self.status.over = bar is not None
        self.talk = Talk(options, clock, self.composer)
        self.question = self.talk.question

    def compose(self) -> ComposeResult:
        self._shape()  # before there is a child: each is styled once, for this size
        yield self.header
        yield self.all_tabs
        with Container(id="body"):
            yield self.side
            with Vertical(id="main"):
                # The card takes its share of what the composer leaves, however tall that is.
                yield self.talk
                yield self.pill
                yield self.queue
                yield self.completions
                yield self.composer
                if self.bar is not None:
                    yield self.bar
        yield self.status

    def on_mount(self) -> None:
        """Connect the panes to the state, restore the arrangement, and focus the composer."""
        for pane in (self.header, self.status, self.pill, self.queue, self.composer, self.talk):
            self._bridge.add(pane)
        for pane in (*self.side.panes, self.side):  # it writes titles of what they show
            self._bridge.add(pane)
        self.watch(self.talk, "gates_open", self._gates_came, init=False)
        self.watch(self.talk, "asks", self._card_came, init=False)
        self.watch(self.side, "holding", self._lay_out, init=False)
        self.watch(self.side, "share", self._lay_out, init=False)
        self.watch(self.vitals, "explained", self._lay_out, init=False)
        self._arrange()
        self._stands = True
        self.invalidate()
        self._lay_out()
        self.set_focus(self.home)
        self.post_message(self.Stands())

    @property
    def host(self) -> DuckflowApp:
        """The app."""
        return host_of(self)

    # --- contents ---------------------------------------------------------------------------

    async def show_session(self, store: Store) -> None:
        """Show the chat of this session."""
        at_welcome = self.talk.welcome is not None and self.talk.welcome in self._around()
        await self.talk.show_session(store)
        if at_welcome:
            self.set_focus(self.composer)
        self._lay_out()

    async def show_welcome(self) -> None:
        """Show the first screen, on which the user connects a model."""
        await self.talk.show_welcome()
        self._lay_out()

    def to_welcome(self, *, waits: bool = False) -> None:
        """Focus the first screen if the composer has the focus; ``waits``: a written message waits
        for a model.
        """
        welcome = self.talk.welcome
        if welcome is not None and self.focused is self.composer:
            welcome.waits = waits
            welcome.invalidate()
            self.set_focus(welcome)

    def show_pane(self, name: str) -> None:
        """Show the pane and focus it; while a question is open, focus that instead of the diff."""
        self.zoomed = self.zoomed and name != "chat"
        if name == self.diff.pane_name and self.talk.open_question is not None:
            self.shown = "chat"
            self.call_after_refresh(self.set_focus, self.talk.open_question)
            return
        self.shown = name
        target: Widget | None = self.talk.chat if name == "chat" else None
        for pane in self.side.panes:
            if pane.pane_name == name and target is None:
                target = pane.focus_target
        if target is not None:
            self.call_after_refresh(self.set_focus, target)

    def go_to(self, refs: Sequence[str], step_id: str = "") -> bool:
        """Scroll the chat to the first of these messages or calls it has, or without any to the
        step, and focus it; returns False where it has none.
        """
        if not self.talk.go_to(refs, step_id):
            return False
        if self.layout_name == "wide" and self.talk.chat is not None:
            self.set_focus(self.talk.chat)  # the pane that led here stays beside it
        else:
            self.show_pane("chat")
        return True

    def to_composer(self, *typed: Typed) -> None:
        """Focus the composer and, where one pane is shown at a time, show the chat; pass on typed
        keys.
        """
        self.zoomed = False
        self.shown = "chat"
        self.set_focus(self.home)
        for event in typed:
            self.composer.take_typed(event)

    def invalidate(self) -> None:
        """Draw everything again, for another language or theme."""
        for rows in self.query(Rows).results(Rows):
            rows.words = self.words
        self.composer.words = self.side.words = self.talk.words = self.words
        if self.talk.welcome is not None:  # of another theme its words tell nothing
            self.talk.welcome.invalidate()

    # --- watchers ---------------------------------------------------------------------------

    def watch_words(self) -> None:
        if self._stands:
            self.invalidate()

    def watch_vitals_place(self) -> None:
        """Show the gauges in column and tabs unless they are off, and lay out anew."""
        self.side.vitals_on = self.all_tabs.vitals_on = self.vitals_place != "off"
        self._lay_out()

    def watch_shown(self) -> None:
        self._lay_out()

    def watch_zoomed(self) -> None:
        self._lay_out()

    def watch_column(self) -> None:
        self._lay_out()

    def _gates_came(self, is_open: bool) -> None:
        """Mark the tab and lay out, because a gate opened or closed."""
        self.all_tabs.waiting = is_open
        self._lay_out()

    def _card_came(self, kind: CardKind | None) -> None:
        """Lay out, because a card opened or closed."""
        self.set_class(kind is not None, "-card")
        self._lay_out()

    # --- messages ---------------------------------------------------------------------------

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Skip the restyling by Textual, since all styles are up to date."""
        # What Textual would style here was styled when it was mounted, and on every change since.
        event.refresh_styles = False

    def on_resize(self) -> None:
        self._lay_out()

    def on_side_moved(self) -> None:
        """Save the width of the side panes after the border was dragged."""
        self.column = "side"
        self.keep_arrangement()

    def on_tabs_chosen(self, event: Tabs.Chosen) -> None:
        event.stop()
        self.show_pane(event.pane)

    async def on_composer_submitted(self, event: Composer.Submitted) -> None:
        """Handle a text sent from the composer: a line of the start page, a command, a server's
        prompt, or a message.
        """
        host, composer = self.host, event.composer
        session = host.session
        if self.talk.take_line(event.text):
            return
        typed = None if event.own else commands.parse_command(event.text)
        command = typed.command if typed is not None else None
        meant = commands.meant_by(event.text) if typed is None and not event.own else None
        if event.own and event.text in ("!", "!!"):
            self.status.show_notice("composer.no_command")
            composer.give_back(event.text)
        elif typed is not None and command is None and self._fetches_prompt(typed, event.text):
            composer.remember_sent(event.text, own=False)
        elif typed is not None and command is None:
            self.status.show_message(self.words.localize(commands.describe_unknown(typed.name)))
            composer.give_back(event.text)
        elif meant is not None:
            composer.give_back(meant[0])
            self.status.show_notice(meant[1], stays=True)
        elif typed is None and session.engine is None and not session.opening:
            composer.give_back(event.text)
            session.sends_draft = True
            self.to_welcome(waits=True)
        elif typed is None and self._answers(event.text):
            composer.remember_sent(event.text, own=event.own)
            self.status.show_notice("shell.letter_not_sent", letter=event.text, stays=True)
        else:
            composer.remember_sent(event.text, own=event.own)
            if typed is None:
                self.talk.to_end()
                host.call_later(host.key_queue.release_keys)  # it opens nothing
                await session.send(
                    event.text, later=event.later, own=event.own, quoted=event.quoted
                )
            elif command is not None and self._must_wait(command):
                session.unsent.append(Unsent(event.text, own=False, command=True))
            elif command is not None:
                host.run_command(command, typed.argument)

    def _fetches_prompt(self, typed: commands.Invocation, text: str) -> bool:
        """Start to fetch a server's prompt if the command is ``/server:prompt``; return whether it
        is.
        """
        engine, named = self.host.session.get_writable_engine(), parse_prompt_name(typed.name)
        if engine is None or engine.servers is None or named is None:
            return False
        fetched = engine.servers.fetch_prompt(*named, typed.argument)
        self.run_worker(self._write_prompt(fetched, text, named[0]), exit_on_error=False)
        return True

    async def _write_prompt(
        self, fetched: Coroutine[Any, Any, str], text: str, server: str
    ) -> None:
        """Write a server's prompt into the composer for the user to read before sending; show why
        where it is refused.
        """
        try:
            prompt = await fetched
        except PromptRefused as refused:
            self.composer.give_back(text)
            self.status.show_message(self.words.localize(refused.told))
        else:
            self.composer.append_text(prompt)
            self.status.show_notice("mcp.prompt_ready", server=server, stays=True)

    def _answers(self, text: str) -> bool:
        """Whether the text is a key of the open question, and therefore neither a message nor an
        answer from the composer.
        """
        question, letter = self.talk.open_question, half_width(text).lower()
        return question is not None and len(letter) == 1 and question.answers_to(letter)

    def _must_wait(self, command: commands.Command) -> bool:
        """Whether the command acts on a session that is still being opened."""
        session = self.host.session
        return session.opening and session.store is None and not command.early

    def on_composer_empty_enter(self) -> None:
        """Handle Enter in an empty composer: choose the marked line, focus the open question, or
        resume the work.
        """
        session = self.host.session
        if session.engine is None:
            if self.talk.welcome is not None:
                self.talk.welcome.action_take()
            return
        state, engine = session.engine.store.state, session.get_writable_engine()
        if self.talk.start is not None and self.talk.start.display:
            self.talk.start.action_take()
        elif state.gates or state.cards:
            if self.talk.open_question is not None:
                self.set_focus(self.talk.open_question)
        elif engine and ((state.turn and state.turn.pause != "running") or state.queue):
            engine.resume()
        elif engine and state.turn:
            self.status.show_notice("shell.nothing_to_send")

    def on_text_area_changed(self) -> None:
        """Save the draft half a second after a key."""
        self.status.written = self.composer.written
        self.talk.take_typed_digit(self.composer.text)
        if self._drafting is None:
            self._drafting = self.set_timer(DRAFT_AFTER, self._keep_draft)

    def _keep_draft(self) -> None:
        """Record the composer's text in the session."""
        self._drafting = None
        self.host.session.keep_draft()

    def on_question_pane_left(self, event: QuestionPane.Left) -> None:
        """Focus the composer with the typed keys; say where a card stays open."""
        self.to_composer(*event.typed)
        if event.pending and self.question.card is not None:
            self.status.show_notice("card.left_pending")

    def on_question_pane_plan_wanted(self) -> None:
        """Show the plan's pane."""
        self.show_pane("plan")

    def _around(self) -> tuple[DOMNode | None, ...]:
        """Return the focused widget and its ancestors."""
        return self.focused, *(self.focused.ancestors if self.focused else ())

    def on_key(self, event: events.Key) -> None:
        """Send a character that no pane uses to the composer."""
        around = self._around()
        asked = self.question in around
        welcome = self.talk.welcome
        if (
            welcome is not None and welcome.is_done and event.key in ("enter", *NEWLINES)
        ):  # what is written came the same way
            event.stop()
            event.prevent_default()
            self.to_composer(event)
            return
        if asked or not event.is_printable or event.character is None:
            return
        if self.focused is not self.composer and event.key in self.active_bindings:
            return
        event.stop()
        event.prevent_default()
        self.to_composer(event)

    # --- keys -------------------------------------------------------------------------------

    def action_pane(self, name: str) -> None:
        self.show_pane(name)

    def action_column(self) -> None:
        """Switch the side panes between normal width, wide and hidden."""
        if layout_for(*self.size) != "wide":
            self.status.show_notice("shell.no_column")
            return
        self.column = _NEXT_COLUMN[self.column]
        if self.column == "hidden" and self.shown != "chat":
            self.to_composer()
        self.keep_arrangement()

    def action_move_border(self, by: int) -> None:
        """Make the side panes wider, or with a positive number narrower."""
        if self.side.display and self.layout_name == "wide":
            self.column = "side"
            share = self.side.share or round(100 * self.side.size.width / self.size.width)
            self.side.share = share - by * _STEP
            self.keep_arrangement()

    def action_zoom(self) -> None:
        """Give the focused pane the whole screen, or undo that; during a gate the diff."""
        pane = self.side.pane_around(self._around()) or self.diff
        self.shown = pane.pane_name
        self.zoomed = not self.zoomed

    def action_escape(self) -> None:
        """Go back to the composer; there pause the work, and the second time stop it. With no work,
        a second Esc in an empty composer opens the page for rewinding.
        """
        session = self.host.session
        turn = session.store.state.turn if session.store is not None else None
        if self.zoomed:
            self.zoomed = False
        elif self.focused is not self.home:
            self.to_composer()
        elif self.get_selected_text():
            self.clear_selection()
        elif self.bar is not None:
            self._quit_on_second("replay.escape_again")
        elif turn is None:
            if not self._stop_what_is_beside() and not self.composer.draft_text:
                self._rewind_on_second()
        elif (engine := session.get_writable_engine()) is not None:
            engine.pause() if turn.pause == "running" else engine.stop()

    def _rewind_on_second(self) -> None:
        """Open the page for rewinding on the second press; not before the user has sent a
        message.
        """
        engine = self.host.session.get_writable_engine()
        if engine is None or not any(m.kind == "user" for m in engine.store.state.messages):
            return
        if self._is_second_press("shell.rewind_again"):
            self.host.action_page("rewind")

    def _stop_what_is_beside(self) -> bool:
        """Stop an answer that is still arriving, or the user's own command; return whether there
        was one.
        """
        session = self.host.session
        engine, store = session.get_writable_engine(), session.store
        if engine is not None and store is not None and store.state.live:
            engine.stop()
            return True
        return session.stop_own_command()

    def action_interrupt(self) -> None:
        """Handle Ctrl+C without a selection: put the draft away, else stop the work, else quit on
        the second press.
        """
        session = self.host.session
        if self.bar is not None:
            self._quit_on_second("shell.quit_again", pressed="Ctrl+C")
            return
        if self.composer.draft_text.strip():
            self.composer.put_away()
            self.status.show_notice("shell.draft_kept")
            return
        state = session.store.state if session.store is not None else None
        if state is not None and state.turn is not None:
            engine = session.get_writable_engine()
            if engine is not None:
                engine.stop()
        elif not self._stop_what_is_beside():
            self.quit_on_second("Ctrl+C")

    def quit_on_second(self, pressed: str) -> None:
        """End the app on the second press of a key, printed as ``pressed``; the first press shows a
        notice, with the number of queued messages.
        """
        store = self.host.session.store
        waiting = len(store.state.queue) if store is not None else 0
        self._quit_on_second(
            "shell.quit_waiting" if waiting else "shell.quit_again", pressed=pressed, count=waiting
        )

    def _quit_on_second(self, notice: str, pressed: str = "", count: int = 0) -> None:
        """End the app on the second press; show this notice on the first."""
        if self._is_second_press(notice, pressed, count):
            self.host.exit(0)

    def _is_second_press(self, notice: str, pressed: str = "", count: int = 0) -> bool:
        """Whether the same key was pressed within ``TWICE_WITHIN``; else show the notice about the
        effect of a second press.
        """
        what = f"{notice} {pressed}"
        (before, at), now = self._first_press, self._clock.monotonic()
        if before == what and now - at <= TWICE_WITHIN:
            self._first_press = ("", float("-inf"))
            return True
        self._first_press = (what, now)
        self.status.show_notice(notice, pressed=pressed, count=count)
        return False

    def action_fold(self) -> None:
        """Fold or unfold the details of the chat."""
        chat = self.talk.transcript
        if chat is not None:
            chat.action_fold()
            self.status.show_notice("shell.details_open" if chat.details_open else "")

    def action_chat_end(self) -> None:
        self.talk.to_end()

    def action_scroll_page(self, step: int) -> None:
        """Scroll the chat by a page; a negative step goes up."""
        chat = self.talk.chat
        if chat is not None:
            chat.scroll_page_up(animate=False) if step < 0 else chat.scroll_page_down(animate=False)

    def action_scroll_line(self, step: int) -> None:
        """Scroll the chat by rows."""
        if self.talk.chat is not None:
            self.talk.chat.scroll_relative(y=step, animate=False)

    def action_search(self) -> None:
        """Search the diff while it has the focus, else the chat."""
        view, chat = self.diff.view, self.talk.transcript
        # Lines from the composer's top to the end of the screen.
        below = self.size.height - self.composer.region.y if self.composer.region.height else 1
        searched = view if self.focused is view else chat
        if searched is not None:
            from duckflow_tui.ui.screens.find import Find

            self.host.push_screen(Find(self.words, searched, below))

    def action_copy(self) -> None:
        """Copy the last reply as Markdown."""
        chat = self.talk.transcript
        text = chat.last_reply_markdown() if chat is not None else ""
        if text:
            self.host.copy_to_clipboard(text)
        else:
            self.status.show_notice("shell.nothing_to_copy")

    def action_search_history(self) -> None:
        """Choose an earlier message for the composer."""
        messages = self.composer.past.messages
        choices = [Choice(text, one_line(text, 200)) for text in reversed(messages)]
        if choices:
            self.host.pick("history", choices, self.composer.replace_text)
        else:
            self.status.show_notice("shell.no_history")

    def action_external_editor(self) -> None:
        """Edit the composer's text in the user's editor."""
        self.host.spawn(self._edit_outside(), "editor")

    async def _edit_outside(self) -> None:
        """Edit the composer's text in the user's editor and take over the result."""
        text = await self.host.editor.edit(self.composer.draft_text)
        if text is not None:
            self.composer.replace_text(text)

    # --- layout -----------------------------------------------------------------------------

    def _arrange(self) -> None:
        """Restore the arrangement that the user left, in this or another session."""
        kept = Arrangement.read(self._kept_in)
        self.side.share, self.column = kept.share, kept.column
        self.arrange_diffs(split=kept.split, wrap=kept.wrap)

    def arrange_diffs(self, *, split: bool, wrap: bool) -> None:
        """Set these display options on every diff."""
        for view in self.query(DiffView):
            view.split, view.wrap = split, wrap

    def keep_arrangement(self) -> None:
        """Save the present arrangement for the next start."""
        if self._kept_in is None:
            return
        view = self.diff.view
        now = Arrangement(
            share=self.side.share, column=self.column, split=view.split, wrap=view.wrap
        )
        folder, words = self._kept_in, self.words

        def write() -> str:
            """Write the arrangement; return the problem as a sentence, empty for none."""
            reason = now.write(folder)
            return words("choice.not_kept", reason=reason) if reason else ""

        self.host.save_in_background(write)

    def _lay_out(self) -> None:
        """Lay out the screen for its size and contents."""
        if not self._stands:
            return
        height = self.size.height
        self._shape()
        self.status.tight = height < ROOMY
        wide, squeezed = self.layout_name == "wide", self.talk.gates_open
        self.side.lay_out(height, wide=wide, squeezed=squeezed, opened=self.shown)
        self._place()

    def _shape(self) -> None:
        """Set all CSS classes at once, because each separate change would style the whole tree
        again.
        """
        width, height = self.size
        fits = layout_for(width, height)
        self.layout_name = "single" if self.zoomed else fits
        wide, gates_open = self.layout_name == "wide", self.talk.gates_open
        self._whole = self.zoomed and fits == "single" and self.talk.asks is None and not gates_open
        self.update_classes(
            {f"-{name}": self.layout_name == name for name in ("wide", "single")}
            | {
                "-tight": height < ROOMY,
                "-scant": height < SCANT,
                "-gate": gates_open,
                "-why": wide and self.goal.explained,
                "-zoomed": self.zoomed,
                "-apart": not wide and self.shown != "chat" and not self._whole,
            }
        )

    def _place(self) -> None:
        """Show and hide the panes, and set the width of the column."""
        self.all_tabs.shown = self.shown
        visible: set[str] = {"chat", self.shown}
        if self.layout_name == "single":
            # A question has its place in the chat, and a gate its own diff.
            asked = self.talk.open_question is not None
            asks = self.shown == "diff" and asked and not self.zoomed
            visible = {"chat" if asks else self.shown}
        elif self.column != "hidden" and self.talk.welcome is None:
            visible |= {pane.pane_name for pane in self.side.panes}
        self.query_one("#chat").display = "chat" in visible
        main = self.query_one("#main")
        main.set_class("chat" not in visible, "-foot")
        main.display = self.header.display = not self._whole
        self.diff.leads_back = self.zoomed
        self.question.alone = "chat" not in visible
        self.pill.apart = "chat" in visible and "plan" not in visible
        if self.talk.transcript is not None:
            self.talk.transcript.tells_step = not self.pill.apart
        is_narrow = self.column == "side" and not self.side.share and self.shown == "chat"
        self.side.is_narrow = is_narrow
        self.side.show_panes(visible, opened=self.shown)
        in_column = "vitals" in visible or self.vitals_place == "off"
        self.status.vitals_place = "off" if in_column else self.vitals_place
        if self.layout_name == "single":
            self.side.styles.clear_rule("width")
            return
        share = MOST if self.column == "wide" else self.side.share or SHARE
        self.side.styles.width = column_width(self.size.width) if is_narrow else f"{share}%"
