"""What keys do to the goal: its requirements, the kind of request, the limit, the gauges."""

from __future__ import annotations

from duckflow_tui.commands import AUTO, CHOICES
from duckflow_tui.state.base import Told
from duckflow_tui.state.decision import TaskProfile
from duckflow_tui.state.goal import RequirementItem
from duckflow_tui.ui.panes.goal import LedgerPane
from duckflow_tui.ui.panes.vitals import VitalsPane
from duckflow_tui.ui.panes.vitals_words import profile_words
from duckflow_tui.ui.screens.ledger import LedgerBoard
from duckflow_tui.ui.screens.pick_list import Choice
from duckflow_tui.ui.screens.requirement_form import Draft, RequirementForm, WaiveForm
from duckflow_tui.ui.session_actions import SessionActions


class GoalActions(SessionActions, inherit_bindings=False):
    """A widget only says what the user wants; here it is handed to the engine."""

    # vitals

    def action_vitals(self, shown: str) -> None:
        """Show the gauges, or nowhere."""
        self.bench.vitals_on = shown == "on"
        self.say(f"vitals.{shown}")

    def on_vitals_pane_go_to(self, event: VitalsPane.GoTo) -> None:
        if not self.bench.go_to_first(tuple(reversed(event.refs))):
            self.say("vitals.no_place")

    # the pacemaker

    def profile_choices(self) -> list[Choice]:
        """The kinds of request; the one in force is marked, with who chose it."""
        state = self.store.state if self.store is not None else None
        chosen = state.profile_choice if state is not None else None
        limit = state.pace.limit if state is not None and state.pace is not None else None
        found: list[Choice] = []
        for value in CHOICES["profile"]:
            profile = None if value == AUTO else TaskProfile(value.upper())
            mark = ""
            if profile is chosen:
                mark = self.words("profile.yours" if profile else "profile.auto")
            elif profile is not None and limit is not None and limit.profile is profile:
                mark = self.words(f"profile.now_{limit.chosen_by}")
            name = profile_words(profile, self.words) if profile else self.words("profile.let")
            found.append(Choice(value, name, mark))
        return found

    # the requirements

    def action_requirements(self) -> None:
        if self.store is not None:
            self.push_screen(LedgerBoard(self.words, self.store))

    def on_ledger_pane_opened(self, _event: LedgerPane.Opened) -> None:
        self.action_requirements()

    def on_vitals_pane_ledger_wanted(self, _event: VitalsPane.LedgerWanted) -> None:
        self.action_requirements()

    def on_ledger_board_form_wanted(self, event: LedgerBoard.FormWanted) -> None:
        if self.acting() is not None:
            form = RequirementForm(self.words, event.item, event.part)
            self.push_screen(form, lambda draft: self._written(event.item, draft))

    def on_ledger_board_priority_wanted(self, event: LedgerBoard.PriorityWanted) -> None:
        engine = self.acting()
        if engine is not None:
            item = event.item
            self._tell(engine.ledger.edit(item.requirement_id, priority=event.priority))

    def on_ledger_board_waive_wanted(self, event: LedgerBoard.WaiveWanted) -> None:
        engine = self.acting()
        if engine is None:
            return
        item = event.item
        if not item.counts:
            self._tell(engine.ledger.restore(item.requirement_id))
            return
        self.push_screen(
            WaiveForm(self.words, item), lambda because: self._waive(item.requirement_id, because)
        )

    def on_ledger_board_go_to(self, event: LedgerBoard.GoTo) -> None:
        board = self.screen
        if self.bench.transcript is None or not isinstance(board, LedgerBoard):
            return
        if self.bench.go_to_first(event.refs):
            board.dismiss(None)
        else:
            board.tell(self.words("ledger.no_place"))

    def _written(self, item: RequirementItem | None, draft: Draft | None) -> None:
        engine = self.acting() if draft is not None else None
        if engine is None or draft is None:
            return
        ledger = engine.ledger
        if item is None:
            self._tell(ledger.add(draft.requirement, draft.priority, draft.check))
            self._choose_newest()
            return
        text = draft.requirement if draft.requirement != item.requirement else None
        priority = draft.priority if draft.priority != item.priority else None
        check = draft.check if draft.check != item.check else None
        if (text, priority, check) != (None, None, None):
            self._tell(ledger.edit(item.requirement_id, text=text, priority=priority, check=check))

    def _choose_newest(self) -> None:
        """The next key is meant for what was just added."""
        board = self._ledger_board
        objective = self.store.state.objective if self.store is not None else None
        if board is not None and objective is not None and objective.extracted_requirements:
            board.choose(objective.extracted_requirements[-1].requirement_id)

    def _waive(self, requirement_id: str, because: str | None) -> None:
        engine = self.acting() if because is not None else None
        if engine is not None and because is not None:
            self._tell(engine.ledger.waive(requirement_id, because))

    def _tell(self, problem: Told | None) -> None:
        """On the board where it is open, since it covers the status line."""
        if self._ledger_board is not None:
            self._ledger_board.tell(self.words.told(problem))

    @property
    def _ledger_board(self) -> LedgerBoard | None:
        return next((s for s in self.screen_stack if isinstance(s, LedgerBoard)), None)
