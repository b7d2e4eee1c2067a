"""Fixed stories with a model and a judge that make no mistake, and the project they are played in.

A story is a session of one or several messages. The model of a message says its replies one after
the other, then the words of the last; a plan step is done with one reply.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from duckflow_tui.scripted.endpoint import Request
from duckflow_tui.scripted.replies import Reply
from duckflow_tui.state.base import JsonObject

SUITE: Final = "python3 -m unittest -q"
_FACT: Final = re.compile(r"^(?:- )?([CRKSP]\d+)\b", re.M)
_WANTED: Final = re.compile(r"^- (r\d+)\b", re.M)
_FUNCTIONS: Final = 14  # of each module of the project, about a thousand tokens


def _module(name: str) -> str:
    head = f'"""The {name} of an order."""\n\nfrom decimal import Decimal\n\n'
    head += 'DEFAULT = Decimal("0.05")\n'
    return head + "".join(
        f"\n\ndef {name}_{number}(amount, rate=DEFAULT):\n"
        f'    """The {name} number {number} of an amount; 0.05 takes 5 % of it."""\n'
        f"    if amount < 0:\n"
        f'        raise ValueError("a negative amount")\n'
        f'    return (amount * rate + {number}).quantize(Decimal("0.01"))\n'
        for number in range(1, _FUNCTIONS + 1)
    )


_TEST: Final = (
    "import sys\nimport unittest\nfrom decimal import Decimal\nfrom pathlib import Path\n\n"
    "sys.path.insert(0, str(Path(__file__).parent.parent))\nsys.dont_write_bytecode = True\n\n"
    "from fees import fees_1\n\n\n"
    "class FeesTest(unittest.TestCase):\n"
    "    def test_the_first_fee(self):\n"
    '        self.assertEqual(fees_1(Decimal(100)), Decimal("6.00"))\n'
)
PROJECT: Final = {
    "fees.py": _module("fees"),
    "taxes.py": _module("taxes"),
    "README.md": "# Orders\n\nFees and taxes of an order.\n\n    python3 -m unittest -q\n",
    "tests/__init__.py": "",
    "tests/test_fees.py": _TEST,
}


@dataclass(frozen=True, slots=True)
class Message:
    """What the user says, and what the model replies: decisions, and those of a plan's steps."""

    text: str
    replies: tuple[JsonObject, ...]
    steps: tuple[tuple[str, JsonObject], ...] = ()  # name of a step, its decision
    #: Calls of the first steps, which stand behind the proposal where the program takes them there.
    behind: tuple[tuple[JsonObject, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """A session; ``wanted`` are texts that files hold afterwards, by path."""

    name: str
    messages: tuple[Message, ...]
    wanted: dict[str, str] = field(default_factory=dict[str, str])

    def is_as_wanted(self, folder: Path) -> bool:
        """Whether the files are what the work should have made of them."""
        return all(text in (folder / path).read_text("utf-8") for path, text in self.wanted.items())


class Author:
    """Writes the replies of one story; counts what it said of which message."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._times: Counter[tuple[int, str]] = Counter()
        self._begun = 0  # steps of the plan whose calls stood behind its proposal

    def reply(self, request: Request) -> Reply | None:
        """The reply that is due."""
        if request.method != "POST":
            return None
        heard = [n for n, m in enumerate(self._story.messages) if m.text in request.text]
        at, purpose = (heard or [0])[-1], request.purpose
        message, times = self._story.messages[at], self._times[at, purpose]
        self._times[at, purpose] += 1
        match purpose:
            case "main":
                made, takes = _said(message, times, request)
                self._begun = len(message.behind) if takes else self._begun
                return Reply(decision=made)
            case "task":
                steps = [made for _, made in message.steps]
                return Reply(decision=_due(steps, times + self._begun))
            case "plan":
                return Reply(data=_plan(message))
            case "report":
                return Reply(
                    data={"status": "completed", "summary": "It is done.", "cause": "",
                          "next_action": "Go on"}
                )  # fmt: skip
            case "satisfaction":
                return Reply(data=_all_met(request.text))
            case _:
                return None


def _due(decisions: Sequence[JsonObject], times: int) -> JsonObject:
    """The next of the decisions; behind the last one its words without its calls."""
    if times < len(decisions):
        return decisions[times]
    return {name: value for name, value in decisions[-1].items() if name != "actions"}


def _said(message: Message, times: int, request: Request) -> tuple[JsonObject, bool]:
    """The next decision, and whether calls of steps stand behind the plan that it proposes, as they
    do where the program takes them there.
    """
    made = _due(message.replies, times)
    actions: list[JsonObject] = made.get("actions") or []
    if not any(a["operation"] == "plan_tool.propose" for a in actions):
        return made, False
    (propose,) = actions
    with_steps = {**propose, "args": {**propose["args"], "steps": _steps(message)}}
    takes_calls = bool(message.behind) and "Clear calls of its first step" in request.text
    calls = [call for of_step in message.behind for call in of_step] if takes_calls else []
    return {**made, "actions": [with_steps, *calls]}, takes_calls


def _steps(message: Message) -> list[JsonObject]:
    names = [name for name, _ in message.steps]
    return [
        {"id": f"s{n}", "name": name, "description": f"{name}, and see that it is there.",
         "depends_on": [f"s{n - 1}"] if n > 1 else []}
        for n, name in enumerate(names, 1)
    ]  # fmt: skip


def _plan(message: Message) -> JsonObject:
    return {
        "name": "The work in steps",
        "goal": "All parts are there",
        "steps": _steps(message),
        "risk": "low",
        "success_criteria": ["the tests pass"],
    }


def _all_met(text: str) -> JsonObject:
    """Everything is met; each score with the facts of the request, or a line of the reply."""
    wanted = list(dict.fromkeys(_WANTED.findall(text)))
    facts = list(dict.fromkeys(_FACT.findall(text)))
    said = text.partition("<reply>\n")[2].partition("\n")[0]
    shown = facts[:2] or [f"reply: {said}"]
    return {
        "overall_score": 1.0,
        "requirement_scores": dict.fromkeys(wanted, 1.0),
        "evidence": dict.fromkeys(wanted, shown),
        "missing_aspects": [],
        "grade": "good",
        "quality_assessment": "What was asked for is there.",
        "suggestions": [],
        "verdict": "approve",
        "completion_recommendation": True,
    }


# --- decisions -----------------------------------------------------------------------------------


def _call(operation: str, args: JsonObject) -> JsonObject:
    why = {"reasoning": "the request needs it", "intent": "do what was asked for"}
    return {"operation": operation, "args": args, **why}


def _says(reply: str, *actions: JsonObject, ends: bool = False, **more: Any) -> JsonObject:
    works = bool(actions)
    return {
        "rationale": "It is the next thing that the request needs",
        "reply": reply,
        "goal_consistency": {"ok": True, "reason": "it serves the request"},
        "constraint_check": {"ok": True, "reason": "none is broken"},
        "confidence": 0.9,
        "step": "EXECUTION" if works else "REVIEW",
        "next_step": "done" if ends else "continue",
        "prompt_pattern": "base_main_specialized" if works else "base_main",
        **({"actions": list(actions)} if works else {}),
        **more,
    }


def _begins(profile: str, *wanted: str) -> dict[str, Any]:
    """What the first decision on a request states beside the rest."""
    claims = [
        {"requirement": text, "priority": 1, "check": {"kind": "judgement"}} for text in wanted
    ]
    return {"task_profile": profile, **({"requirements": claims} if claims else {})}


def _read(*paths: str) -> list[JsonObject]:
    return [_call("file_ops.read_file", {"path": path}) for path in paths]


def _edit(path: str, old: str, new: str) -> JsonObject:
    edits = [{"old": old, "new": new}]
    return _call("file_ops.edit_file", {"path": path, "edits": edits})


def _tests() -> JsonObject:
    return _call("shell.run", {"command": SUITE})


def _ends(step: int) -> JsonObject:
    return _call("plan_tool.update_step", {"step_id": str(step), "status": "completed"})


def _search(pattern: str) -> JsonObject:
    return _call("file_ops.search_text", {"pattern": pattern})


_TALK: Final = Message(
    "What is 2 + 2?",
    (_says("4.", ends=True, step="PLANNING", **_begins("GENERAL_CHAT")),),
)


def _question(path: str, number: int) -> Message:
    name = path.removesuffix(".py")
    wanted = f"Say what {name}_{number} does with a negative amount"
    return Message(
        f"What does {name}_{number} in {path} do with a negative amount?",
        (
            _says("", *_read(path), **_begins("CODE_ANALYSIS", wanted)),
            _says(
                f"`{name}_{number}` raises a `ValueError` that says “a negative amount”.", ends=True
            ),
        ),
    )


def _fix(path: str, old: str, new: str) -> Message:
    wanted = f"The default rate in {path} is {new}"
    return Message(
        f"The default rate in {path} must be {new} instead of {old}.",
        (
            _says("", *_read(path), **_begins("FILE_OPERATION", wanted)),
            _says(
                f"The default rate in `{path}` is {new} now.",
                _edit(path, f'DEFAULT = Decimal("{old}")', f'DEFAULT = Decimal("{new}")'),
                ends=True,
            ),
        ),
    )


_RAISES: Final = '        raise ValueError("a negative amount")\n    return (amount * rate + {})'
_TESTED: Final = '        self.assertEqual(fees_1(Decimal(100)), Decimal("6.00"))\n'


def _tested_fix() -> Message:
    return Message(
        "fees_1 must add 2 instead of 1; hold it with the test.",
        (
            _says(
                "",
                _search("fees_1"),
                **_begins("DEBUGGING", "fees_1 adds 2", "A test holds it"),
            ),
            _says("", *_read("fees.py", "tests/test_fees.py")),
            _says(
                "`fees_1` adds 2 now, and the test holds it; the tests pass.",
                _edit("fees.py", _RAISES.format(1), _RAISES.format(2)),
                _edit("tests/test_fees.py", _TESTED, _TESTED.replace("6.00", "7.00")),
                _tests(),
                ends=True,
            ),
        ),
    )


_PARTS: Final = (
    (
        "Round a fee to whole units",
        _edit(
            "fees.py",
            'DEFAULT = Decimal("0.05")\n',
            'DEFAULT = Decimal("0.05")\n\n\ndef whole_fee(amount):\n'
            '    """The first fee in whole units."""\n'
            "    return fees_1(amount).quantize(Decimal(1))\n",
        ),
    ),
    (
        "Round a tax to whole units",
        _edit(
            "taxes.py",
            'DEFAULT = Decimal("0.05")\n',
            'DEFAULT = Decimal("0.05")\n\n\ndef whole_tax(amount):\n'
            '    """The first tax in whole units."""\n'
            "    return taxes_1(amount).quantize(Decimal(1))\n",
        ),
    ),
    (
        "Say it in the README",
        _edit(
            "README.md",
            "Fees and taxes of an order.\n",
            "Fees and taxes of an order; `whole_fee` and `whole_tax` round to whole units.\n",
        ),
    ),
    (
        "Hold it with a test",
        _edit(
            "tests/test_fees.py",
            "from fees import fees_1\n",
            "from fees import fees_1, whole_fee\n\n\nclass WholeTest(unittest.TestCase):\n"
            "    def test_a_fee_in_whole_units(self):\n"
            "        self.assertEqual(whole_fee(Decimal(100)), Decimal(6))\n",
        ),
    ),
)
_WORK: Final = "Fees and taxes need a form in whole units each; document both and test the fee."
_WORK_CLAIMS: Final = _begins("MULTI_STEP_TASK", *(name for name, _ in _PARTS))
_WORK_READ: Final = _says(
    "", *_read("fees.py", "taxes.py", "README.md", "tests/test_fees.py"), **_WORK_CLAIMS
)
_WORK_DONE: Final = "`whole_fee` and `whole_tax` are there, documented and tested; the tests pass."
_WORK_WANTED: Final = {
    "fees.py": "def whole_fee",
    "taxes.py": "def whole_tax",
    "README.md": "whole_tax",
    "tests/test_fees.py": "WholeTest",
}


def _planned(*, one_reply: bool = False, one_by_one: bool = False) -> Message:
    """Planned work of a model that knows all calls beforehand. It gives them in ``one_reply``, that
    of the proposal; or behind the user's yes; or ``one_by_one``, those of the first step with the
    proposal and those of each other in a reply of its own.
    """
    propose = _call("plan_tool.propose", {"goal": "Whole units for fees and taxes"})
    calls = [[edit, _ends(number)] for number, (_, edit) in enumerate(_PARTS, 1)]
    calls[-1][1] = _tests()
    all_steps = _says(_WORK_DONE, *(call for of_step in calls for call in of_step), ends=True)
    steps = [(name, all_steps) for name, _ in _PARTS]
    behind = calls if one_reply else []
    if one_by_one:
        steps = [
            (
                name,
                _says(f"{name}: done.", edit, *([_tests()] if n == len(_PARTS) else []), ends=True),
            )
            for n, (name, edit) in enumerate(_PARTS, 1)
        ]
        behind = calls[:1]
    return Message(
        f"Make a plan of four steps, then carry it out. {_WORK}",
        (
            _WORK_READ,
            _says(
                f"I lay a plan of four steps before you. {_WORK_DONE if one_reply else ''}",
                propose,
                ends=True,
            ),
            _says(_WORK_DONE, ends=True),
        ),
        tuple(steps),
        tuple(tuple(of_step) for of_step in behind),
    )


def _unplanned() -> Message:
    edits = [edit for _, edit in _PARTS]
    return Message(_WORK, (_WORK_READ, _says(_WORK_DONE, *edits, _tests(), ends=True)))


_RATE: Final = {"fees.py": 'DEFAULT = Decimal("0.08")'}


def _session() -> Iterable[Message]:
    yield _question("fees.py", 3)
    yield _fix("fees.py", "0.05", "0.06")
    yield _question("taxes.py", 4)
    yield _fix("taxes.py", "0.05", "0.07")
    yield _TALK
    yield _question("fees.py", 5)
    yield _fix("fees.py", "0.06", "0.08")
    yield _question("taxes.py", 6)


STORIES: Final = (
    Story("talk", (_TALK,)),
    Story("a question about a file", (_question("fees.py", 3),)),
    Story("a fix of one line", (_fix("fees.py", "0.05", "0.08"),), _RATE),
    Story("a fix with a test", (_tested_fix(),), {"tests/test_fees.py": "7.00"}),
    Story("work planned in four steps", (_planned(one_reply=True),), _WORK_WANTED),
    Story("the same plan, begun after the yes", (_planned(),), _WORK_WANTED),
    Story("the same plan, a step at a time", (_planned(one_by_one=True),), _WORK_WANTED),
    Story("the same work without a plan", (_unplanned(),), _WORK_WANTED),
    Story("a session of eight messages", tuple(_session()), _RATE),
)
