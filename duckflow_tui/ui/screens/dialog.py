"""Behaviour shared by the pages over the workbench: each closes once, and gets the keys meant for
it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from textual import events
from textual.await_complete import AwaitComplete
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.timer import Timer
from textual.widgets import Input, Static, TextArea
from textual.worker import Worker

from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.panes.key_guard import Typed, composes, copy_event, when_handled, writes
from duckflow_tui.ui.panes.question import QuestionWidget
from duckflow_tui.ui.panes.strips import wrap

if TYPE_CHECKING:
    from duckflow_tui.ui.app import DuckflowApp

T = TypeVar("T")

HandOn = Callable[[events.Key], Awaitable[object]]

_LONGEST: Final = 2.0  # seconds that keys are held at most, should no page be coming
_TIMES: Final = 3  # as long again for one that is
_TURNS: Final = 3  # of the app, in which what was chosen on a page has come to the next one


class Dialog(ModalScreen[T], Generic[T]):
    """A page that the first key that closes it closes, however many more came in the same burst.

    Such keys still reach the page when it is closed already. Textual would then close the page
    below, or raise where there is none.
    """

    stands = False  # its fields are there, and one has the focus

    class Stands(Message):
        """It is there, for keys too."""

        def __init__(self, page: Dialog[Any]) -> None:
            super().__init__()
            self.page = page

    def on_mount(self) -> None:
        self.post_message(self.Stands(self))  # behind the focus, where the page moves it by itself

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Close the page and give back ``result``; nothing where it is not the one on top."""
        return super().dismiss(result) if host_of(self).screen is self else AwaitComplete()

    def hand_on(self, typed: Sequence[Typed]) -> None:
        """Close the page: this was typed here, and is a text for the composer."""
        bench = host_of(self).bench
        if bench.composer.is_attached:
            bench.to_composer(*map(copy_event, typed))
            bench.composer.behind(self)
        self.dismiss(None)


class Prose(Static):
    """Sentences on a page, which break between the characters of Japanese too."""

    def __init__(self, text: str = "", *, id: str | None = None, classes: str = "") -> None:
        super().__init__(text, markup=False, id=id, classes=classes)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._rows(width))

    def render(self) -> str:
        return "\n".join(self._rows(self.content_size.width))

    def _rows(self, width: int) -> list[str]:
        lines = str(self.content).split("\n")
        return [line[start:stop] for line in lines for start, stop in wrap(line, width)]


class TypedAhead:
    """Holds what is typed behind a key that may open or close a page, until it has done so.

    Such a key goes through many hands before it acts. What comes behind it would go straight to
    what has the focus then.
    """

    def __init__(self, app: DuckflowApp) -> None:
        self._app = app
        self._held: list[events.Key | events.Paste] | None = None
        self._page: Screen[Any] | None = None  # where the key was pressed
        self._leads: list[Worker[None]] = []  # what it began that comes to a page later
        self._timer: Timer | None = None
        self._acted = False  # it did all that it does at once

    @property
    def holding(self) -> bool:
        """Whether what is typed now has to wait."""
        return self._held is not None

    def takes(self, event: events.Key | events.Paste) -> bool:
        """Whether it was taken, to be handed on later."""
        if self._held is None:
            return False
        self._held.append(event)
        return True

    def hold(self) -> None:
        """Hold what comes until ``release``."""
        self._held = []

    def may_follow(self, event: events.Event) -> bool:
        """Whether what is typed behind this key may be meant for a place that is not there yet. A
        question looks at that by itself.
        """
        focused = self._app.focused
        if not isinstance(event, events.Key):
            return False
        if focused is None:
            return True
        if any(isinstance(node, QuestionWidget) for node in focused.ancestors_with_self):
            return False
        return not (event.is_printable and isinstance(focused, Input | TextArea))

    async def hold_behind(self, event: events.Key, hand_on: HandOn) -> None:
        """Hand on the key, and hold what comes until it has acted."""
        app, held = self._app, list[events.Key | events.Paste]()
        self._held, self._page, self._acted = held, app.screen, False
        self._leads.clear()
        self._timer = app.set_timer(_LONGEST, lambda: self._late(held, _TIMES))
        start = app.focused or app.screen
        await hand_on(event)

        def acted() -> None:
            app.call_later(self._turn, held, _TURNS)

        # Twice: what came of the key may be handed on once more, as a message.
        when_handled(start, app, lambda: when_handled(start, app, acted))

    async def _late(self, held: object, times: int) -> None:
        """It takes long. What is seen to be coming is waited for a few times as long."""
        if self._held is not held:
            return
        page = self._app.screen
        comes = isinstance(page, Dialog) and not page.stands
        if times and (comes or not all(worker.is_finished for worker in self._leads)):
            self._timer = self._app.set_timer(_LONGEST, lambda: self._late(held, times - 1))
        else:
            await self.release()

    async def _turn(self, held: object, left: int) -> None:
        if self._held is held and left:
            self._app.call_later(self._turn, held, left - 1)
        elif self._held is held:
            self._acted = True
            await self.look()

    def leads(self, worker: Worker[None]) -> None:
        """This may come to a page; the key that began it has acted when it does, or ends."""
        if self._held is not None:
            self._leads.append(worker)

    async def look(self) -> None:
        """Release what is held, if the place that it is meant for stands."""
        if not self._acted:
            return
        page = self._app.screen
        if isinstance(page, Dialog) and not page.stands:
            return
        if page is not self._page or all(worker.is_finished for worker in self._leads):
            await self.release()

    async def release(self) -> None:
        """Let everything that is held go on, in its order."""
        held, self._held, self._acted = self._held or [], None, False
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        bench = self._app.bench
        to_question = self._page is bench and isinstance(bench.focused, QuestionWidget)
        self._page = None
        for event in held:
            # What was typed before a question could be seen is a text, and so is what follows.
            if to_question and not self.holding and (writes(event) or composes(event)):
                bench.to_composer(event)
            else:
                await self._app.on_event(event)
