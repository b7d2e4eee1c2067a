"""DuckflowApp: keys, type-ahead and what the terminal is told. The engine's truth is elsewhere."""

from __future__ import annotations

import gc
import os
from contextlib import ExitStack
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.filter import Monochrome, NoColor

from duckflow_tui import commands
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import StateError
from duckflow_tui.state.gates import CardKind, GateAnswer
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.line_filter import SafeLineFilter
from duckflow_tui.ui.panes.composer import Composer
from duckflow_tui.ui.panes.gate import GateCard
from duckflow_tui.ui.panes.queue import QueueChips
from duckflow_tui.ui.panes.welcome import DemoButton
from duckflow_tui.ui.plan_actions import PlanActions
from duckflow_tui.ui.session_host import Unsent
from duckflow_tui.ui.terminal import (
    SAVE_TITLE,
    clipboard_sequence,
    notification_sequence,
    title_sequence,
)


def _bindings() -> list[BindingType]:
    """The keys of ``anywhere``; a pair of keys with one action goes back and forth."""
    found: list[BindingType] = [
        Binding("ctrl+r", "search_history", show=False),
        Binding("ctrl+g", "external_editor", show=False),
    ]
    for key in keys_of("anywhere"):
        if key.action in ("scroll_page", "scroll_line"):
            back, forth = key.keys
            found.append(Binding(back, f"{key.action}(-1)", key.label, show=False))
            found.append(Binding(forth, f"{key.action}(1)", key.label, show=False))
        else:
            found.append(Binding(",".join(key.keys), key.action, key.label, show=False))
    return found


#: Cards that ask for an approval; the others ask for an answer.
_APPROVALS: Final = (CardKind.PLAN, CardKind.PLAN_CHANGE)


