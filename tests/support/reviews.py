"""Replies of the judge and of the others who are asked about an objective."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from support.session import action, decision, done, script

from duckflow_tui.scripted.endpoint import Request
from duckflow_tui.scripted.replies import Reply, Script

CHECK = "grep -q done notes.txt"  # a command that says whether the work is there


def claim(text: str, priority: int = 1, kind: str = "judgement", value: str = "") -> dict[str, Any]:
    """A requirement as a decision names it."""
    check = {"kind": kind, "value": value}
    return {"requirement": text, "priority": priority, "check": check}


NOTES = claim("the notes say done", kind="command", value=CHECK)
WORDS = claim("the answer says why")


def write(content: str, path: str = "notes.txt") -> dict[str, Any]:
    """A call that writes a file."""
    return action("file_ops.write_file", path=path, content=content)


def works(*requirements: dict[str, Any], content: str = "half\n", reply: str = "I write.") -> Reply:
    """The first decision of a task: its requirements, and a file that is written."""
    return decision(
        reply,
        write(content),
        task_profile="FILE_OPERATION",
        requirements=list(requirements),
        confidence=0.8,
    )


def judged(overall: float, scores: dict[str, float] | None = None, **fields: Any) -> Reply:
    """A judgement, with the reply as the fact behind each score; the rest can be given."""
    data: dict[str, Any] = {
        "overall_score": overall,
        "requirement_scores": {"r1": overall} if scores is None else scores,
        "evidence": {key: ["P1"] for key in scores or ("r1",)},
        "missing_aspects": [] if overall >= 0.8 else ["the reason"],
        "grade": "normal",
        "quality_assessment": "it reads well",
        "suggestions": ["say it in one line"],
        "verdict": "approve" if overall >= 0.8 else "fix",
        "completion_recommendation": overall >= 0.8,
    }
    return Reply(data={**data, **fields})


def believes(request: Request) -> Reply | None:
    """A judge who gives full marks to all, by what the worker told the user."""
    if request.purpose != "satisfaction":
        return None
    wanted = re.findall(r"r\d+", request.text.partition("of these: ")[2].partition("\n")[0])
    return judged(1.0, dict.fromkeys(wanted, 1.0))


def lacks(*what: str, **fields: Any) -> Reply:
    """What is missing."""
    data: dict[str, Any] = {
        "missing": [{"what": text, "priority": 1} for text in what],
        "constraints": ["the file is read by a script"],
        "suggested_improvements": ["shorter lines"],
        "alternative_strategies": ["write the whole file anew"],
    }
    return Reply(data={**data, **fields})


def next_plan(strategy: str = "write the missing word", **fields: Any) -> Reply:
    """The plan of a further attempt."""
    data: dict[str, Any] = {
        "name": "again",
        "goal": "the notes say done",
        "steps": [{"id": "s1", "name": "write", "description": "notes.txt", "depends_on": []}],
        "risk": "low",
        "success_criteria": ["the check is green"],
        "strategy": strategy,
    }
    return Reply(data={**data, **fields})


def diagnosis() -> Reply:
    """Why the work does not get further."""
    return Reply(data={"cause": "the word is never written", "fix": "write it", "retryable": True})


def found(*claims: dict[str, Any], dropped: Sequence[str] = (), again: Sequence[str] = ()) -> Reply:
    """The requirements of a request, the ids of those dropped and of those wanted again."""
    data = {"requirements": list(claims), "dropped": list(dropped), "again": list(again)}
    return Reply(data=data)


def thrice(*ends: Reply, overall: float = 0.4, **others: tuple[Reply, ...]) -> Script:
    """Three attempts of which none is enough, and what comes after them."""
    tries = (works(WORDS), done("One."), done("Two."), done("Three."))
    plans = tuple(next_plan(f"way {n}") for n in range(1, 6))
    levels = [round(overall - 0.1 * (2 - n), 2) for n in range(3)]  # each a little further
    return script(
        *tries,
        *ends,
        satisfaction=others.pop("satisfaction", tuple(map(judged, levels))),
        missing=tuple(lacks("the reason") for _ in range(6)),
        continuation=plans,
        **others,
    )
