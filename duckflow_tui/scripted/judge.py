"""The demo's judge: what it says of requirements, and of the attempt that follows.

It scores by what the request shows, as a judge would: the app's checks, the last run of the tests,
the files that were read, and what the worker told the user. It knows the demo's stories and says
so of anything else.
"""

from __future__ import annotations

import re
from typing import Any, Final

from duckflow_tui.scripted.loyalty import SMALL, STEP_WORDS, drops
from duckflow_tui.scripted.savings import ABOUT as SAVINGS
from duckflow_tui.scripted.tax import ABOUT as TAX
from duckflow_tui.scripted.wording import language_of, texts
from duckflow_tui.state.base import JsonObject

_WANTED: Final = re.compile(
    r"(?:Score every requirement of these|次の要件のすべてに点を付ける): ([^.。\n]+)"
)
_ITEM: Final = re.compile(r"^- (r\d+) P([123]) (.+)$", re.M)
_JUDGED: Final = re.compile(r"^- (r\d+) P([123]) (open|met|partly|refuted|waived) \d+% (.+)$", re.M)
_CHECK: Final = re.compile(r" \((?:command|file_exists|file_contains): .*\)$")
_SAID: Final = re.compile(r"^- said: (.+)$", re.M)
_MISSING: Final = re.compile(r"^- P[123] (.+)$", re.M)
_CHECKED: Final = re.compile(r"^(K\d+) .+? check of (r\d+), (met|refuted|unchecked): ", re.M)
_READ: Final = re.compile(r'^(S\d+) file_ops\.read_file\(path: "([^"]+)"', re.M)
_RAN: Final = re.compile(r"^(R\d+) .+ -> (exit \d+|\w+)", re.M)
_SHOWS: Final = re.compile(r"^([CRSK]\d+) ", re.M)
_SAYS: Final = re.compile(r"^(P\d+) .*\n((?:    .*\n?)+)", re.M)
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
    facts = _frame("facts", text)
    checked = {key: (name, outcome) for name, key, outcome in _CHECKED.findall(facts)}
    for key in filter(items.__contains__, wanted):
        name, outcome = checked.get(key, ("", "unchecked"))
        if outcome != "unchecked":
            scores[key], evidence[key] = float(outcome == "met"), [name]
        elif items[key][1] == why:
            scores[key], evidence[key] = _explained(facts)
        else:
            scores[key], evidence[key] = _answered(facts)
    total = sum(_WEIGHTS[items[key][0]] for key in scores) or 1
    overall = sum(_WEIGHTS[items[key][0]] * level for key, level in scores.items()) / total
    good = overall >= 0.8
    said = words["good" if good else "needs_work"]
    red = [name for name, end in _RAN.findall(facts) if end not in _WELL]
    if good and red:
        said += words["red"].format(runs=", ".join(red))
    return {
        "overall_score": round(overall, 2),
        "requirement_scores": scores,
        "evidence": evidence,
        "missing_aspects": [items[key][1] for key, level in scores.items() if level < 0.8],
        "grade": "good" if good else "needs_work",
        "quality_assessment": said,
        "suggestions": [],
        "verdict": "approve" if good else "fix",
        "completion_recommendation": good,
    }


def _explained(facts: str) -> tuple[float, list[str]]:
    """Whether the cause was told, and rests on a file that was read."""
    said = next((name for name, words in _SAYS.findall(facts) if _TOLD.search(words)), "")
    if not said:
        return 0.2, []
    read = _READ.search(facts)
    return (0.5, [said]) if read is None else (1.0, [said, read[1]])


def _answered(facts: str) -> tuple[float, list[str]]:
    """Whether there is an answer that rests on results, none of which went wrong."""
    shown, said = _SHOWS.findall(facts), _SAYS.findall(facts)
    if not (shown and said) or any(end not in _WELL for _, end in _RAN.findall(facts)):
        return 0.2, []
    return 1.0, [shown[-1], said[-1][0]]


def _missing(text: str, words: dict[str, Any], way: dict[str, str]) -> JsonObject:
    lacks = [
        {"what": _CHECK.sub("", said), "priority": int(priority)}
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
