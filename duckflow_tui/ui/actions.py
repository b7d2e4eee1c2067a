"""What keys and commands do. Each action is an intent for the engine or a move on the screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from duckflow_tui.commands import CHOICES, COMMANDS, Command
from duckflow_tui.state.base import one_line
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.ui import outside_editor
from duckflow_tui.ui.page_actions import PageActions
from duckflow_tui.ui.panes.header import PaneName
from duckflow_tui.ui.screens.confirm import Answer, Confirm
from duckflow_tui.ui.screens.find import Find, InDiff, InTranscript
from duckflow_tui.ui.screens.keys_help import KeysHelp
from duckflow_tui.ui.screens.pick_list import Choice, PickList

TWICE_WITHIN: Final = 2.0  # seconds between two Ctrl+C that quit


class Actions(PageActions, inherit_bindings=False):
    """The actions named in ``bindings.KEYS`` and ``commands.COMMANDS``."""

    _interrupted_at: float = float("-inf")

    # moving about

    def action_pane(self, pane: PaneName) -> None:
        self.bench.show_pane(pane)

    def action_keys(self) -> None:
        self.push_screen(KeysHelp(self.words))

    def action_command_palette(self) -> None:
        choices = [Choice(c.name, f"/{c.name}", self.words(c.text), c.label) for c in COMMANDS]
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
        turn = self.store.state.turn if self.store is not None else None
        if turn is None:
            self.stop_own_command()
            return
        engine = self.acting()
        if engine is not None:
            engine.pause() if turn.pause == "running" else engine.stop()

    def action_interrupt(self) -> None:
        """Ctrl+C without a selection: one effect a press, and never a lost draft."""
        composer = self.bench.composer
        if composer.draft.strip():
            composer.put_away()
            self.say("shell.draft_kept")
            return
        state = self.store.state if self.store is not None else None
        if state is not None and state.turn is not None:
            engine = self.acting()
            if engine is not None:
                engine.stop()
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
        if self.store is not None:
            modes = list(ApprovalMode)
            self.enter_mode(modes[(modes.index(self.store.state.mode) + 1) % len(modes)])

    def enter_mode(self, mode: ApprovalMode) -> None:
        """Set the mode; trusted asks for a ``y`` first. An open gate stays as it is."""
        engine = self.acting()
        if engine is None:
            return
        if mode is not ApprovalMode.TRUSTED or engine.store.state.mode is mode:
            engine.set_mode(mode)
            return
        screen = Confirm(self.words, self.clock, "trusted")

        def answered(answer: Answer | None) -> None:
            engine = self.acting()
            if engine is not None and answer == "yes":
                engine.set_mode(ApprovalMode.TRUSTED)
            elif engine is not None and answer == "past":
                engine.set_mode(ApprovalMode.PLAN)
            if screen.typed:
                self.bench.composer.insert(screen.typed)

        self.push_screen(screen, answered)

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
        """Run it, where it is possible; where it takes a choice and none was given, ask for one."""
        problem = command.problem(argument, self.store.state if self.store is not None else None)
        values = CHOICES.get(command.takes, ())
        if problem is not None:
            if problem.key:
                self.bench.status.show_message(self.words.told(problem), stays=False)
        elif values and not argument and (command.act or not command.with_choice):

            def chosen(value: str | None) -> None:
                if value is not None:
                    self.run_command(command, value)

            if command.takes == "profile":
                choices = self.profile_choices()
            else:
                said = f"choice.{command.takes}"
                choices = [Choice(v, v, self.words(f"{said}.{v}")) for v in values]
            self.pick(command.takes, choices, chosen)
        elif command.act is not None and command.acts_with(argument):
            engine = self.acting()
            if engine is not None:
                work = command.act(engine, argument.lower() if values else argument, self.say)
                if work is not None:
                    self.spawn(work, command.name)
        elif argument and command.takes:
            given = argument.lower() if values else argument
            action = command.with_choice or command.action
            self.call_next(self.run_action, f"{action}({given!r})")
        else:
            self.call_next(self.run_action, command.action)

    def action_language(self, language: str) -> None:
        self.speak(language)

    def action_theme(self, theme: str) -> None:
        self.theme = theme
        self.bench.invalidate()

    def action_mode(self, mode: str) -> None:
        self.enter_mode(ApprovalMode(mode))

    def pick(
        self, what: str, choices: Sequence[Choice], then: Callable[[str | None], None]
    ) -> None:
        """Show a list to choose from."""
        title, hint = self.words(f"pick.{what}"), self.words("pick.hint")
        self.push_screen(PickList(title, hint, choices), then)
