from __future__ import annotations

from support.prompt_states import OPERATIONS, busy_state, compiler

from duckflow_tui.prompting.budget import Budgets, Cuttable, Layer, Trim, fit_layers
from duckflow_tui.prompting.templates import Template
from duckflow_tui.state.decision import PromptPattern
from duckflow_tui.state.memory import WorkingMemory

TEXT = "{kept}\nE:\n{evidence}\nS:\n{summary}\nQ:\n{questions}\nP:\n{plan}"


def words(text: str) -> int:
    return len(text.split())


def layer(budget: int, name: str = "main", kept: str = "goal gates") -> Layer:
    return Layer(
        name,
        budget,
        Template("t.md", TEXT),
        {"kept": kept},
        {
            "plan": Cuttable(Trim.PLAN_BRIEF, ("p1", "p2", "p3")),
            "questions": Cuttable(Trim.OPEN_QUESTIONS, ("q1", "q2")),
            "summary": Cuttable(Trim.CONVERSATION_SUMMARY, ("s1", "s2", "s3"), drop="first"),
            "evidence": Cuttable(Trim.EVIDENCE, ("e1", "e2")),
        },
    )


def gone(budget: int) -> set[str]:
    (fitted,) = fit_layers([layer(budget)], words)
    everything = {"p1", "p2", "p3", "q1", "q2", "s1", "s2", "s3", "e1", "e2"}
    return everything - set(fitted.text.split())


def test_what_goes_first_is_what_the_order_says() -> None:
    """Covers S4-78."""
    evidence, summary, questions, plan = (
        {"e1", "e2"},
        {"s1", "s2", "s3"},
        {"q1", "q2"},
        {"p1", "p2", "p3"},
    )
    assert gone(16) == set()
    assert gone(15) == {"e2"}
    assert gone(13) == evidence
    assert gone(12) == evidence | {"s1"}
    assert gone(9) == evidence | summary
    assert gone(8) == evidence | summary | {"q2"}
    assert gone(6) == evidence | summary | questions
    assert gone(5) == evidence | summary | questions | {"p3"}
    assert gone(1) == evidence | summary | questions | plan


def test_what_may_not_be_cut_is_sent_over_budget_and_shows_it() -> None:
    """Covers S4-80."""
    (fitted,) = fit_layers([layer(1)], words)
    assert fitted.text == "goal gates"
    assert (fitted.use.tokens, fitted.use.budget) == (2, 1)
    assert fitted.use.trimmed == (
        "evidence",
        "conversation_summary",
        "open_questions",
        "plan_brief",
    )


def test_a_layer_borrows_what_another_leaves_before_anything_is_cut() -> None:
    """Covers S4-80: the sum of the budgets is what holds."""
    roomy = Layer("specialized", 9, Template("t.md", "one two"), {})
    fitted = fit_layers([layer(10), roomy], words)
    assert [f.use.budget for f in fitted] == [16, 9]
    assert fitted[0].use.trimmed == ()
    tight = Layer("specialized", 4, Template("t.md", "one two"), {})
    fitted = fit_layers([layer(10), tight], words)
    assert fitted[0].use.budget == 12
    assert fitted[0].use.tokens <= 12
    assert fitted[0].use.trimmed == ("evidence", "conversation_summary")


def test_what_was_borrowed_is_not_lent_again() -> None:
    """Covers S4-80."""
    roomy = Layer("base", 5, Template("t.md", "one two"), {})
    fitted = fit_layers([roomy, layer(14), layer(14, "specialized")], words)
    assert [f.use.budget for f in fitted] == [5, 16, 15]
    assert fitted[2].use.trimmed == ("evidence",)


def test_the_factor_of_a_model_tightens_the_budget() -> None:
    (fitted,) = fit_layers([layer(16)], words, factor=1.5)
    assert fitted.use.tokens <= 16
    assert "evidence" in fitted.use.trimmed


def test_a_crowded_memory_keeps_goal_constraints_requirements_and_gates() -> None:
    """Covers S4-76, S4-78: every text is Japanese, where a character is about a token."""
    state = busy_state()
    state.memory = WorkingMemory(
        goal="目標" * 100,
        why_now="理由" * 20,
        constraints=("制約甲" * 33, "制約乙" * 33),
        plan_brief=("計画甲" * 33, "計画乙" * 33, "計画丙" * 33),
        open_questions=("問い甲" * 33, "問い乙" * 33),
        decision_log=tuple(f"決定{n}" * 25 for n in range(5)),
    )
    prompt = compiler("ja").compile(state, OPERATIONS, pattern=PromptPattern.BASE_MAIN)
    main = next(use for use in prompt.uses if use.layer == "main")
    assert main.trimmed[0] == "evidence"
    for kept in ("目標" * 100, "制約甲" * 33, "制約乙" * 33, "the tests pass", "Add the counter"):
        assert kept in prompt.tail
    assert "決定4" not in prompt.tail
    assert sum(u.tokens for u in prompt.uses if u.layer in ("base", "main")) <= 1300


def test_a_larger_budget_from_the_settings_cuts_less() -> None:
    """Covers S4-76."""
    state = busy_state()
    small = compiler(budgets=Budgets(base=100, main=100, specialized=100))
    large = compiler(budgets=Budgets(base=500, main=2000))
    pattern = PromptPattern.BASE_MAIN
    assert "Which default?" not in small.compile(state, OPERATIONS, pattern=pattern).tail
    assert "Which default?" in large.compile(state, OPERATIONS, pattern=pattern).tail
