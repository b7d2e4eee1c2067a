"""Gates to show, and the smallest app that has a composer, a gate's card and a diff."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, cast

from support.pinned import KEY_DELAY, ManualClock
from support.screens import key_waits, screen_text, stands
from textual import events
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.pilot import Pilot
from textual.widgets import Input, Static

from duckflow_tui.places import find_assets
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import (
    EDITS,
    FilePreview,
    Gate,
    GateAnswer,
    Impact,
)
from duckflow_tui.state.operations import Effect, Zone
from duckflow_tui.tools.diffs import compare_files
from duckflow_tui.ui.key_queue import KeyQueue
from duckflow_tui.ui.panes.diff import DiffView
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.panes.question_pane import QuestionPane
from duckflow_tui.ui.themes import themes
from duckflow_tui.words.catalogue import Catalogue

Alike = Callable[[Gate], Sequence[OperationMessage]]

BEFORE = """\
# prices
def total(price, discounts):
    rate = sum(discounts)
    return price * (1 - rate)

def receipt(items):
"""

AFTER = """\
# prices
def total(price, discounts):
    for rate in discounts:
        price *= 1 - rate
    return price

def receipt(items):
"""


def preview(
    path: str, before: str, after: str, *, language: str = "python", **fields: Any
) -> FilePreview:
    """The preview of a file that changes from one text to another."""
    old, new = (f"{text}\n".encode() if text else b"" for text in (before, after))
    found = compare_files(old, new)
    values: dict[str, Any] = {
        "path": path,
        "kind": "modify",
        "before_hash": f"before-{path}",
        "after_hash": f"after-{path}",
        "hunks": found.hunks,
        "added": found.added,
        "removed": found.removed,
        "language": language,
    }
    return FilePreview(**(values | fields))


def gate(previews: Iterable[FilePreview] | None = None, **fields: Any) -> Gate:
    """A gate for an edit of ``src/shop/pricing.py``, or of the given files."""
    shown = tuple(previews) if previews is not None else (pricing(),)
    values: dict[str, Any] = {
        "gate_id": "gate_00000001",
        "call_id": "call_00000001",
        "operation": "file_ops.edit_file",
        "args": {"path": "src/shop/pricing.py", "edits": [{"old": "a", "new": "b"}]},
        "args_hash": "hash-of-args",
        "effect": Effect.WRITE,
        "intent": "Apply discounts one after the other",
        "why": "step 2 needs it; the failing test shows 20 % for 19 %",
        "impact": Impact(
            files=len(shown),
            added=sum(p.added for p in shown),
            removed=sum(p.removed for p in shown),
            zone=Zone.INSIDE,
        ),
        "alternatives": ("keep the sum, cap it", "change the test instead"),
        "previews": shown,
        "can_grant_session": True,
        "can_edit": True,
        "grant_pattern": f"{EDITS} {EDITS}",
        "grant_only": "file_ops.edit_file src/shop/pricing.py",
        "opened_at": 1_750_000_000.0,
    }
    return Gate(**(values | fields))


def pricing() -> FilePreview:
    """The change of the pictures: three lines for two, from line 14 on."""
    lead = "# shop\n" * 12
    return preview("src/shop/pricing.py", lead + BEFORE, lead + AFTER)


def many_lines(count: int) -> FilePreview:
    """A new file of ``count`` lines, each of its own."""
    body = "\n".join(f"value_{number} = {number}" for number in range(count))
    return preview("src/big.py", "", body, kind="create", before_hash="")


class GateApp(App[None]):
    """A composer, and a gate's card above it."""

    CSS_PATH: ClassVar[Any] = [
        find_assets("styles") / "question.tcss",
        find_assets("styles") / "diff.tcss",
    ]
    CSS = """
    Screen { background: $background; }
    #chat { height: 1fr; }
    Input#composer { border: round $panel; height: 3; background: $background; }
    .-tiny Input#composer { border: none; height: 1; }
    """

    def __init__(
        self,
        *gates: Gate,
        language: str = "en",
        theme: str = "duck-dark",
        step: str = "",
        proposed: dict[str, str] | None = None,
        alike: Alike | None = None,
    ) -> None:
        super().__init__()
        for theme_ in themes():
            self.register_theme(theme_)
        self.theme = theme
        self.key_queue = KeyQueue(self)
        self.clock = ManualClock()
        self.answers: list[GateAnswer] = []
        self.keep_gates = False  # as while an answer is on its way to the disk
        self.words = Catalogue(language)
        self._first = gates
        self._gates: tuple[Gate, ...] = ()
        texts = proposed or {}
        self.card = QuestionPane(self.clock)
        self.card.proposed, self.card.alike = texts.get, alike
        self.step = step
        self.composer = Input(placeholder="Message", id="composer", select_on_focus=False)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            await self.key_queue.handle_key(event, super().on_event)
        else:
            await super().on_event(event)

    async def ask_anew(
        self,
        *gates: Gate,
        language: str = "en",
        step: str = "",
        proposed: dict[str, str] | None = None,
        alike: Alike | None = None,
    ) -> None:
        """Be as at the start with these gates, whatever was asked and answered before."""
        while len(self.screen_stack) > 1:
            await self.pop_screen()
        card: Any = self.card
        self.keep_gates = False
        card._end_stay()  # else the answered one stands for a moment more
        self.gates = ()
        card.proposed, card.alike = (proposed or {}).get, alike
        card.remarks._proposal = ""
        self.composer.value = ""
        self.composer.focus()
        for view in self.query(DiffView):
            view.split, view.wrap = False, True
        self.words = card.words = Catalogue(language)
        self.step = step
        self.clock.advance(60)
        self.answers = []
        self.gates = gates

    @property
    def gates(self) -> tuple[Gate, ...]:
        """The gates that are open, the oldest first; it is the one that is shown."""
        return self._gates

    @gates.setter
    def gates(self, gates: tuple[Gate, ...]) -> None:
        self._gates = gates
        shown = gates[0] if gates else None
        self.card.show(shown, waiting=len(gates), step=self.step)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("", id="chat", markup=False)
            yield self.card
            yield self.composer

    def on_mount(self) -> None:
        self.composer.cursor_blink = False
        self.screen.set_class(self.size.height < 12, "-tiny")
        self.composer.focus()
        self.card.words = self.words
        self.gates = self._first

    def on_question_pane_answered(self, event: QuestionPane.Answered) -> None:
        assert isinstance(event.answer, GateAnswer)
        self.answers.append(event.answer)
        if self.keep_gates:
            return
        waiting = [g for g in self.gates if g.gate_id != event.answer.gate_id]
        self.gates = tuple(waiting)

    def on_question_pane_left(self, event: QuestionPane.Left) -> None:
        self.composer.focus()
        for typed in event.typed:
            if isinstance(typed, events.Paste):
                self.composer.post_message(events.Paste(typed.text))
            else:
                self.composer.post_message(events.Key(typed.key, typed.character))

    def text(self) -> str:
        """All that is on the screen, as lines."""
        text = screen_text(self)
        assert all(len(line) <= self.size.width for line in text.split("\n"))
        return text


async def drawn(pilot: Pilot[None]) -> None:
    """Wait until no key is held, the diffs have told of all that changed, and nothing more is on
    its way to a widget or to the screen.
    """
    app = cast("GateApp", pilot.app)
    for _ in range(200):
        await pilot.pause(KEY_DELAY / 4 if key_waits(app) else None)
        if not key_waits(app) and stands(app.screen):
            return
    raise TimeoutError("the screen does not come to rest")


async def at_gate(pilot: Pilot[None]) -> GateApp:
    """The user has gone to the gate, and the time in which keys are ignored is over."""
    app = cast("GateApp", pilot.app)
    await drawn(pilot)
    app.card.focus()
    await drawn(pilot)
    app.clock.advance(SETTLE_S)
    return app


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press the keys one after the other, and let each be drawn."""
    for key in keys:
        await pilot.press(key)
        await drawn(pilot)
