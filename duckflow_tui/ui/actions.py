"""What keys and commands do. Each action is an intent for the engine or a move on the screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from duckflow_tui.state.base import one_line
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.ui import outside_editor
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.commands import CHOICES, COMMANDS, Command, Takes
from duckflow_tui.ui.panes.header import PaneName
from duckflow_tui.ui.rewind_actions import RewindActions
from duckflow_tui.ui.screens.confirm import Answer, Confirm
from duckflow_tui.ui.screens.find import Find, InDiff, InTranscript
from duckflow_tui.ui.screens.keys_help import KeysHelp
from duckflow_tui.ui.screens.pick_list import Choice, PickList

TWICE_WITHIN: Final = 2.0  # seconds between two Ctrl+C that quit


class Actions(RewindActions, inherit_bindings=False):
    """The actions named in ``bindings.KEYS`` and ``commands.COMMANDS``."""

    _interrupted_at: float = float("-inf")

    # moving about

    def action_pane(self, pane: PaneName) -> None:
        self.bench.show_pane(pane)

    def action_keys(self) -> None:
        self.push_screen(KeysHelp(self.words))

    def action_command_palette(self) -> None:
        by_action = {key.action: key.label for key in keys_of("anywhere")}
        choices = [
            Choice(c.name, f"/{c.name}", self.words(c.text), by_action.get(c.action, ""))
            for c in COMMANDS
        ]
        names = {command.name: command for command in COMMANDS}

        def run(name: str | None) -> None:
            if name is not None:
                self.run_command(names[name])

        self.pick("palette", choices, run)

    def action_escape(self) -> None:
        """Back to the composer; there: pause the work, and the second time stop it."""
        if self.bench.focused is not self.bench.composer:
            self.bench.to_composer()
            return
        if self.bench.get_selected_text():
            self.bench.clear_selection()
            return
        if self.engine is None:
            return
        turn = self.engine.store.state.turn
        if turn is None:
            self.stop_own_command()
        elif turn.pause == "running":
            self.engine.pause()
        else:
            self.engine.stop()

    def action_interrupt(self) -> None:
        """Ctrl+C without a selection: one effect a press, and never a lost draft."""
        composer = self.bench.composer
        if composer.draft.strip():
            composer.put_away()
            self.say("shell.draft_kept")
            return
        state = self.engine.store.state if self.engine is not None else None
        if self.engine is not None and state is not None and state.turn is not None:
            self.engine.stop()
            return
        if self.stop_own_command():
            return
        now = self.clock.monotonic()
        if now - self._interrupted_at <= TWICE_WITHIN:
            self.exit(0)
            return
        self._interrupted_at = now
        waiting = len(state.queue) if state is not None else 0
        self.say("shell.quit_waiting" if waiting else "shell.quit_again", count=waiting)

    def action_quit_now(self) -> None:
        self.exit(0)

    def action_fold(self) -> None:
        if self.bench.transcript is not None:
            self.bench.transcript.action_fold()

    def action_scroll_page(self, step: int) -> None:
        chat = self.bench.transcript or self.bench.welcome
        if chat is not None:
            chat.scroll_page_up(animate=False) if step < 0 else chat.scroll_page_down(animate=False)

    def action_scroll_line(self, step: int) -> None:
        chat = self.bench.transcript or self.bench.welcome
        if chat is not None:
            chat.scroll_relative(y=step, animate=False)

    def action_search(self) -> None:
        """In the diff while it has the focus, else in the chat."""
        view = self.bench.diff.view
        if self.bench.focused is view:
            self.push_screen(Find(self.words, InDiff(view), self._under_chat))
        elif self.bench.transcript is not None:
            self.push_screen(
                Find(self.words, InTranscript(self.bench.transcript), self._under_chat)
            )

    @property
    def _under_chat(self) -> int:
        """Lines from the composer's top to the end of the screen."""
        composer = self.bench.composer.region
        return self.bench.size.height - composer.y if composer.height else 1

    # the composer

    def action_search_history(self) -> None:
        messages = self.bench.composer.past.messages
        choices = [Choice(text, one_line(text, 200)) for text in reversed(messages)]

        def take(text: str | None) -> None:
            if text is not None:
                self.bench.composer.write(text)

        if choices:
            self.pick("history", choices, take)
        else:
            self.say("shell.no_history")

    def action_external_editor(self) -> None:
        self.spawn(self._edit_outside(), "editor")

    async def _edit_outside(self) -> None:
        composer = self.bench.composer
        text = await self.in_editor(lambda command: outside_editor.edit(command, composer.draft))
        if text is not None:
            composer.write(text)

    # the engine

    def action_cycle_mode(self) -> None:
        if self.engine is None:
            return
        modes = list(ApprovalMode)
        mode = modes[(modes.index(self.engine.store.state.mode) + 1) % len(modes)]
        self.enter_mode(mode)

    def enter_mode(self, mode: ApprovalMode) -> None:
        """Set the mode; trusted asks for a ``y`` first. An open gate stays as it is."""
        if self.engine is None:
            return
        if mode is not ApprovalMode.TRUSTED or self.engine.store.state.mode is mode:
            self.engine.set_mode(mode)
            return
        screen = Confirm(self.words, self.clock, "trusted")

        def answered(answer: Answer | None) -> None:
            if self.engine is not None and answer == "yes":
                self.engine.set_mode(ApprovalMode.TRUSTED)
            elif self.engine is not None and answer == "past":
                self.engine.set_mode(ApprovalMode.PLAN)
            if screen.typed:
                self.bench.composer.insert(screen.typed)

        self.push_screen(screen, answered)

    def action_pause(self) -> None:
        if self.engine is not None:
            self.engine.pause()

    def action_stop(self) -> None:
        if self.engine is not None:
            self.engine.stop()

    def action_retry(self) -> None:
        if self.engine is not None:
            self.spawn(self._retry(), "retry")

    def action_undo(self) -> None:
        if self.engine is not None:
            self.spawn(self.engine.undo(), "undo")

    def action_copy(self) -> None:
        """The last reply, as it was written."""
        chat = self.bench.transcript
        text = chat.last_reply_markdown() if chat is not None else ""
        if text:
            self.copy_to_clipboard(text)
        else:
            self.say("shell.nothing_to_copy")

    # commands

    def run_command(self, command: Command, argument: str = "") -> None:
        """Run it; where it takes a choice and none was given, ask for one."""
        if not command.takes or (command.alone and not argument):
            self.call_next(self.run_action, command.action)
            return
        if command.takes == "text":
            self.told(command.name, argument)
            return
        values = CHOICES[command.takes]
        if argument.lower() in values:
            self.choose(command.takes, argument.lower())
        elif argument:
            self.say("shell.no_choice", given=argument, choices=", ".join(values))
        else:
            takes = command.takes
            if takes == "profile":
                choices = self.profile_choices()
            else:
                choices = [Choice(v, v, self.words(f"choice.{takes}.{v}")) for v in values]
            self.pick(takes, choices, lambda value: self.choose(takes, value))

    def choose(self, takes: Takes, value: str | None) -> None:
        """Apply a choice; None leaves everything as it is."""
        if value is None:
            return
        if takes == "language":
            self.speak(value)
        elif takes == "theme":
            self.theme = value
            self.bench.invalidate()
        elif takes == "mode":
            self.enter_mode(ApprovalMode(value))
        elif takes == "vitals":
            self.show_vitals(on=value == "on")
        elif takes == "profile":
            self.choose_profile(value)

    def pick(
        self, what: str, choices: Sequence[Choice], then: Callable[[str | None], None]
    ) -> None:
        """Show a list to choose from."""
        title, hint = self.words(f"pick.{what}"), self.words("pick.hint")
        self.push_screen(PickList(title, hint, choices), then)

    async def _retry(self) -> None:
        if self.engine is not None and not await self.engine.retry():
            self.say("shell.nothing_to_retry")
