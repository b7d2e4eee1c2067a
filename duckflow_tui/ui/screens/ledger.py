"""``/requirements``: the user's requirements, how far each is met, and the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.style import Style

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
from duckflow_tui.ui.panes.goal import mark_colour, request_row, requirement_row
from duckflow_tui.ui.panes.strips import Row, fit, ink, prefix_rows, rows_of
from duckflow_tui.ui.panes.vitals_words import figure_text
from duckflow_tui.ui.screens.form import LineForm
from duckflow_tui.ui.screens.list_source import PageAction, StateSource, make_row, render_facts
from duckflow_tui.ui.screens.requirement_form import RequirementDraft, RequirementForm
from duckflow_tui.words.figures import time_words

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine


def _state_name(item: RequirementItem) -> str:
    """Return the name of the words for a requirement's state; ``provisional`` for one that only the
    work's own check shows.
    """
    return "provisional" if item.provisional else item.state.value


class RequirementSource(StateSource[RequirementItem | TaskObjective]):
    """The requirements in the order in which they were found, with the evidence of the chosen one.

    Below them, read-only, earlier requests that were left unfinished, newest first, with their
    requirements.
    """

    def list_items(self) -> Mapping[str, RequirementItem | TaskObjective]:
        """Return the current requirements, then earlier requests with theirs."""
        items: dict[str, RequirementItem | TaskObjective] = {
            item.requirement_id: item for item in self._items
        }
        for request in reversed(self.state.earlier):
            items[request.objective_id] = request
            for item in request.extracted_requirements:  # ids are unique within a request only
                items[f"{request.objective_id}/{item.requirement_id}"] = item
        return items

    def _find_own(self, item: RequirementItem | TaskObjective | None) -> RequirementItem | None:
        """Return the requirement if it belongs to the current request and so can be changed; else
        None.
        """
        return next((own for own in self._items if own is item), None)

    def get_main_action(self, item: RequirementItem | TaskObjective) -> PageAction | None:
        """Return the action that edits a requirement of the current request; None for others."""
        own = self._find_own(item)
        if own is None:
            return None
        return self.make_session_action("keys.ledger_edit", partial(self._open_form, own))

    def list_actions(self, item: RequirementItem | TaskObjective | None) -> Sequence[PageAction]:
        """Return actions that show the evidence, waive or restore the requirement, and add one."""
        actions: list[PageAction] = []
        proofs = item.evidence if isinstance(item, RequirementItem) else ()
        for number, evidence in enumerate(proofs, 1):
            if refs := self._find_places(evidence):
                label = self.words("keys.ledger_evidence", number=number)
                actions.append(self.make_place_action(refs)._replace(label=label))
        if (own := self._find_own(item)) is not None:
            act, key = partial(self._waive, own), "keys.ledger_waive"
            if not own.is_counted:
                act, key = partial(_restore, own), "keys.ledger_restore"
            actions.append(self.make_session_action(key, act))
        if self.state.objective is not None:
            add = partial(self._open_form, None)
            actions.append(self.make_session_action("keys.ledger_add", add))
        return actions

    def _waive(self, item: RequirementItem, engine: Engine) -> None:
        """Ask for the reason why a requirement no longer counts, and waive it."""

        def waive(because: str | None) -> None:
            """Waive the requirement for the entered reason; nothing after Esc."""
            if because is not None:
                self._report_problem(engine.ledger.waive_requirement(item.requirement_id, because))

        self.host.push_screen(LineForm(self.words, "ledger.waive", subject=item.requirement), waive)

    def _open_form(self, item: RequirementItem | None, engine: Engine) -> None:
        """Open the form of a requirement; without an item, of a new one."""

        def take_draft(draft: RequirementDraft | None) -> None:
            """Add or change the requirement as entered; nothing after Esc."""
            if draft is not None and item is None:
                problem = engine.ledger.add_requirement(
                    draft.requirement, draft.priority, draft.check
                )
                if self._items:  # the next key is meant for the new requirement
                    self.page.choose(self._items[-1].requirement_id)
                self._report_problem(problem)
            elif draft is not None and item is not None:
                self._change_item(engine, item, draft)

        self.host.push_screen(RequirementForm(self.words, item), take_draft)

    def _change_item(self, engine: Engine, item: RequirementItem, draft: RequirementDraft) -> None:
        """Change the edited fields of a requirement."""
        text = draft.requirement if draft.requirement != item.requirement else None
        priority = draft.priority if draft.priority != item.priority else None
        check = draft.check if draft.check != item.check else None
        if (text, priority, check) != (None, None, None):
            problem = engine.ledger.edit_requirement(
                item.requirement_id, text=text, priority=priority, check=check
            )
            self._report_problem(problem)

    def _report_problem(self, problem: LocalizedText | None) -> None:
        """Show a problem on the page; None clears it."""
        self.page.report(self.words.localize(problem))

    def get_title(self) -> str:
        """Return the title with the numbers of met and counted requirements, and the request."""
        objective = self.state.objective
        title = self.words("ledger.title")
        if objective is None or not objective.extracted_requirements:
            return title
        met, total = objective.met_counts
        said = self.words("ledger.goal", met=met, total=total)
        return f"{title}  {said} · {visible_line(objective.original_query)}"

    def get_empty_text(self) -> str:
        return self.words("ledger.none" if self.state.objective else "ledger.no_goal")

    def is_ticking(self) -> bool:
        """Whether the chosen requirement shows the age of an evidence."""
        item = self.chosen_item
        return isinstance(item, RequirementItem) and any(proof.at for proof in item.evidence)

    def render_row(self, item: RequirementItem | TaskObjective, width: int) -> Row:
        if isinstance(item, TaskObjective):
            return request_row(item, self.palette, width, self._describe_end(item))
        said = self.words(f"ledger.state.{_state_name(item)}")
        return requirement_row(item, self.palette, width, said)

    def render_note(self, item: RequirementItem | TaskObjective, width: int) -> list[Row]:
        """Render a remark on an earlier request: it is read-only."""
        if self._find_own(item) is not None:
            return []
        return self.wrap_text(self.words("ledger.left_alone"), width, self.palette.accent)

    def render_detail(
        self, item: RequirementItem | TaskObjective, width: int, room: int
    ) -> list[Row]:
        if isinstance(item, TaskObjective):
            return self.wrap_text(make_visible(item.original_query), width)
        rows = self._render_facts(item, width)
        if item.evidence:
            rows.append([])
            for number, evidence in enumerate(item.evidence, 1):
                rows += self._render_evidence(number, evidence, width)
        return rows

    def _render_facts(self, item: RequirementItem, width: int) -> list[Row]:
        """Render words, state, priority, check and reasons of a requirement."""
        palette, words = self.palette, self.words
        state = words(f"ledger.state.{_state_name(item)}")
        if item.state is not RequirementState.OPEN and item.is_counted:
            state = f"{state} · {figure_text(item.satisfaction_level)}"
        check = words(f"ledger.check.{item.check.kind}")
        value = visible_line(item.check.value)
        facts = [
            ("words", make_visible(item.requirement), palette.text),
            ("state", state, _pick_colour(item, mark_colour(item.state, palette), palette.quiet)),
            ("priority", words(f"ledger.priority.{item.priority}"), palette.quiet),
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
        return render_facts(named, width, palette)

    def _render_evidence(self, number: int, evidence: Evidence, width: int) -> list[Row]:
        """Render ``1 ✓ pytest -q   exit 0 · 3 min ago``, and the excerpt below it."""
        palette, words = self.palette, self.words
        mark, colour = ("✓", palette.good) if evidence.supports else ("✗", palette.bad)
        source = visible_line(evidence.source)
        if evidence.kind in ("reply", "user") or not source:
            source = words(f"review.evidence.{evidence.kind}")
        said: list[str] = []
        if evidence.exit_code is not None:
            said.append(words("output.exit", code=evidence.exit_code))
        if evidence.at:
            ago = time_words(self.clock.now() - evidence.at, words)
            said.append(words("ledger.ago", time=ago))
        right = f"  {' · '.join(said)}" if said else ""
        if cell_len(right) * 2 > width:
            right = fit(right, width // 2)
        leads = number < 10 and bool(self._find_places(evidence))
        left = [
            (f"{number} " if leads else "  ", palette.accent),
            (f"{mark} ", colour),
            (source, palette.text),
        ]
        rows = [make_row(width, left, [(right, palette.faint)])]
        for line in split_bare_lines(evidence.text):
            rows += prefix_rows(
                rows_of([(make_visible(line), self._pick_ink(evidence, line))], max(8, width - 4)),
                ("    ", ink(None)),
            )
        return rows

    def _find_places(self, evidence: Evidence) -> tuple[str, ...]:
        """Return the ids of the messages in the chat about the evidence: its call, and the first
        review after it.
        """
        reviews = (m for m in self.state.messages if isinstance(m, ReviewMessage))
        review = next((m.message_id for m in reviews if m.at >= evidence.at), "")
        return tuple(filter(None, (evidence.call_id, review)))

    def _pick_ink(self, evidence: Evidence, line: str) -> Style:
        """Return the style of a line of evidence; lines of a diff are coloured."""
        palette = self.palette
        if evidence.kind != "diff":
            return ink(palette.quiet)
        ground = {"+": palette.added, "-": palette.removed}.get(line[:1])
        return ink(palette.text if ground else palette.quiet, on=ground)

    @property
    def _items(self) -> tuple[RequirementItem, ...]:
        """Requirements of the current request."""
        objective = self.state.objective
        return objective.extracted_requirements if objective else ()

    def _describe_end(self, request: TaskObjective) -> str:
        """Return how an earlier request ended, and how far it was met."""
        ended = self.words(f"sessions.state.{'closed' if request.closed else request.left}")
        said = [self.words("ledger.earlier"), ended]
        met, total = request.met_counts
        if total:
            said.append(self.words("ledger.goal", met=met, total=total))
        return " · ".join(said)


def _restore(item: RequirementItem, engine: Engine) -> LocalizedText | None:
    """Make a waived requirement count again; returns the problem, or None."""
    return engine.ledger.restore_requirement(item.requirement_id)


def _pick_colour(item: RequirementItem, colour: str, otherwise: str) -> str:
    """Return ``colour`` for a refuted or partly met requirement, else ``otherwise``."""
    return (
        colour if item.state in (RequirementState.REFUTED, RequirementState.PARTLY) else otherwise
    )