class DuckflowApp(PlanActions, inherit_bindings=False):
    """The screen of one process; sessions come and go in it.

    ``run_to_end`` is how the command line runs it; tests use ``run_test``.
    """

    BINDINGS: ClassVar[list[BindingType]] = _bindings()

    _held: list[events.Key | events.Paste] | None = None
    _questions_seen: frozenset[str] = frozenset()  # ids of gates and cards
    _undrawn: ExitStack  # held until the keys are in that came before the composer

    # Textual

    def on_load(self) -> None:
        self._held = []
        # Drawn before the keys are in, the composer would for a moment be empty again.
        self._undrawn = ExitStack()
        self._undrawn.enter_context(self.batch_update())
        # Textual turns colours to grey for NO_COLOR; the convention asks for none at all.
        self._filters = [
            NoColor() if isinstance(line_filter, Monochrome) else line_filter
            for line_filter in self._filters
        ]
        self._filters.append(SafeLineFilter())
        if not self.is_headless:
            self.guard.watch_signals(self.end)

    def on_mount(self) -> None:
        self.bridge.add(lambda state: (state.gates, state.cards), self._questions_changed)
        self._write(SAVE_TITLE)
        self._entitle(waiting=False)

    async def on_event(self, event: events.Event) -> None:
        if (
            self._held is not None
            and isinstance(event, events.Key | events.Paste)
            and not event.is_forwarded
        ):
            self._held.append(event)
            return
        if isinstance(event, events.Key) and not event.is_forwarded:
            self.bench.status.clear_message()
        await super().on_event(event)

    async def on_workbench_stands(self) -> None:
        """Keys that came before the composer had the focus go to it now, in their order."""
        held, self._held = self._held or [], None
        for event in held:
            await self.on_event(event)
        self.bench.composer.call_later(self._draw)  # behind the keys in its queue

    def _draw(self) -> None:
        self._undrawn.close()
        self.bench.refresh()
        self.bench.composer.call_after_refresh(self._begin)

    def _begin(self) -> None:
        """The first keys are on the screen: now the engine's rooms may be imported."""
        gc.freeze()
        gc.enable()  # the command line put it off
        self.run_worker(self.open_session(), group="opening", exit_on_error=False)

    # messages of the panes

    async def on_composer_submitted(self, event: Composer.Submitted) -> None:
        typed = None if event.own else commands.parse(event.text)
        if event.own and event.text == "!":
            self.say("composer.no_command")
            event.composer.give_back(event.text)
        elif typed is not None and typed.command is None:
            self.say("shell.no_command", name=typed.name)
            event.composer.give_back(event.text)
        elif typed is None and self.engine is None and not self.opening:
            self.say("shell.no_endpoint")
            event.composer.give_back(event.text)
        else:
            event.composer.remember(event.text, own=event.own)
            if typed is None:
                await self.send(event.text, later=event.later, own=event.own)
            elif typed.command is not None and self._must_wait(typed.command):
                self.unsent.append(Unsent(event.text, own=False, command=True))
            elif typed.command is not None:
                self.run_command(typed.command, typed.argument)

    def _must_wait(self, command: commands.Command) -> bool:
        """Whether it acts on a session that is still on its way."""
        return self.opening and self.store is None and not command.early

    def run_typed(self, text: str) -> None:
        typed = commands.parse(text)
        if typed is not None and typed.command is not None:
            self.run_command(typed.command, typed.argument)

    def on_composer_copied(self, event: Composer.Copied) -> None:
        self.copy_to_clipboard(event.text)

    def on_composer_empty_enter(self) -> None:
        if self.engine is None:
            if not self.opening:
                self.start_demo()
            return
        state, engine = self.engine.store.state, self.acting()
        if state.gates or state.cards:
            self.bench.focus_question()
        elif engine and ((state.turn and state.turn.pause != "running") or state.queue):
            engine.resume()

    async def on_gate_card_answered(self, event: GateCard.Answered) -> None:
        await self._answer(event.answer)

    def on_queue_chips_take_back(self, event: QueueChips.TakeBack) -> None:
        self.take_back(event.message_id)

    def on_demo_button_pressed(self, _event: DemoButton.Pressed) -> None:
        self.start_demo()

    # intents

    def start_demo(self) -> None:
        """The session that needs no model."""
        if self.engine is None and not self.opening:
            self.run_worker(self.open_demo(), group="opening", exit_on_error=False)

    async def _answer(self, answer: GateAnswer) -> None:
        engine = self.acting()
        if engine is None:
            return
        try:
            await engine.answer_gate(answer)
        except StateError:
            # The gate closed or was renewed between the key and here: nothing was approved.
            self.say("shell.answer_refused")

    # the terminal

    def copy_to_clipboard(self, text: str) -> None:
        """Hand the text to the terminal, and say so; only the terminal knows if it took it."""
        self._clipboard = text
        sequence = clipboard_sequence(text)
        if sequence is None:
            self.say("shell.too_long_to_copy", count=len(text))
            return
        self._write(sequence)
        self.say("shell.copied", count=len(text))

    def _questions_changed(self, state: AgentState) -> None:
        names = {gate.gate_id: gate.operation for gate in state.gates}
        asked = {card.card_id for card in state.cards if card.kind not in _APPROVALS}
        names |= {card.card_id: self.words(f"card.kind.{card.kind}") for card in state.cards}
        new = [question for question in names if question not in self._questions_seen]
        self._questions_seen = frozenset(names)
        self._entitle(waiting=bool(names))
        if not new or self.app_focus or not self.options.notifications:
            return
        self.bell()
        key = "consult.asks_you" if new[-1] in asked else "shell.needs_you"
        body = self.words(key, operation=names[new[-1]])
        self._write(notification_sequence("duckflow", body, os.environ))

    def _entitle(self, *, waiting: bool) -> None:
        session = self.store.state.session if self.store is not None else None
        name = session.title if session is not None else self.options.title
        mark = f"{self.words('shell.title_waiting')} " if waiting else ""
        self._write(title_sequence(f"{mark}duckflow {name}".strip()))

    def _write(self, sequence: str) -> None:
        if self._driver is not None and not self.is_headless:
            self._driver.write(sequence)
