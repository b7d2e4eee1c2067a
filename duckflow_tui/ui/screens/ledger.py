"""``/requirements``: what the user asked for, how far each is met, and what shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.goal import (
    Evidence,
    RequirementItem,
    RequirementState,
    ReviewMessage,
    TaskObjective,
)
from duckflow_tui.state.lines import split_bare_lines
from duckflow_tui.ui.bindings import Surface
from duckflow_tui.ui.panes.blocks import whole_seconds
from duckflow_tui.ui.panes.goal import mark_colour, priority_label, request_row, requirement_row
from duckflow_tui.ui.panes.rows import palette_of, two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink, prefixed, rows_of
from duckflow_tui.ui.panes.vitals_words import figure
from duckflow_tui.ui.screens.board import StateBoard, board_bindings, fact_rows
from duckflow_tui.ui.screens.form import LineForm

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine
    from duckflow_tui.ui.screens.requirement_form import RequirementDraft

Part = Literal["words", "check"]


def _state_name(item: RequirementItem) -> str:
    """The name of the words for a state; one that only the work's own check shows is for now."""
    return "provisional" if item.provisional else item.state.value


class LedgerBoard(StateBoard):
    """The requirements in the order in which they were found; the evidence of the chosen one.

    Below them the requests that were left before they were done, the newest first, to be read only.
    """

    SURFACE: ClassVar[Surface] = "ledger"
    BINDINGS: ClassVar[list[BindingType]] = board_bindings("ledger")

    # --- keys -------------------------------------------------------------------------------

    def acts_alone(self, action: str) -> bool:
        return action == "leave" or (action == "add" and self.state.objective is not None)

    def action_edit(self, part: Part) -> None:
        item = self._own()
        if item is not None:
            self._open_form(item, part)

    def action_add(self) -> None:
        self.report("")
        self._open_form(None, "words")

    def action_next_priority(self) -> None:
        item = self._own()
        engine = self.host.session.acting() if item is not None else None
        if item is not None and engine is not None:
            priority = item.priority % 3 + 1
            self._told(engine.ledger.edit(item.requirement_id, priority=priority))

    def action_waive(self) -> None:
        item = self._own()
        engine = self.host.session.acting() if item is not None else None
        if item is None or engine is None:
            return
        if not item.is_counted:
            self._told(engine.ledger.restore(item.requirement_id))
            return

        def waive(because: str | None) -> None:
            if because is not None:
                self._told(engine.ledger.waive(item.requirement_id, because))

        self.host.push_screen(LineForm(self.words, "ledger.waive", subject=item.requirement), waive)

    def _open_form(self, item: RequirementItem | None, part: Part) -> None:
        """Write a requirement; without an item a new one."""
        from duckflow_tui.ui.screens.requirement_form import RequirementForm

        engine = self.host.session.acting()
        if engine is None:
            return

        def written(draft: RequirementDraft | None) -> None:
            if draft is not None and item is None:
                self._told(engine.ledger.add(draft.requirement, draft.priority, draft.check))
                if self._items:  # the next key is meant for what was just added
                    self.choose(self._items[-1].requirement_id)
            elif draft is not None and item is not None:
                self._change(engine, item, draft)

        self.host.push_screen(RequirementForm(self.words, item, part), written)

    def _change(self, engine: Engine, item: RequirementItem, draft: RequirementDraft) -> None:
        """Change the touched fields of a requirement."""
        text = draft.requirement if draft.requirement != item.requirement else None
        priority = draft.priority if draft.priority != item.priority else None
        check = draft.check if draft.check != item.check else None
        if (text, priority, check) != (None, None, None):
            problem = engine.ledger.edit(
                item.requirement_id, text=text, priority=priority, check=check
            )
            self._told(problem)

    def _told(self, problem: LocalizedText | None) -> None:
        self.report(self.words.localize(problem))

    def action_to_evidence(self, number: int) -> None:
        item = self._item(self.chosen)
        evidence = item.evidence if item else ()
        if number > len(evidence):
            return
        if self.host.bench.go_to(self._refs(evidence[number - 1])):
            self.dismiss(None)
        else:
            self.report(self.words("ledger.no_place"))

    # --- what it says -----------------------------------------------------------------------

    def heading(self) -> str:
        objective = self.state.objective
        title = self.words("ledger.title")
        if objective is None or not objective.extracted_requirements:
            return title
        met, total = objective.met_counts
        said = self.words("ledger.goal", met=met, total=total)
        return f"{title}  {said} · {visible_line(objective.original_query)}"

    def empty(self) -> str:
        return self.words("ledger.none" if self.state.objective else "ledger.no_goal")

    def names(self) -> Sequence[str]:
        own = [item.requirement_id for item in self._items]
        for request in reversed(self.state.earlier):
            own.append(request.objective_id)
            own += [_name(request, item) for item in request.extracted_requirements]
        return own

    def moves(self) -> bool:
        item = self._item(self.chosen)
        return item is not None and any(evidence.at for evidence in item.evidence)

    def item(self, name: str, width: int) -> Row:
        item, request = self._item(name), self._request(name)
        if request is not None:
            return request_row(request, palette_of(self), width, self._left(request))
        if item is None:
            return []
        said = self.words(f"ledger.state.{_state_name(item)}")
        return requirement_row(item, palette_of(self), width, said)

    def about(self, name: str, width: int) -> list[Row]:
        return self.said_rows(width)

    def detail(self, name: str, width: int, room: int) -> list[Row]:
        item, request = self._item(name), self._request(name)
        if request is not None:
            text = f"{make_visible(request.original_query)}\n{self.words('ledger.left_alone')}"
            return rows_of([(text, ink(palette_of(self).quiet))], width)
        if item is None:
            return []
        rows = self._facts(item, width)
        if item.evidence:
            rows.append([])
            for number, evidence in enumerate(item.evidence, 1):
                rows += self._evidence(number, evidence, width)
        return rows

    def _facts(self, item: RequirementItem, width: int) -> list[Row]:
        palette, words = palette_of(self), self.words
        state = words(f"ledger.state.{_state_name(item)}")
        if item.state is not RequirementState.OPEN and item.is_counted:
            state = f"{state} · {figure(item.satisfaction_level)}"
        priority = words(f"ledger.priority.{item.priority}")
        check = words(f"ledger.check.{item.check.kind}")
        value = visible_line(item.check.value)
        facts = [
            ("words", make_visible(item.requirement), palette.text),
            ("state", state, _lit(item, mark_colour(item.state, palette), palette.quiet)),
            ("priority", f"{priority_label(item.priority)} · {priority}", palette.quiet),
            ("check", f"{check}  {value}".rstrip(), palette.quiet),
        ]
        if item.by_user:
            facts.append(("by", words("ledger.by_user"), palette.quiet))
        if item.waived_because:
            facts.append(("because", visible_line(item.waived_because), palette.quiet))
        if not item.evidence:
            none = words("review.quoteless" if item.is_unproven else "ledger.no_evidence")
            facts.append(("evidence", none, palette.quiet))
        named = [(words(f"ledger.fact.{name}"), text, colour) for name, text, colour in facts]
        return fact_rows(named, width, palette)

    def _evidence(self, number: int, evidence: Evidence, width: int) -> list[Row]:
        """``1 ✓ pytest -q   exit 0 · 3 min ago``, and its excerpt."""
        palette, words = palette_of(self), self.words
        mark, colour = ("✓", palette.good) if evidence.supports else ("✗", palette.bad)
        source = visible_line(evidence.source)
        if evidence.kind in ("reply", "user") or not source:
            source = words(f"ledger.kind.{evidence.kind}")
        said: list[str] = []
        if evidence.exit_code is not None:
            said.append(words("ps.exit", code=evidence.exit_code))
        if evidence.at:
            ago = whole_seconds(max(0.0, self.clock.now() - evidence.at), words)
            said.append(words("ledger.ago", time=ago))
        right = f"  {' · '.join(said)}" if said else ""
        leads = number < 10 and bool(self._refs(evidence))
        left = [
            Segment(f"{number} " if leads else "  ", ink(palette.accent)),
            Segment(f"{mark} ", ink(colour)),
            Segment(source, ink(palette.text)),
        ]
        if cell_len(right) * 2 > width:
            right = fit(right, width // 2)
        rows = [two_sided(left, [Segment(right, ink(palette.faint))], width)]
        for line in split_bare_lines(evidence.text):
            rows += prefixed(
                rows_of([(make_visible(line), self._ink(evidence, line))], max(8, width - 4)),
                ("    ", ink(None)),
            )
        return rows

    def _refs(self, evidence: Evidence) -> tuple[str, ...]:
        """Where the chat has it: the call, and the first review that came after it was seen."""
        reviews = (m for m in self.state.messages if isinstance(m, ReviewMessage))
        review = next((m.message_id for m in reviews if m.at >= evidence.at), "")
        return tuple(filter(None, (evidence.call_id, review)))

    def _ink(self, evidence: Evidence, line: str) -> Style:
        palette = palette_of(self)
        if evidence.kind != "diff":
            return ink(palette.quiet)
        ground = {"+": palette.added, "-": palette.removed}.get(line[:1])
        return ink(palette.text if ground else palette.quiet, on=ground)

    @property
    def _items(self) -> tuple[RequirementItem, ...]:
        objective = self.state.objective
        return objective.extracted_requirements if objective else ()

    def _item(self, name: str) -> RequirementItem | None:
        found = next((item for item in self._items if item.requirement_id == name), None)
        if found is not None:
            return found
        return next(
            (
                item
                for request in self.state.earlier
                for item in request.extracted_requirements
                if _name(request, item) == name
            ),
            None,
        )

    def _own(self) -> RequirementItem | None:
        """The chosen one, where it belongs to the request in hand; of another it is said."""
        name = self.chosen
        own = next((item for item in self._items if item.requirement_id == name), None)
        self.report("" if own is not None or not name else self.words("ledger.left_alone"))
        return own

    def _request(self, name: str) -> TaskObjective | None:
        return next((r for r in self.state.earlier if r.objective_id == name), None)

    def _left(self, request: TaskObjective) -> str:
        """How it ended, and how far it was met."""
        ended = self.words(f"ledger.left.{'closed' if request.closed else request.left}")
        said = [self.words("ledger.earlier"), ended]
        met, total = request.met_counts
        if total:
            said.append(self.words("ledger.goal", met=met, total=total))
        return " · ".join(said)


def _name(request: TaskObjective, item: RequirementItem) -> str:
    """Of a requirement of an earlier request: ids begin anew with each."""
    return f"{request.objective_id}/{item.requirement_id}"


def _lit(item: RequirementItem, colour: str, otherwise: str) -> str:
    return (
        colour if item.state in (RequirementState.REFUTED, RequirementState.PARTLY) else otherwise
    )
