"""Ten requests to a model, what the project must be afterwards, and a script that plays one."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.decisions import action, decision, ends, goes_on

from duckflow_tui.scripted.endpoint import Author, Request
from duckflow_tui.scripted.player import StoryPlayer
from duckflow_tui.scripted.replies import Reply
from duckflow_tui.scripted.stage import suite_command
from duckflow_tui.scripted.stories import list_requests

Files = dict[str, str]  # path → digest of its content

_LITTER: Final = ("__pycache__", ".pytest_cache")
_WHY: Final = {"intent": "do what was asked for", "why": "the request needs it"}
_WANTED: Final = re.compile(r"Score every requirement of these: ([^.\n]+)")
_MISSING_FILE: Final = "notes/todo.md"


@dataclass(frozen=True, slots=True)
class After:
    """What there is once a request is over."""

    workspace: Path
    before: Files
    reply: str

    @property
    def untouched(self) -> bool:
        """Whether every file is as it was."""
        return files_of(self.workspace) == self.before

    @property
    def green(self) -> bool:
        """Whether the project's tests pass."""
        command = [sys.executable, "-m", "unittest", "-q"]
        ran = subprocess.run(command, cwd=self.workspace, capture_output=True, timeout=60)
        return ran.returncode == 0

    def says(self, path: str, pattern: str) -> bool:
        """Whether a file is there and holds this, whatever the case."""
        file = self.workspace / path
        return file.is_file() and bool(re.search(pattern, file.read_text("utf-8"), re.I))


@dataclass(frozen=True, slots=True)
class Case:
    """One request. ``advice`` is what the user knows when the work is stuck; ``replies`` are the
    decisions of a scripted model, one after each result, without which the demo's story plays it.
    """

    name: str
    text: str
    as_wanted: Callable[[After], bool]
    advice: str = "Take what the project shows, and say what you could not find out."
    replies: tuple[dict[str, Any], ...] = ()


