"""What the demo's model answers to each request: which part of the story it belongs to.

The files, the gates, the commands and their results are real; the script only decides what the
model says next. What it says stands in ``words/``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from duckflow_tui.scripted.answers import answer, kind_of
from duckflow_tui.scripted.asides import AsideWriter
from duckflow_tui.scripted.endpoint import Request
from duckflow_tui.scripted.fix import FixWriter, about_of
from duckflow_tui.scripted.judge import PURPOSES, judge
from duckflow_tui.scripted.loyalty import ABOUT as LOYALTY
from duckflow_tui.scripted.loyalty import LoyaltyWriter, names_a_step, plan_for
from duckflow_tui.scripted.replies import Reply
from duckflow_tui.scripted.savings import ABOUT as SAVINGS
from duckflow_tui.scripted.savings import SavingsWriter
from duckflow_tui.scripted.scene import Scene, files_read, is_aside, scene_of, step_of, tail_of
from duckflow_tui.scripted.steps import StepWriter, report_for, step_key, tasks_for
from duckflow_tui.scripted.tax import ABOUT as TAX
from duckflow_tui.scripted.tax import TaxWriter, is_rate
from duckflow_tui.scripted.wording import language_of, language_of_request, texts
from duckflow_tui.scripted.writing import one_more, paced
from duckflow_tui.state.base import JsonObject

#: What a message in mid-work must be about to redirect the work of the script.
_REDIRECTS: Final = re.compile(
    r"discount|total|\bcap\b|the test|loyal|割引|合計|上限|足し算|テストを変|常連", re.I
)


def story_requests(language: str) -> dict[str, str]:
    """The request that begins each of the stories, by its name."""
    return {
        "bug": request_text(language),
        "plan": plan_request(language),
        "savings": savings_request(language),
        "tax": tax_request(language),
    }


def request_text(language: str) -> str:
    """The request that begins the story."""
    return str(texts("", "ja" if language == "ja" else "en")["request"])


def plan_request(language: str) -> str:
    """The request that leads to a plan."""
    return str(texts("plan", "ja" if language == "ja" else "en")["request"])


def savings_request(language: str) -> str:
    """The request of which a part is missed at first."""
    return str(texts("savings", "ja" if language == "ja" else "en")["request"])


def tax_request(language: str) -> str:
    """The request that the model gets stuck at."""
    return str(texts("tax", "ja" if language == "ja" else "en")["request"])


class Story:
    """Writes the replies of the demo's model. Remembers nothing: a request tells all.

    ``command`` runs the project's tests; ``fast`` leaves out the pauses of a real model.
    """

    def __init__(self, workspace: Path, command: str, *, fast: bool = False) -> None:
        self._workspace = workspace
        self._command = command
        self._fast = fast

    def reply(self, request: Request) -> Reply | None:
        """The reply to a request; None for a purpose that the story does not know."""
        match request.purpose:
            case "main" if is_aside(request.json):
                return self._aside(request)
            case "main":
                return self._main(request)
            case "task" | "plan" | "tasks" | "report":
                return self._work(request)
            case purpose if purpose in PURPOSES:
                return paced(self._fast, data=judge(purpose, request.text))
            case _:
                return None

    def _main(self, request: Request) -> Reply:
        scene = scene_of(request.json)
        if not LOYALTY.search(scene.request):  # the plan is changed beside its work
            scene = scene_of(request.json, _REDIRECTS)
        if scene.left:
            return self._paced(one_more(scene.judgement, scene.left[0]))
        language = language_of(scene.said)
        if _is_of_tax(scene):
            # A bare rate has no language; the request in hand, which the tail quotes, has one.
            bare = is_rate(scene.request)
            language = language_of_request(request.text) if bare else language_of(scene.request)
            told = texts("tax", language)
            writer = TaxWriter(scene, told, self._command, request_text(language))
        elif SAVINGS.search(scene.said):
            told = texts("savings", language)
            writer = SavingsWriter(scene, told, self._command, tax_request(language))
        elif LOYALTY.search(scene.said) or _is_of_the_plan(scene):
            told = texts("plan", language)
            more = savings_request(language)
            writer = LoyaltyWriter(scene, told, self._command, more)
        elif kind_of(scene.said) is not None:
            return self._paced(answer(request.text, scene))
        else:
            told = texts("", language)
            others = {
                "loyalty": plan_request(language),
                "savings": savings_request(language),
                "tax": tax_request(language),
            }
            writer = FixWriter(scene, told, self._workspace, self._command, others)
        thinks, decision = writer.write()
        return self._paced(decision, thinks)

    def _aside(self, request: Request) -> Reply:
        scene = scene_of(request.json)
        language = language_of(scene.said)
        words = texts("aside", language)
        if kind_of(scene.said) is not None:
            decision = {**answer(request.text, scene), "rationale": words["rationale"]}
            return self._paced(decision)
        # The steps have the names of the language in which the plan was asked for.
        plan = texts("plan", language_of_request(request.text))
        tail = tail_of(request.json)
        return self._paced(AsideWriter(scene, words, plan["steps"], request.text, tail).write())

    def _work(self, request: Request) -> Reply:
        words: dict[str, Any] = texts("plan", language_of_request(request.text))
        key = step_key(request.text, words)
        match request.purpose:
            case "task":
                scene = step_of(request.json)
                if scene.left:
                    return self._paced(one_more(scene.judgement, scene.left[0]))
                earlier = files_read(request.json)
                return self._paced(StepWriter(key, scene, words, self._command, earlier).write())
            case "tasks":
                data = tasks_for(key, request.text, words, self._command)
            case "report":
                data = report_for(key, request.text, words)
            case _:
                data = plan_for(request.text, words)
        return paced(self._fast, data=data)

    def _paced(self, decision: JsonObject, thinks: str = "") -> Reply:
        return paced(self._fast, thinks, decision=decision)


def _is_of_tax(scene: Scene) -> bool:
    """Whether the work is about the tax rate: by what was said, or by what the turn began with
    where the user said something since that the stories know nothing of.
    """
    if TAX.search(scene.said) or is_rate(scene.said):
        return True
    known = SAVINGS.search(scene.said) or LOYALTY.search(scene.said) or kind_of(scene.said)
    return (
        not known and TAX.search(scene.request) is not None and about_of(scene.said) == "anything"
    )


def _is_of_the_plan(scene: Scene) -> bool:
    """Whether words that the stories know nothing of, or that name a step, were said to the work on
    the plan, or in answer to what it asked.
    """
    if not LOYALTY.search(scene.before or scene.request) or kind_of(scene.said) is not None:
        return False
    return names_a_step(scene.said) or about_of(scene.said) == "anything"
