"""Keeps keys that are typed as text from answering a question."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import ClassVar, Final, Literal

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.base import Clock, half_width
from duckflow_tui.ui.host import host_of
from duckflow_tui.words.catalogue import Catalogue

#: Keys other than characters that belong to the text of a message.
COMPOSED: Final = frozenset({"enter", "backspace"})


class InlineField(Input):
    """A one-line input inside another widget; ``cancel`` is called on Esc."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", show=False)]

    def __init__(self, cancel: Callable[[], object], *, id: str | None = None) -> None:
        super().__init__(compact=True, select_on_focus=False, id=id)
        self.cursor_blink = False
        self._cancel = cancel

    def action_cancel(self) -> None:
        self._cancel()

    def on_paste(self, event: events.Paste) -> None:
        """Insert a paste as one line."""
        event.stop()
        event.prevent_default()
        self.replace(" ".join(event.text.split()), *self.selection)


#: Seconds after a question came into view in which no key answers it: such a key was meant for what
#: stood there before.
SETTLE_S: Final = 0.3

#: The same after a key was pressed and asked about, which the same key then answers: as long as
#: keyboards wait at most before they repeat a key that is held. Each key that comes meanwhile
#: begins it anew, so that none answers while it is held.
ANEW_S: Final = 1.0

#: Seconds that a key waits before it acts; whoever is typing text presses the next one sooner.
DELAY_S = 0.4

#: Seconds that an answered question keeps the focus where no other is open yet: a second press of
#: the key is no text, and the next question of the same reply can be answered without going to it.
STAY_S = 2.0

Act = Callable[[], Awaitable[object]]
Typed = events.Key | events.Paste

#: State of the newest key: none, will act after ``DELAY_S``, came before the question had settled,
#: is held or came several times, does nothing here, or was cancelled by another key.
Standing = Literal["", "waits", "too_soon", "repeated", "unknown", "taken_back"]


