"""The demo's judge: what it says of requirements, and of the attempt that follows.

It scores by what the request shows, as a judge would: the app's checks, the last run of the tests,
the files that were read, and what the worker told the user. It knows the demo's stories and says
so of anything else.
"""

from __future__ import annotations

import re
from typing import Any, Final

from duckflow_tui.demo.loyalty import SMALL, STEP_WORDS, drops
from duckflow_tui.demo.savings import ABOUT as SAVINGS
from duckflow_tui.demo.tax import ABOUT as TAX
from duckflow_tui.demo.wording import filled, language_of, texts
from duckflow_tui.state.base import JsonObject

_WANTED: Final = re.compile(
    r"(?:Score every requirement of these|次の要求のすべてに点を付ける): ([^.。\n]+)"
)
_ITEM: Final = re.compile(r"^- (r\d+) P([123]) (.+)$", re.M)
_JUDGED: Final = re.compile(r"^- (r\d+) P([123]) (open|met|partly|refuted|waived) \d+% (.+)$", re.M)
_CHECK: Final = re.compile(r" \((?:command|file_exists|file_contains): .*\)$")
_SAID: Final = re.compile(r"^- said: (.+)$", re.M)
_MISSING: Final = re.compile(r"^- P[123] (.+)$", re.M)
_CHECKED: Final = re.compile(r"^- (r\d+) .+ — (met|refuted|unchecked): ", re.M)
_READ: Final = re.compile(r'^(\d+)\. file_ops\.read_file\(path: "([^"]+)"', re.M)
_ENTRY: Final = re.compile(r"^(\d+)\. ([\w.]+)\(.*?\) -> \[([^\]]+)\] ?(.*)", re.M)
_WELL: Final = ("ok", "exit 0")
_TOLD: Final = re.compile(r"\badd(?:s|ed)\b|one after the other|足し|順に")
_WEIGHTS: Final = {"1": 3, "2": 2, "3": 1}

PURPOSES: Final = frozenset(
    {"requirements", "satisfaction", "missing", "continuation", "failure", "digest"}
)


def judge(purpose: str, text: str) -> JsonObject:
    """The reply to one of ``PURPOSES``; ``text`` is the whole request."""
    asked = _frame("request", text)
    words: dict[str, Any] = texts("judge", language_of(asked))
    way = words["ways"]["bring" if SAVINGS.search(asked) else "ask"]
    match purpose:
        case "requirements":
            return _requirements(asked, text)
        case "satisfaction":
            return _satisfaction(text, words)
        case "missing":
            return _missing(text, words, way)
        case "continuation":
            return _continuation(text, way)
        case "failure":
            why = words["failures"]["tax" if TAX.search(asked) else "any"]
            return {"cause": why["cause"], "fix": why["fix"], "retryable": False}
        case _:
            return {"digest": " ".join(_frame("text", text).split())[:400] or words["nothing"]}


def _requirements(asked: str, text: str) -> JsonObject:
    """The request as it stands: a script splits nothing off a text it does not know. Of what the
    user said and did since, it knows what takes the receipt or the README out of the plan, and what
    drops a part that a review found open.
    """
    if since := _frame("changes", text):
        plan = texts("plan", language_of(asked))
        listed = _JUDGED.findall(_frame("requirements", text))
        ids = {_CHECK.sub("", said): key for key, _, _, said in listed}
        small = "plan_tool.propose" in since and SMALL.search(since) is not None
        dropped: dict[str, str] = {}
        words = since.partition(": ")[2].partition("\n")[0]
        for name, wanted in zip(("receipt", "readme"), plan["requirements"][1:], strict=True):
            out = small or f"drop the step {plan['steps'][name]['name']!r}" in since
            if out and wanted in ids:
                dropped[ids[wanted]] = words
        for said in filter(drops, _SAID.findall(since)):
            about = [of_step for of_step in STEP_WORDS.values() if of_step.search(said)]
            for key, _, state, wanted in listed:  # what a review found open, and was asked about
                named = any(of_step.search(wanted) for of_step in about) or not about
                if named and state in ("partly", "refuted"):
                    dropped[key] = said
        return {"requirements": [], "dropped": dropped, "again": []}
    check = {"kind": "judgement", "value": ""}
    words = " ".join(asked.split())[:200]
    return {"requirements": [{"requirement": words, "priority": 1, "check": check}]}


