"""The chat, and below it the open question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.reactive import var
from textual.timer import Timer
from textual.worker import Worker

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Clock, StateError
from duckflow_tui.state.calls import OperationMessage, list_similar_calls
from duckflow_tui.state.conversation import AssistantMessage, UserMessage
from duckflow_tui.state.gates import Card, CardKind, DraftRemarks, Gate, GateAnswer, Remark
from duckflow_tui.state.plan import ReportMessage
from duckflow_tui.state.store import Store
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.panes.card_words import step_number
from duckflow_tui.ui.panes.composer import Composer
from duckflow_tui.ui.panes.question import Asked, id_of
from duckflow_tui.ui.panes.question_pane import QuestionPane
from duckflow_tui.ui.panes.transcript import Transcript
from duckflow_tui.ui.session_host import AppOptions
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.ui.panes.start import Start
    from duckflow_tui.ui.panes.welcome import Welcome

#: Seconds after which a digit alone in the composer chooses its line. A key that follows sooner
#: makes it the beginning of a text, which people type at 0.1 to 0.3 seconds a character.
TAKEN_AFTER: Final = 0.5
_SAID: Final = (AssistantMessage, ReportMessage, UserMessage)


class Talk(Vertical):
    """The chat with one open question at a time: the oldest, until it is closed."""

    words: var[Catalogue] = var(Catalogue)
    gates_open: var[bool] = var(False)  # a gate is shown, or another of its reply may follow
    asks: var[CardKind | None] = var[CardKind | None](None)  # the kind of the card that is shown

    def __init__(self, options: AppOptions, clock: Clock, composer: Composer) -> None:
        super().__init__(id="talk")
        self._options = options
        self._composer = composer
        self.question = QuestionPane(clock, id="question")
        self.question.proposed = self._proposed_text
        self.question.alike = self._asked_alike
        self.question.remarks.load_stored = self._kept_remarks
        self.transcript: Transcript | None = None
        self.welcome: Welcome | None = None
        self.start: Start | None = None
        self._taking: Timer | None = None  # until a typed digit chooses its line
        self._going: Worker[None] | None = None  # switches to another session
        self._asked_about = ""  # id of the question that is shown, empty for none
        self._seen = 0  # messages when it opened, or when the user last focused it
        self._messages = 0  # present number of messages

    def compose(self) -> ComposeResult:
        yield Vertical(id="chat")
        yield self.question

    def _proposed_text(self, gate_id: str) -> str | None:
        """Return the proposed file content of a gate; None where unknown."""
        engine = host_of(self).session.engine
        return None if engine is None else engine.proposed_text(gate_id)

    def _asked_alike(self, gate: Gate) -> Sequence[OperationMessage]:
        """Return earlier calls that asked for the same approval."""
        store = host_of(self).session.store
        return list_similar_calls(store.state, gate) if store is not None else ()

    def _kept_remarks(self, about: str) -> tuple[Remark, ...]:
        """Return stored remarks on this proposal; those on another one are deleted."""
        session = host_of(self).session
        kept = session.store.state.remarks if session.store is not None else DraftRemarks()
        if kept.about == about:
            return kept.remarks
        if kept.remarks:  # they belong to another proposal
            self.call_later(self._drop_remarks, len(kept.remarks))
        return ()

    def _drop_remarks(self, count: int) -> None:
        """Delete the stored remarks and tell the user."""
        engine = host_of(self).session.get_writable_engine()
        if engine is not None:
            engine.keep_remarks("", ())
            host_of(self).status.show_notice("gate.remarks_dropped", count=count, stays=True)

    def on_question_frame_remarked(self, event: QuestionPane.Remarked) -> None:
        """Store the user's remarks."""
        event.stop()
        engine = host_of(self).session.get_writable_engine()
        if engine is not None:
            engine.keep_remarks(event.about, event.remarks)

    # --- the chat ---------------------------------------------------------------------------

    @property
    def chat(self) -> Transcript | Welcome | Start | None:
        """The widget above the question: start page, transcript or first screen."""
        return self.start or self.transcript or self.welcome

    async def show_session(self, store: Store) -> None:
        """Show the chat of this session in place of the present widget."""
        chat = self.query_one("#chat", Vertical)
        await chat.remove_children()
        self.welcome = self.start = None
        animation = self._options.animation
        self.transcript = Transcript(store, animation=animation, id="transcript")
        self.transcript.words = self.words
        self.transcript.when_resized = self._fit_chat
        await chat.mount(self.transcript)

    async def show_welcome(self) -> None:
        """Show the first screen, on which the user connects a model."""
        from duckflow_tui.ui.panes.welcome import Welcome

        chat = self.query_one("#chat", Vertical)
        await chat.remove_children()
        self.transcript = self.start = None
        options, connecting = self._options, host_of(self).connecting
        path, problems = options.settings_path, options.problems
        self.welcome = Welcome(path, problems, connecting, id="welcome")
        self.welcome.words = self.words
        await chat.mount(self.welcome)

    async def offer(self, stories: dict[str, str]) -> None:
        """Show the start page, if nothing was said in the session yet. ``stories``: the requests of
        the demo, by name.
        """
        from duckflow_tui.ui.panes.start import Start, is_fresh

        store = host_of(self).session.store
        if self.transcript is None or store is None or not is_fresh(store.state):
            return
        start = Start(stories, id="start")
        start.words = self.words
        start.show(store.state)
        self.start = start
        await self.query_one("#chat", Vertical).mount(start, before=self.transcript)
        self.take_typed_digit(self._composer.text)

    def take_typed_digit(self, text: str) -> None:
        """Choose the line with this digit, if it stays alone in the composer for half a second."""
        if self._taking is not None:
            self._taking.stop()
            self._taking = None
        if self._line_of(text) is not None:
            self._taking = self.set_timer(TAKEN_AFTER, lambda: self._take_typed(text))

    def take_line(self, text: str) -> bool:
        """Choose the line that this text names; returns False where it names none."""
        at = self._line_of(text)
        if at is None:
            return False
        if self.welcome is not None:
            self.welcome.take(at)
        elif self.start is not None:
            self.start.mark(at)
            self.start.action_take()
        return True

    def _line_of(self, text: str) -> int | None:
        """Return the index of the line that this text names; None for none."""
        offering = self.welcome or self.start
        return offering.place_of(text) if offering is not None and text else None

    def _take_typed(self, text: str) -> None:
        """Choose the line if the composer still holds only this digit, and clear it."""
        if self._composer.text == text and self.take_line(text):
            self._composer.replace_text("")

    def on_start_taken(self, event: Start.Taken) -> None:
        """Send the chosen request, or switch to the chosen session."""
        event.stop()
        host, composer = host_of(self), self._composer
        if event.request:
            composer.send_text(event.request)
        elif self._going is None or self._going.is_finished:
            self._going = host.spawn(host.session.leave_for(event.session_id), "sessions")

    def to_end(self) -> None:
        """Scroll the chat to its end, and follow it."""
        if self.transcript is not None:
            self.transcript.action_scroll_end()

    def go_to(self, refs: Sequence[str], step_id: str = "") -> bool:
        """Scroll the chat to the first of these messages or calls it has, or without any to the
        step; returns False where it has none.
        """
        chat = self.transcript
        named = [ref for ref in refs if ref or step_id]
        return chat is not None and any(chat.go_to(step_id, ref) for ref in named)

    # --- the question -----------------------------------------------------------------------

    @property
    def open_question(self) -> QuestionPane | None:
        """The question pane while a question is open and shown; else None."""
        return self.question if self.gates_open or self.asks is not None else None

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """Return the parts of the state that ``show`` reads."""
        aside = any(reply.aside for reply in state.live.values())
        plans = state.plans if state.cards else ()
        said = (len(state.messages), aside)
        begun = (state.turn is None, len(state.queue), len(state.running)) if self.start else ()
        mode = (state.session, state.mode) if self.start else ()
        return state.gates, state.cards, plans, *said, *begun, *mode

    def show(self, state: AgentState) -> None:
        """Show the open question; the chat gets some room if something was said meanwhile."""
        if self.start is not None:
            self._show_start(self.start, state)
        question = self.question
        shown = oldest_question(state, question.asked)
        card = shown if isinstance(shown, Card) else None
        question.show(
            shown,
            plan=next((p for p in state.plans if card and p.plan_id == card.plan_id), None),
            waiting=len(state.gates) + len(state.cards),
            step=step_words(shown, state, self.words) if isinstance(shown, Gate) else "",
        )
        self.asks = card.kind if card is not None else None
        self.gates_open = isinstance(shown, Gate) or question.is_staying
        asked = id_of(question.asked)
        if asked != self._asked_about and self.transcript is not None:
            self.transcript.show_state(state)  # both in one picture
        question.yields = self._was_talked_since(state, asked)
        self._fit_chat()

    def _fit_chat(self) -> None:
        """Limit the chat's height while a question is open, so that it follows a short chat
        directly.
        """
        chat, rows = next(iter(self.query("#chat")), None), None
        if chat is None:  # the app starts or ends
            return
        if self.open_question is not None and self.transcript is not None and self.start is None:
            rows = self.transcript.virtual_size.height + chat.gutter.height + 1
        chat.styles.max_height = rows

    def _was_talked_since(self, state: AgentState, asked: str) -> bool:
        """Whether something was said since the question opened, or since the user last
        focused it.
        """
        self._messages = len(state.messages)
        if asked != self._asked_about:
            self._asked_about, self._seen = asked, self._messages
        said = any(isinstance(message, _SAID) for message in state.messages[self._seen :])
        return bool(asked) and (said or any(live.aside for live in state.live.values()))

    def _show_start(self, start: Start, state: AgentState) -> None:
        """Show the start page while the session is fresh, and remove it afterwards."""
        from duckflow_tui.ui.panes.start import is_fresh

        start.show(state)
        start.display = fresh = is_fresh(state)
        if not fresh and not self.open_question:
            self.start = None
            start.remove()

    def on_question_pane_left(self) -> None:
        """Update ``gates_open``."""
        store = host_of(self).session.store
        self.gates_open = self.question.gate is not None and bool(store and store.state.gates)

    async def on_question_pane_answered(self, event: QuestionPane.Answered) -> None:
        """Pass the answer to the engine; tell the user where the question was closed or renewed
        meanwhile.
        """
        event.stop()
        if self._composer.text:  # the user was in the middle of a message
            self.question.release_focus()
        engine, answer = host_of(self).session.get_writable_engine(), event.answer
        if engine is None:
            return
        try:
            if isinstance(answer, GateAnswer):
                await engine.answer_gate(answer)
            else:
                await engine.answer_card(answer)
        except StateError:
            # It closed or was renewed between the key and here: nothing was answered.
            host_of(self).status.show_notice("shell.answer_refused")

    def on_descendant_focus(self) -> None:
        """Note that the user has turned to the question, which then gets the full height again."""
        focused = self.screen.focused
        around = (focused, *(focused.ancestors if focused else ()))
        if self.question in around:
            self._seen = self._messages
            self.question.yields = False

    def watch_words(self) -> None:
        """Pass the language on to all parts."""
        self.question.words = self.words
        if self.transcript is not None:
            self.transcript.words = self.words
        if self.welcome is not None:
            self.welcome.words = self.words
        if self.start is not None:
            self.start.words = self.words


def oldest_question(state: AgentState, shown: Asked | None) -> Asked | None:
    """Return the gate or card to show: the one ``shown`` so far while it is open, else the
    oldest.
    """
    questions = (*state.gates, *state.cards)
    same = (question for question in questions if id_of(question) == id_of(shown))
    return next(same, min(questions, key=lambda question: question.opened_at, default=None))


def step_words(gate: Gate, state: AgentState, words: Catalogue) -> str:
    """Return the step that a gate belongs to, as ``step 2``; empty for none."""
    number = step_number(state.active_plan, gate.step_id) if gate.step_id else "?"
    return "" if number == "?" else words("plan.step_number", number=number)