class KeyGuard:
    """Decides whether a key answers the question of a widget or belongs to text being typed.

    A key that decides something acts after ``DELAY_S``, or with Enter, and only once the question
    has settled after ``begin_settling``; one that is held does nothing. Keys that decide nothing
    act at once. A key that decides, and another printable one within ``DELAY_S`` before or after
    it, are the beginning of a text and go to ``hand_on`` together with all keys before them; so
    does a paste. Signs such as ``]`` that only move begin no text. ``show`` is called when
    ``standing`` changes.
    """

    def __init__(
        self,
        owner: Widget,
        clock: Clock,
        hand_on: Callable[[Sequence[Typed]], None],
        show: Callable[[], None],
    ) -> None:
        self._owner = owner
        self._clock = clock
        self._hand_on = hand_on
        self._show = show
        self._settled_at: float | None = None
        self._settle_s = SETTLE_S
        self._pressed_at = 0.0  # when the newest printable key came, on the clock
        #: Printable keys since the last pause. A single letter is kept after the pause, because a
        #: space that follows makes it a word of a text.
        self._typed: list[events.Key] = []
        self._is_deciding = False  # the newest key decides something, or does nothing here
        self._timer: Timer | None = None  # fires ``DELAY_S`` after the newest key
        self._pending_act: Act | None = None  # action of the newest key, once the timer fires
        #: When the screen was drawn with the newest key, on the clock that keys carry.
        self._seen_at = inf
        self.standing: Standing = ""

    def begin_settling(self, seconds: float = SETTLE_S, *, since: float | None = None) -> None:
        """Start guarding a question that came into view now, or at the time ``since`` of the clock:
        no key acts for ``seconds`` after that.
        """
        self._settle_s = seconds
        shown_at = self._clock.monotonic() if since is None else since
        self._settled_at = shown_at + seconds
        self._pending_act = None
        self._set_standing("")

    def begin_anew(self) -> None:
        """Guard a question that the newest key has caused: the key acts only when released and
        pressed again.
        """
        newest = self._clock.monotonic() - DELAY_S  # one that was guarded on another page
        self.begin_settling(ANEW_S, since=max(self._pressed_at, newest))

    def stop_guarding(self) -> None:
        """Stop guarding until the next ``begin_settling``."""
        self._settled_at = None
        self.forget_keys()

    def forget_keys(self) -> None:
        """Clear the keys typed so far and cancel the action that waits."""
        self._typed.clear()
        self._pending_act = None
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._set_standing("")

    def take_back(self) -> Sequence[events.Key]:
        """Clear and return the keys that may still become a text; none once a pause followed
        them.
        """
        typed = [*self._typed] if self.is_waiting else []
        self.forget_keys()
        return typed

    def go_on_with(self, typed: Sequence[events.Key]) -> None:
        """Take over keys from the guard of another page: a text that follows begins with them."""
        if typed:
            self._typed = [*typed]
            self._restart_timer()

    @property
    def is_active(self) -> bool:
        """Whether the guard is active."""
        return self._settled_at is not None

    @property
    def is_settled(self) -> bool:
        """Whether the seconds given to ``begin_settling`` have passed."""
        # Tolerance for rounding: 0.6 + 0.3 is more than 0.9.
        return self._settled_at is not None and self._clock.monotonic() + 1e-6 >= self._settled_at

    @property
    def is_waiting(self) -> bool:
        """Whether the next key may still turn the newest one into a part of a text."""
        return self._timer is not None

    @property
    def newest_key(self) -> str:
        """The newest key of ``standing``, as it is printed in half width; empty for none."""
        return visible_line(half_width(self._typed[-1].character or "")) if self._typed else ""

    async def handle_key(
        self,
        event: events.Key,
        act: Act | None,
        *,
        at_once: bool = False,
        selects: bool = False,
    ) -> bool:
        """Act on a printable key, let it wait, or hand it on as text; return False for any other
        key, except an Enter that this guard used up.

        ``act`` is the effect of the key, None where it has none; ``at_once``: it decides nothing
        and need not wait, unless it is a space after a letter; ``selects``: it changes what an
        answer applies, and so does nothing before the question has settled.
        """
        if not is_text(event):
            return await self._take_other(event)
        self._pressed_at = self._clock.monotonic()
        before = self._typed[-1] if self._typed else None
        again = before is not None and before.key == event.key
        after_letter = before is not None and (before.character or "").isalnum()
        parts_words = after_letter and _is_space(event)
        at_once = at_once and not parts_words
        is_text_begun = self._is_deciding or act is None or (after_letter and not at_once)
        if self.is_waiting and not again and is_text_begun:
            self._pass_on(event)
            return True
        repeated = self.is_waiting and again and not at_once
        if not parts_words and (not self.is_waiting or (again and at_once)):
            self._typed.clear()
        self._is_deciding = not at_once
        self._typed.append(event)
        self._pending_act = None
        self._restart_timer()
        if at_once and act is not None and (self.is_settled or not selects):
            self._set_standing("")
            await act()
        elif not self.is_settled:
            if self._settle_s == ANEW_S:
                self._settled_at = self._clock.monotonic() + ANEW_S
            self._set_standing("too_soon")
        elif repeated:
            self._set_standing("repeated")
        elif act is not None:
            self._pending_act = act
            self._seen_at = inf
            self._owner.call_after_refresh(self._mark_drawn, self._timer)
            self._set_standing("waits")
        elif event.character is not None and not event.character.isascii():
            self._pass_on()  # from an input method, so it is text
        else:
            self._set_standing("unknown")
        return True

    def standing_words(self, words: Catalogue, what: str = "") -> str:
        """The state of the newest key for the user, or empty; ``what`` names its action."""
        if self.standing in ("", "unknown"):
            return ""
        return words(f"guard.{self.standing}", key=self.newest_key, what=what)

    def take_paste(self, event: events.Paste) -> None:
        """Hand on a paste as text, together with the keys typed right before it."""
        if not self.is_waiting:
            self._typed.clear()
        self._pass_on(event)

    async def _take_other(self, event: events.Key) -> bool:
        """Handle a key that is not text: Enter confirms a waiting key, every other key cancels it.
        Returns False where the caller should handle the key.
        """
        if event.key == "enter" and self.is_waiting and self._is_deciding:
            act = self._pending_act
            if act is None or event.time < self._seen_at:
                self._pass_on(event)
                return True
            self._cancel_timer()
            await act()
            return True
        taken_back = self._pending_act is not None
        self.forget_keys()
        self._set_standing("taken_back" if taken_back else "")
        return False

    def _pass_on(self, event: Typed | None = None) -> None:
        """Pass the typed keys, and this event, to ``hand_on``."""
        typed: list[Typed] = [*self._typed, event] if event is not None else [*self._typed]
        self.forget_keys()
        self._hand_on(typed)

    def _restart_timer(self) -> None:
        """Start the pause after the newest key anew."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = self._owner.set_timer(DELAY_S, self._act_when_idle)

    def _cancel_timer(self) -> None:
        """Stop the timer and drop the waiting action."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = self._pending_act = None
        self._set_standing("")

    def _mark_drawn(self, timer: Timer | None) -> None:
        """Note that the screen was drawn with the newest key, so that Enter can confirm it."""
        if timer is self._timer:
            self._seen_at = Message().time

    def _act_when_idle(self) -> None:
        """Act once every key that came until now has been handled."""
        owner, timer = self._owner, self._timer
        queue = host_of(owner).key_queue
        queue.call_when_free(lambda: owner.call_later(self._act_after_pause, timer))

    async def _act_after_pause(self, timer: Timer | None) -> None:
        """Perform the waiting action if no further key came since its timer was started."""
        if timer is None or timer is not self._timer:
            return
        if self._pending_act is None:
            self._timer = None
            return
        act = self._pending_act
        self._cancel_timer()
        await act()

    def _set_standing(self, standing: Standing) -> None:
        """Set ``standing`` and call ``show``."""
        if standing or self.standing:
            self.standing = standing
            self._show()


def _is_space(event: events.Key) -> bool:
    """Whether the key writes a space."""
    return event.character is not None and event.character.isspace()


def is_text(event: events.Key | events.Paste) -> bool:
    """Whether a key or paste inserts characters in a text field."""
    if isinstance(event, events.Paste):
        return True
    return event.is_printable and event.character is not None


def is_for_composer(event: Typed) -> bool:
    """Whether an event writes text or is Enter or Backspace: a key of a message being typed."""
    return is_text(event) or (isinstance(event, events.Key) and event.key in COMPOSED)