def _satisfaction(text: str, words: dict[str, Any]) -> JsonObject:
    wanted = [key.strip() for key in (_first(_WANTED, text) or "").split(",")]
    items = {key: (priority, said) for key, priority, said in _ITEM.findall(text)}
    why = texts("", language_of(_frame("request", text)))["requirements"][0]
    scores: dict[str, float] = {}
    evidence: dict[str, list[str]] = {}
    for key in wanted:
        if key not in items:
            continue
        known = items[key][1].partition(" — ")[0] == why
        scores[key], evidence[key] = _explained(text, words) if known else _answered(text)
    levels = {key: float(found == "met") for key, found in _CHECKED.findall(text)} | scores
    total = sum(_WEIGHTS[items[key][0]] for key in levels) or 1
    overall = sum(_WEIGHTS[items[key][0]] * level for key, level in levels.items()) / total
    good = overall >= 0.8
    return {
        "overall_score": round(overall, 2),
        "requirement_scores": scores,
        "evidence": evidence,
        "missing_aspects": [items[key][1] for key, level in levels.items() if level < 0.8],
        "grade": "good" if good else "needs_work",
        "quality_assessment": words["good" if good else "needs_work"],
        "suggestions": [],
        "verdict": "approve" if good else "fix",
        "completion_recommendation": good,
    }


def _explained(text: str, words: dict[str, Any]) -> tuple[float, list[str]]:
    """Whether the cause was told, and rests on a file that was read."""
    read = _READ.search(_frame("log", text))
    said = next((line for line in _frame("reply", text).split("\n") if _TOLD.search(line)), "")
    if not said:
        return 0.2, []
    told = filled(words["told"], quote=said.strip())
    if read is None:
        return 0.5, [told]
    return 1.0, [told, filled(words["read"], number=read[1], path=read[2])]


def _answered(text: str) -> tuple[float, list[str]]:
    """Whether there is an answer that rests on results, none of which went wrong."""
    entries = _ENTRY.findall(_frame("log", text))
    if not entries or not _frame("reply", text) or any(e[2] not in _WELL for e in entries):
        return 0.2, []
    last = entries[-1:]
    return 1.0, [f"{number}: {result[:60] or operation}" for number, operation, _, result in last]


def _missing(text: str, words: dict[str, Any], way: dict[str, str]) -> JsonObject:
    lacks = [
        {"what": _CHECK.sub("", said.partition(" — ")[0]), "priority": int(priority)}
        for _, priority, state, said in _JUDGED.findall(_frame("requirements", text))
        if state != "met"
    ]
    return {
        "missing": lacks or [{"what": words["unknown"], "priority": 1}],
        "constraints": [],
        "suggested_improvements": [],
        "alternative_strategies": [way["strategy"]],
    }


def _continuation(text: str, way: dict[str, str]) -> JsonObject:
    lacks = _MISSING.findall(_frame("missing", text))
    step: JsonObject = {
        "id": "s1",
        "name": way["step"],
        "description": "; ".join(lacks),
        "depends_on": [],
    }
    return {
        "name": way["step"],
        "goal": "; ".join(lacks),
        "steps": [step],
        "risk": "low",
        "success_criteria": lacks,
        "strategy": way["strategy"],
    }


def _frame(tag: str, text: str) -> str:
    found = re.search(rf"<{tag}>\n(.*?)\n</{tag}>", text, re.S)
    return found[1] if found else ""


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""
