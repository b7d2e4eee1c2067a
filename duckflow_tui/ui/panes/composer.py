"""The composer, the input field of the app. Long pastes are shown as a chip."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from functools import partial
from typing import ClassVar, Final, Literal

from textual import events
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.reactive import var
from textual.strip import Strip
from textual.widgets import TextArea
from textual.worker import Worker, WorkerError

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import half_width, hash_data
from duckflow_tui.ui.history import MessageHistory
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.panes.blocks import is_long
from duckflow_tui.ui.panes.completion import (
    SHOWN,
    Candidate,
    CompletionList,
    Token,
    token_at,
)
from duckflow_tui.ui.panes.strips import fit
from duckflow_tui.ui.terminal_sequences import WRITTEN
from duckflow_tui.ui.textual_private import theme_of
from duckflow_tui.words.catalogue import Catalogue

NEWLINES: Final = ("ctrl+j", "alt+enter", "shift+enter")  # keys
LISTED_WITHIN: Final = 0.5  # seconds that Enter waits for the files that ``@`` names


class FoldedPastes:
    """The pasted texts that chips stand for; a chip that was edited is plain text."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold_paste(self, text: str, words: Catalogue) -> str:
        """Return a chip for a large text, which is remembered; a small text unchanged."""
        if not is_long(text):
            return text
        chip = words("composer.pasted", lines=text.count("\n") + 1, id=hash_data(text)[:6])
        self._texts[chip] = text
        return chip

    def unfold_text(self, text: str) -> str:
        """Return the text with every remembered chip replaced by its pasted text."""
        chips = "|".join(map(re.escape, self._texts))
        return re.sub(chips, lambda chip: self._texts[chip[0]], text) if chips else text

    def ending_at(self, before: str) -> str:
        """Return the chip at the end of the text before the cursor; empty for none."""
        return next((chip for chip in self._texts if before.endswith(chip)), "")

    def starting_at(self, after: str) -> str:
        """Return the chip at the start of the text after the cursor; empty for none."""
        return next((chip for chip in self._texts if after.startswith(chip)), "")

    def clear(self) -> None:
        """Forget all texts, because the composer is empty."""
        self._texts.clear()


#: Keys of the stock widget that mean something else here, or nothing.
_NOT_OURS: Final = frozenset(
    {"f6", "f7", "ctrl+c", "super+c", "pageup", "pagedown", "shift+up", "shift+down", "up", "down"}
    | {"end", "ctrl+d", "ctrl+z"}
)


#: Whether work runs beside the composer, and whether it is halted.
WorkNow = Literal["none", "running", "paused"]


_HINTS: Final[dict[WorkNow, str]] = {
    "none": "",
    "running": "now_or_next",
    "paused": "redirects",
}


#: What Enter would send: nothing, a message, or a command of the app's or of the user's own.
Written = Literal["nothing", "message", "command"]


def _stock_bindings() -> list[BindingType]:
    """Return the bindings of Textual's TextArea without keys that have another meaning here."""
    kept: list[BindingType] = []
    for binding in TextArea.BINDINGS:
        if not isinstance(binding, Binding):
            continue
        keys = [key for key in binding.key.split(",") if key not in _NOT_OURS]
        if keys:
            kept.append(Binding(",".join(keys), binding.action, binding.description, show=False))
    return kept


