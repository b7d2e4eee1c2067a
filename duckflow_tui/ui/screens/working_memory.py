"""``/working``: what the model carries from request to request, and why it decided as it did."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.segment import Segment
from textual.binding import BindingType

from duckflow_tui.safety.safe_text import visible, visible_line
from duckflow_tui.state.conversation import AssistantMessage
from duckflow_tui.state.decision import Judgement
from duckflow_tui.state.memory import WorkingMemory
from duckflow_tui.state.operations import target
from duckflow_tui.ui.bindings import Surface
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.panes.strips import Row, fit, ink, pad
from duckflow_tui.ui.screens.board import StateBoard, board_bindings, fact_rows

SHOWN_DECISIONS: Final = 50  # the newest; the chat has the others
_FACTS: Final = (
    "goal",
    "why_now",
    "constraints",
    "plan_brief",
    "open_questions",
    "last_delta",
    "decision_log",
)


class WorkingMemoryBoard(StateBoard):
    """The fields of the working memory, then the model's decisions, the newest first. Each is one
    row; the chosen one is shown whole below: of a decision its rationale and both checks.
    """

    SURFACE: ClassVar[Surface] = "working"
    BINDINGS: ClassVar[list[BindingType]] = board_bindings("working")

    def action_go_to(self) -> None:
        message = self._message(self.chosen)
        if message is None or message.decision is None:
            return
        calls = (action.call_id for action in message.decision.actions)
        if self.host.bench.go_to((message.message_id, *calls)):
            self.dismiss(None)
        else:
            self.report(self.words("ledger.no_place"))

    def choose(self, name: str) -> None:
        self._said = ""
        super().choose(name)

    def heading(self) -> str:
        return self.words("working.title")

    def empty(self) -> str:
        return self.words("working.none")

    def names(self) -> Sequence[str]:
        decided = [message.message_id for message in self._decided()]
        return [*_FACTS, *decided] if decided or self.state.memory != WorkingMemory() else []

    def item(self, name: str, width: int) -> Row:
        palette, message = palette_of(self), self._message(name)
        if message is None or message.decision is None:
            label = pad(self.words(f"working.fact.{name}"), self._labels()) + "  "
            said = " · ".join(map(visible_line, self._values(name)))
            said, color = (said, palette.text) if said else (self._nothing, palette.faint)
            room = max(0, width - cell_len(label))
            return [Segment(label, ink(palette.quiet)), Segment(fit(said, room), ink(color))]
        row: Row = []
        for check in (message.decision.goal_consistency, message.decision.constraint_check):
            sign, color = _sign(check, palette)
            row.append(Segment(sign, ink(color)))
        why = visible_line(message.decision.rationale) or visible_line(message.text)
        room = max(0, width - 4)
        return [*row, Segment(f"  {fit(why or self._nothing, room)}", ink(palette.text))]

    def about(self, name: str, width: int) -> list[Row]:
        return self.said_rows(width)

    def detail(self, name: str, width: int, room: int) -> list[Row]:
        message = self._message(name)
        if message is not None:
            return fact_rows(self._reasons(message), width, palette_of(self))
        quiet, values = palette_of(self).quiet, self._values(name)
        label = self.words(f"working.fact.{name}")
        if len(values) < 2:
            facts = [(label, visible_line(value), quiet) for value in values]
            return fact_rows(facts or [(label, self._nothing, quiet)], width, palette_of(self))
        numbers = range(1, len(values) + 1)
        if name == "decision_log":
            numbers = numbers[::-1]
        facts = [
            ("" if at else label, f"{number} {visible_line(value)}", quiet)
            for at, (number, value) in enumerate(zip(numbers, values, strict=True))
        ]
        return fact_rows(facts, width, palette_of(self))

    def _reasons(self, message: AssistantMessage) -> list[tuple[str, str, str]]:
        words, palette, decision = self.words, palette_of(self), message.decision
        if decision is None:
            return []
        why = visible(decision.rationale) or self._nothing
        facts: list[tuple[str, str, str]] = [(words("working.rationale"), why, palette.text)]
        checks = (decision.goal_consistency, decision.constraint_check)
        for key, check in zip(("goal_check", "constraint_check"), checks, strict=True):
            sign, color = _sign(check, palette)
            said = {True: "yes", False: "no", None: "not_stated"}[check.ok]
            reason = f" · {visible_line(check.reason)}" if check.reason.strip() else ""
            said = f"{sign} {words(f'working.{said}')}{reason}"
            facts.append((words(f"working.{key}"), said, color))
        if decision.confidence is not None:
            said = f"{decision.confidence:.2f}"
            facts.append((words("working.confidence"), said, palette.quiet))
        for at, action in enumerate(decision.actions):
            label = "" if at else words("working.actions")
            said = visible_line(f"{action.operation} {target(action.args)}".rstrip())
            facts.append((label, said, palette.quiet))
        return facts

    def _values(self, name: str) -> tuple[str, ...]:
        """What the working memory has under this name, of the log the newest first; empty for
        nothing.
        """
        value: str | tuple[str, ...] = getattr(self.state.memory, name)
        values = (value,) if isinstance(value, str) else value
        if name == "decision_log":
            values = values[::-1]
        return tuple(value for value in values if value)

    @property
    def _nothing(self) -> str:
        return self.words("working.nothing")

    def _labels(self) -> int:
        """Cells of the longest name of a field."""
        return max(cell_len(self.words(f"working.fact.{name}")) for name in _FACTS)

    def _decided(self) -> list[AssistantMessage]:
        newest = reversed(self.state.messages)
        decided = (m for m in newest if isinstance(m, AssistantMessage) and m.decision is not None)
        return list(islice(decided, SHOWN_DECISIONS))

    def _message(self, name: str) -> AssistantMessage | None:
        return next((m for m in self._decided() if m.message_id == name), None)


def _sign(check: Judgement, palette: Palette) -> tuple[str, str]:
    """A check as a sign, which says the same as the colour."""
    if check.ok is None:
        return "·", palette.faint
    return ("✓", palette.good) if check.ok else ("✗", palette.bad)