def files_of(workspace: Path) -> Files:
    """The files of a project, without what running its tests leaves."""
    return {
        str(path.relative_to(workspace)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(workspace.rglob("*"))
        if path.is_file() and not any(part in _LITTER for part in path.parts)
    }


def author(command: str = "") -> Author:
    """Writes the replies of a scripted model to all ten."""
    story = StoryPlayer(Path(), command or suite_command(), "en", fast=True)

    def reply(request: Request) -> Reply | None:
        case = next((c for c in CASES if c.replies and c.text in request.text), None)
        if request.purpose == "satisfaction":
            judged = _all_met(request.text)
            if _REQUESTS["savings"] in request.text and "`savings` tells" not in request.text:
                judged["overall_score"], judged["requirement_scores"]["r3"] = 0.7, 0.0
            return Reply(data=judged)
        if case is not None and request.purpose == "main":
            return Reply(decision=_next(case, request))
        return story.reply(request)

    return reply


def _next(case: Case, request: Request) -> dict[str, Any]:
    """The decision that is due: as many were made as replies stand behind the request."""
    messages: list[dict[str, Any]] = request.json["messages"]
    begun = max(n for n, message in enumerate(messages) if _is(case, message))
    made = sum(message["role"] == "assistant" for message in messages[begun:])
    return case.replies[min(made, len(case.replies) - 1)]


def _is(case: Case, message: dict[str, Any]) -> bool:
    return message["role"] == "user" and message.get("content") == case.text


def _all_met(text: str) -> dict[str, Any]:
    found = _WANTED.search(text)
    wanted = [key.strip() for key in found[1].split(",")] if found else []
    said = text.partition("<reply>\n")[2].partition("\n")[0]
    return {
        "overall_score": 1.0,
        "requirement_scores": dict.fromkeys(wanted, 1.0),
        "evidence": {key: [f"reply: {said}"] for key in wanted},
        "missing_aspects": [],
        "grade": "good",
        "quality_assessment": "What was asked for is there.",
        "suggestions": [],
        "verdict": "approve",
        "completion_recommendation": True,
    }


# --- the scripted model's decisions --------------------------------------------------------------


def _says(words: str, course: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return decision("Do what was asked for", "the request", words, {**course, **fields})


def _wants(what: str, **check: str) -> dict[str, Any]:
    return {"requirement": what, "priority": 1, "check": check or {"kind": "judgement"}}


def _read(path: str) -> dict[str, Any]:
    return action("file_ops.read_file", {"path": path}, _WHY)


def _write(path: str, content: str) -> dict[str, Any]:
    return action("file_ops.write_file", {"path": path, "content": content}, _WHY)


def _acts(*actions: dict[str, Any]) -> dict[str, Any]:
    return goes_on("EXECUTION", 0.8, *actions)


_EXPLAINED: Final = (
    "`receipt.py` takes two functions from `pricing.py`: `total` applies an item's discounts, and "
    "`to_cents` rounds what is left before it is shown and added up."
)

_REQUESTS: Final = list_requests("en")

CASES: Final = (
    Case("small talk", "Good morning, duck!", lambda after: after.untouched),
    Case(
        "simple question",
        "What does the HTTP status 404 mean?",
        lambda after: after.untouched and "not found" in after.reply.lower(),
        replies=(
            _says(
                "Not Found: the server has nothing at that address.",
                ends("PLANNING"),
                task_profile="SIMPLE_QUESTION",
            ),
        ),
    ),
    Case(
        "read-only analysis",
        "Explain how src/shop/receipt.py uses src/shop/pricing.py. Change nothing.",
        lambda after: after.untouched and "to_cents" in after.reply,
        replies=(
            _says(
                "I read both.",
                _acts(_read("src/shop/receipt.py"), _read("src/shop/pricing.py")),
                task_profile="CODE_ANALYSIS",
                requirements=[_wants("Say what receipt.py takes from pricing.py, and what for")],
            ),
            _says(_EXPLAINED, ends()),
        ),
    ),
    Case(
        "two operations",
        "Write docs/discounts.md, one sentence on discounts, and docs/index.md that links to it.",
        lambda after: (
            after.says("docs/discounts.md", "discount")
            and after.says("docs/index.md", r"discounts\.md")
        ),
        replies=(
            _says(
                "I write both.",
                _acts(
                    _write("docs/discounts.md", "Discounts apply one after the other.\n"),
                    _write("docs/index.md", "- [Discounts](discounts.md)\n"),
                ),
                task_profile="FILE_OPERATION",
                requirements=[
                    _wants("The page is there", kind="file_exists", value="docs/discounts.md"),
                    _wants(
                        "The index links to it",
                        kind="file_contains",
                        value="docs/index.md: discounts.md",
                    ),
                ],
            ),
            _says("Both are there.", ends()),
        ),
    ),
    Case("edit with a check", _REQUESTS["bug"], lambda after: after.green),
    Case(
        "requirement missed, then met",
        _REQUESTS["savings"],
        lambda after: (
            after.says("src/shop/pricing.py", r"def savings\(") and after.says("README.md", "sav")
        ),
    ),
    Case(
        "stuck, then told",
        _REQUESTS["tax"],
        lambda after: after.says("src/shop/pricing.py", r"TAX_RATE\b.*0?\.08\b"),
        advice="It is 8 %.",
    ),
    Case(
        "plan",
        _REQUESTS["plan"],
        lambda after: (
            after.says("src/shop/pricing.py", "loyal")
            and after.says("README.md", "regular customers|loyal")
            and after.says("src/shop/receipt.py", "loyal")
        ),
    ),
    Case(
        "failing tool",
        f"Read {_MISSING_FILE} and tell me its first entry; say so if there is none.",
        lambda after: after.untouched,
        replies=(
            _says(
                "I read it.",
                _acts(_read(_MISSING_FILE)),
                task_profile="FILE_OPERATION",
                requirements=[_wants("Say what the first entry is, or that there is none")],
            ),
            _says(f"There is no {_MISSING_FILE}, so there is no first entry.", ends()),
        ),
    ),
    Case("in Japanese", list_requests("ja")["bug"], lambda after: after.green),
)
