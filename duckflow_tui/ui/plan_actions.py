"""What the plan pane and the cards ask for: intents for the engine, and its answer to the user."""

from __future__ import annotations

from duckflow_tui.state.base import StateError
from duckflow_tui.state.gates import CardAnswer
from duckflow_tui.state.plan import PlanEdit
from duckflow_tui.ui.actions import Actions
from duckflow_tui.ui.panes.card import QuestionCard
from duckflow_tui.ui.panes.plan import PlanPane
from duckflow_tui.ui.screens.step_form import StepForm


class PlanActions(Actions, inherit_bindings=False):
    """A widget only says what the user wants; here it is handed to the engine."""

    async def on_question_card_answered(self, event: QuestionCard.Answered) -> None:
        await self._answer_card(event.answer)

    def on_question_card_go_to(self, event: QuestionCard.GoTo) -> None:
        chat = self.bench.transcript
        if chat is not None and chat.go_to("", event.ref):
            self.bench.question.yields = True  # the place needs some rows to be seen in
            self.bench.show_pane("chat")
        else:
            self.bench.question.not_in_chat()

    def on_question_card_left(self, event: QuestionCard.Left) -> None:
        if event.pending:
            self.say("card.left_pending")

    async def on_plan_pane_edited(self, event: PlanPane.Edited) -> None:
        await self._edit_plan(event.edit)

    def on_plan_pane_asked(self, event: PlanPane.Asked) -> None:
        engine = self.acting()
        if engine is None:
            return
        plan = engine.plan
        match event.what:
            case "break":
                problem = plan.set_break(event.step_id, event.on)
            case "retry":
                problem = plan.retry(event.step_id)
            case _:
                problem = plan.skip(event.step_id)
        self.bench.plan.problem = self.words.told(problem)

    def on_plan_pane_form_wanted(self, event: PlanPane.FormWanted) -> None:
        if self.acting() is not None:
            form = StepForm(self.words, event.plan, event.step, new=event.new)
            self.push_screen(form, self._take_form)

    def on_plan_pane_go_to(self, event: PlanPane.GoTo) -> None:
        self.bench.go_to(event.step_id, event.call_id)

    async def _take_form(self, edit: PlanEdit | None) -> None:
        if edit is not None:
            await self._edit_plan(edit)

    async def _edit_plan(self, edit: PlanEdit) -> None:
        engine = self.acting()
        if engine is not None:
            problem = await engine.plan.edit((edit,))
            self.bench.plan.problem = self.words.told(problem)

    async def _answer_card(self, answer: CardAnswer) -> None:
        engine = self.acting()
        if engine is None:
            return
        try:
            await engine.answer_card(answer)
        except StateError:
            # The card closed or was renewed between the key and here: nothing was answered.
            self.say("shell.answer_refused")