class Composer(TextArea, inherit_bindings=False):
    """A TextArea that sends on Enter, recalls sent messages, folds large pastes and completes
    words.

    The stock widget places the terminal's cursor, which input methods need, and draws all text.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *_stock_bindings(),
        Binding(",".join(NEWLINES), "newline", show=False),
        Binding("up", "history(-1)", show=False),
        Binding("down", "history(1)", show=False),
        Binding("pageup", f"page_list(-{SHOWN})", show=False),
        Binding("pagedown", f"page_list({SHOWN})", show=False),
        Binding("end", "line_end", show=False),
        Binding("ctrl+d", "delete_or_leave", show=False),
        Binding("ctrl+underscore", "undo", show=False),
        Binding("tab", "take_or_queue", show=False),
        Binding("escape", "close_completion", show=False),
        Binding("ctrl+c,super+c", "copy_selection", show=False),
    ]

    words: var[Catalogue] = var(Catalogue)
    work: var[WorkNow] = var[WorkNow]("none")  # what Enter and Tab mean depends on it
    asked: var[bool] = var(False)  # a question is open: Enter with nothing written goes there
    own: var[bool] = var(False)  # what is written is a command of the user's own
    written: var[Written] = var[Written]("nothing")
    suggested: var[str] = var("")  # a first request: Enter sends it, Tab takes it, typing hides it
    _coloured: object | None = None  # the theme whose colours are worked out

    class Submitted(Message):
        """The user sent a text, with pastes in full. ``later``: queued for the next turn (Tab);
        ``own``: a shell command of the user, with its ``!``; ``quoted``: an ``@`` in it was
        neither typed nor completed.
        """

        def __init__(
            self,
            composer: Composer,
            text: str,
            *,
            later: bool = False,
            own: bool = False,
            quoted: bool = False,
        ) -> None:
            super().__init__()
            self.composer = composer
            self.text = text
            self.later = later
            self.own = own
            self.quoted = quoted

        @property
        def control(self) -> Composer:
            return self.composer

    class EmptyEnter(Message):
        """Enter was pressed in the empty composer."""

    def __init__(self, completions: CompletionList, *, id: str | None = None) -> None:
        self._has_sent = False
        super().__init__(id=id, highlight_cursor_line=False, tab_behavior="focus")
        self.cursor_blink = False
        self.past = MessageHistory(None, "")
        self._completions = completions
        self._completing: Worker[None] | None = None
        self._asked: Token | None = None  # what the list is made for
        self._pastes = FoldedPastes()
        self._recalled: int | None = None  # place in the history, None for the draft
        self._draft = ""
        self._quoted = False  # an ``@`` came otherwise than by a key or a completion
        self._loaded = ""  # what was put here, not typed: nothing is offered for it
        self._dismissed = ""  # the line for which the list was closed by Esc

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """The slices of the state that ``show`` reads."""
        return state.turn, bool(state.gates or state.cards)

    def show(self, state: AgentState) -> None:
        """Update what Enter and Tab do, which depends on whether work runs; work about to pause
        still runs.
        """
        pause = state.turn.pause if state.turn is not None else None
        self.work = "none" if pause is None else "paused" if pause == "paused" else "running"
        self.asked = bool(state.gates or state.cards)

    # what it holds

    @property
    def draft_text(self) -> str:
        """The text with its pastes unfolded."""
        return self._pastes.unfold_text(self.text)

    def replace_text(self, text: str) -> None:
        """Replace the text; a large one is folded."""
        self._pastes.clear()
        self._quoted = "@" in text
        self.text = self._loaded = self._pastes.fold_paste(text, self.words)
        self.move_cursor(self.document.end)

    def append_text(self, text: str) -> None:
        """Append to the text on a line of its own."""
        self.replace_text(f"{self.draft_text}\n{text}" if self.draft_text.strip() else text)

    def put_away(self) -> None:
        """Move the draft into the history and clear the composer."""
        self.past.add(self.draft_text)
        self.replace_text("")
        self._recalled = None

    def remember_sent(self, text: str, *, own: bool) -> None:
        """Add a sent text to the history, with its ``!`` if it was a command."""
        self.past.add(text if own or not text.startswith("!") else f" {text}")

    def give_back(self, text: str) -> None:
        """Insert a text that could not be sent before the text typed since."""
        since = self.draft_text
        self.replace_text(f"{text}\n{since}" if since else text)

    def send_draft(self, *, later: bool = False) -> None:
        """Post the text as ``Submitted`` (with a leading ``!`` as the user's own command), or the
        suggestion where it is blank; without either, post ``EmptyEnter``. ``later``: see
        ``Submitted``.

        The composer is emptied at once, so that keys typed afterwards are not part of it.
        """
        draft = self.draft_text
        text, own = draft.strip() or self.suggested, draft.startswith("!")
        quoted = self._quoted
        self._completions.close()
        if text:
            self.replace_text("")
            self._recalled = None
            self.send_text(text, later=later, own=own, quoted=quoted)
        else:
            self._tell(self.EmptyEnter())

    def send_text(
        self, text: str, *, later: bool = False, own: bool = False, quoted: bool = False
    ) -> None:
        """Send a text as if it had been typed here; the draft stays."""
        self._has_sent, self.suggested = True, ""
        self._tell(self.Submitted(self, text, later=later, own=own, quoted=quoted))

    def _tell(self, message: Message) -> None:
        """Post a message as this widget's own, so that its screen hears it too."""
        # Enter may have been handed on by the screen, and what a screen sends it does not hear.
        self.post_message(message.set_sender(self))

    def take_typed(self, event: events.Key | events.Paste) -> None:
        """Insert a key or paste that was typed elsewhere but meant for the composer."""
        if isinstance(event, events.Paste):
            self._paste_text(event.text)
        elif event.key == "enter":
            self._press_enter()
        elif event.key == "backspace":
            self.action_delete_left()
        elif event.key in NEWLINES:
            self.action_newline()
        elif event.character is not None:
            self._insert_text(self._to_half_width(event.character))

    # Textual

    def watch_words(self) -> None:
        self._show_hint()

    def watch_work(self) -> None:
        self._show_hint()

    def watch_asked(self) -> None:
        self._show_hint()

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._show_hint()

    def watch_own(self) -> None:
        """Show that the text is the user's own command."""
        self.set_class(self.own, "-own")
        self._show_hint()

    def watch_written(self) -> None:
        self._show_hint()

    def validate_suggested(self, text: str) -> str:
        """Drop the suggestion once the user has sent something."""
        return "" if self._has_sent else text

    def watch_suggested(self) -> None:
        self._show_hint()

    def on_resize(self) -> None:
        self._show_hint()

    async def on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            await self._list_files()
            self._press_enter()
        elif (written := event.character) is not None and (
            written in WRITTEN or written != self._to_half_width(written)
        ):
            event.stop()
            event.prevent_default()
            self._insert_text(self._to_half_width(written))
        elif event.key in ("backspace", "delete") and self._delete_chip(event.key):
            event.stop()
            event.prevent_default()

    async def on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self._paste_text(event.text)

    def _paste_text(self, text: str) -> None:
        """Insert pasted text with LF line ends; a long paste is shown folded. Text with an ``@``
        marks the draft as quoted.
        """
        self._quoted = self._quoted or "@" in text
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._insert_text(self._pastes.fold_paste(text, self.words))

    def _insert_text(self, text: str) -> None:
        """Replace the selection by a text and put the cursor behind it."""
        result = self.replace(text, *self.selection)
        self.move_cursor(result.end_location)

    def _to_half_width(self, character: str) -> str:
        """Convert ``／``, ``！`` and ``＠`` of an input method where they begin a command, a shell
        command or a file name, and full-width letters in a command's name.
        """
        narrow = half_width(character)
        row, column = min(*self.selection)
        before = self.document.get_line(row)[:column] if narrow != character else ""
        token = token_at(before + narrow, column + 1, first_line=row == 0)
        named = token is not None and (token.kind == "command" or narrow == "@")
        own = narrow == "!" and row == 0 and before in ("", "!")
        return narrow if named or own else character

    def on_text_area_changed(self) -> None:
        text = self.text
        self.own = text.startswith("!")
        named = text.startswith(("!", "/"))
        self.written = "command" if named else "message" if text.strip() else "nothing"
        self._fill_list()

    # drawing

    def notify_style_update(self) -> None:
        self._coloured = None
        super().notify_style_update()

    def render_lines(self, crop: Region) -> list[Strip]:
        # The stock widget works out the colours of all its parts for every key, though they
        # change with the theme and the focus only: a quarter of what a key costs.
        colours = theme_of(self)
        if self._coloured is colours:
            return super(TextArea, self).render_lines(crop)
        self._coloured = colours
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        # The stock widget breaks its placeholder into lines of this width, and raises for none.
        return super().render_line(y) if self.content_size.width > 0 else Strip.blank(0)

    # keys

    def action_newline(self) -> None:
        self._insert_text("\n")

    def action_page_list(self, step: int) -> None:
        if not self._completions.is_open:
            raise SkipAction  # the chat scrolls
        self._completions.move(step)

    def action_delete_or_leave(self) -> None:
        """Delete the character at the cursor; in the empty composer the second press quits
        the app.
        """
        if self.text:
            self.action_delete_right()
        else:
            host_of(self).bench.quit_on_second("Ctrl+D")

    def action_line_end(self) -> None:
        if not self.text:  # it has no other end than that of the chat
            raise SkipAction
        self.action_cursor_line_end()

    def action_copy_selection(self) -> None:
        if not self.selected_text:
            raise SkipAction
        host_of(self).copy_to_clipboard(self.selected_text)

    def action_close_completion(self) -> None:
        if not self._completions.is_open:
            raise SkipAction
        if (token := self._current_token()) is not None and token.kind == "keys":
            self.replace_text("")  # the ? was a key, not text
            return
        self._dismissed = self.document.get_line(self.cursor_location[0])
        self._completions.close()

    def action_take_or_queue(self) -> None:
        """Take the chosen completion; else write the suggested text into an empty composer; else,
        while work runs, send the draft for later.
        """
        if self._completions.is_open:
            self.take_candidate(self._chosen_candidate())
        elif not self.text and not self.suggested and self.work == "running":
            host_of(self).status.show_notice("shell.nothing_to_send")
        elif not self.text:
            self._write_suggested()
        elif self.work != "none":
            self.send_draft(later=True)

    def action_history(self, step: int) -> None:
        if self._completions.is_open:
            self._completions.move(step)
            return
        navigator, location = self.navigator, self.cursor_location
        if step < 0 and not navigator.is_first_wrapped_line(location):
            self.action_cursor_up()
        elif step > 0 and not navigator.is_last_wrapped_line(location):
            self.action_cursor_down()
        else:
            self._recall_sent(step)

    # completion

    def take_candidate(self, candidate: Candidate | None) -> None:
        """Replace the word at the cursor by the candidate."""
        token = self._current_token()
        if candidate is None or token is None:
            return
        if token.kind == "keys":
            self.replace_text("")
            host_of(self).action_keys()
            return
        row, column = self.cursor_location
        if token.kind == "command":
            text = f"{candidate.value} "
        else:
            quoted = f'"{candidate.value}"' if " " in candidate.value else candidate.value
            text = f"@{quoted}" if candidate.is_open else f"@{quoted} "
        result = self.replace(text, (row, token.start), (row, column))
        self.move_cursor(result.end_location)
        self._completions.close()

    def _chosen_candidate(self) -> Candidate | None:
        """Return the chosen completion, unless the list belongs to text that has changed since."""
        if self._completing is None or not self._completing.is_finished:
            return None
        return self._completions.chosen_candidate if self._current_token() == self._asked else None

    async def _list_files(self) -> None:
        """Wait briefly for the files that match the word at the cursor."""
        token = self._current_token()
        if token is None or token.kind != "file":
            return
        if token != self._asked:
            self._fill_list()
        if self._completing is not None and token == self._asked:
            with suppress(TimeoutError, WorkerError):
                async with asyncio.timeout(LISTED_WITHIN):
                    await self._completing.wait()

    def _current_token(self) -> Token | None:
        row, column = self.cursor_location
        return token_at(self.document.get_line(row), column, first_line=row == 0)

    def _fill_list(self) -> None:
        """Look up completions for the word under the cursor, or close the list."""
        token = self._current_token()
        line = self.document.get_line(self.cursor_location[0])
        if token is None or line == self._dismissed or self.text == self._loaded:
            self._completions.close()
            if self._completing is not None:
                self._completing.cancel()
            return
        self._dismissed = ""
        self._asked = token
        self._completing = self.run_worker(
            partial(self._completions.complete, token),
            group="completion",
            exclusive=True,
            exit_on_error=False,
        )

    # history

    def _recall_sent(self, step: int) -> None:
        """Go one message back (-1) or forward (1) in the history; its newest end is the draft."""
        messages = self.past.messages
        at = len(messages) if self._recalled is None else self._recalled
        at += step
        if at < 0 or at > len(messages):
            return
        if self._recalled is None:
            if step > 0:
                return
            self._draft = self.draft_text
        self._recalled = None if at == len(messages) else at
        self.replace_text(self._draft if self._recalled is None else messages[at])
        if step < 0:
            self.move_cursor((0, len(self.document.get_line(0))))

    def _write_suggested(self) -> None:
        """Insert the suggestion as text, to be edited before it is sent."""
        text, self.suggested = self.suggested, ""
        if text:
            self.replace_text(text)

    def _show_hint(self) -> None:
        """Update placeholder and border title, which say what Enter does."""
        if self.suggested:
            hint = self.words("composer.suggested", text=self.suggested)
        else:
            hint = self.words("pane.placeholder")
        self.placeholder = Content(fit(hint, self.content_size.width))
        self.border_title = Content(self.words("composer.shell")) if self.own else ""
        key = "runs" if self.own else _HINTS[self.work]
        if self.work == "paused" and self.written != "message":
            key = "runs" if self.own else "would_redirect" if self.written == "nothing" else ""
        elif not self.has_focus or (self.asked and self.written == "nothing"):
            key = ""  # the keys are those of another place
        self.border_subtitle = Content(self.words(f"composer.{key}")) if key else ""

    # editing

    def _press_enter(self) -> None:
        """Start a new line after a backslash, accept a completion, or send."""
        row, column = self.cursor_location
        if column and self.document.get_line(row)[column - 1] == "\\":
            result = self.replace("\n", (row, column - 1), (row, column))
            self.move_cursor(result.end_location)
            return
        chosen, token = self._chosen_candidate(), self._current_token()
        if chosen is not None and token is not None:
            self.take_candidate(chosen)
            is_complete = token.query == chosen.value.removeprefix("/")
            if not is_complete and (token.kind == "file" or chosen.is_open):
                return  # the message may go on behind the name
        self.send_draft()

    def _delete_chip(self, key: str) -> bool:
        """Delete the chip next to the cursor as a whole; False where there is none."""
        if self.selected_text:
            return False
        row, column = self.cursor_location
        line = self.document.get_line(row)
        if key == "backspace":
            chip = self._pastes.ending_at(line[:column])
            start, end = column - len(chip), column
        else:
            chip = self._pastes.starting_at(line[column:])
            start, end = column, column + len(chip)
        if not chip:
            return False
        self.delete((row, start), (row, end))
        return True
