"""The story of a model that is stuck: it searches for a tax rate that is written nowhere, again
and again, until the user is asked. A figure from the user, or another approach, leads on.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from typing import Any, Final

from duckflow_tui.scripted.project import (
    CODE,
    TESTS,
    TWO_DISCOUNTS,
    tax_edits,
    tax_held,
    tax_tested,
)
from duckflow_tui.scripted.scene import Result, Scene
from duckflow_tui.scripted.suite import RUN, last_run, run_tests
from duckflow_tui.scripted.wording import filled
from duckflow_tui.scripted.writing import action, asks, decision, ends, goes_on
from duckflow_tui.state.base import JsonObject

_READ: Final = "file_ops.read_file"
_EDIT: Final = "file_ops.edit_file"
_SEARCH: Final = "file_ops.search_text"
_PATTERN: Final = "tax rate"
_STUCK: Final = 4  # times of the same search after which the user is asked

ABOUT: Final = re.compile(r"\btax\b.*\brate\b|TAX_RATE|税率", re.I | re.S)
_PERCENT: Final = re.compile(r"(\d{1,2}(?:[.,]\d{1,3})?) ?(?:%|per ?cent\b|パーセント)", re.I)
_SHARE: Final = re.compile(r"(?<![\d.])0?\.\d{1,4}(?![\d.])")
_RATE_ALONE: Final = 24  # characters of a message that names a rate and nothing else


def rate_of(said: str) -> str:
    """The rate that a message names, as a share such as ``0.08``; empty for none."""
    text = unicodedata.normalize("NFKC", said)
    if found := _PERCENT.search(text):
        return f"{(Decimal(found[1].replace(',', '.')) / 100).normalize():f}"
    return f"{Decimal(found[0]).normalize():f}" if (found := _SHARE.search(text)) else ""


def is_rate(said: str) -> bool:
    """Whether a message is a rate, as the answer to the question for one."""
    return len(said) <= _RATE_ALONE and bool(rate_of(said))


class TaxWriter:
    """Writes one decision. ``command`` runs the project's tests."""

    def __init__(self, scene: Scene, words: dict[str, Any], command: str, fix: str) -> None:
        self._scene = scene
        self._words = words
        self._command = command
        self._fix = fix  # the request that the demo begins with
        self._told = rate_of(scene.said)

    def write(self) -> tuple[str, JsonObject]:
        """What the model thinks first, and the decision."""
        beat = self._beat()
        texts = self._words[beat]
        says = self._filled(str(texts["says"]))
        made = decision(texts["rationale"], self._words["goal"], says, self._course(beat))
        return str(texts.get("thinks", "")), made

    # --- which beat comes next ---------------------------------------------------------------

    def _beat(self) -> str:
        scene = self._scene
        if scene.missing:
            return "still_open"
        if scene.other_way:
            return "other_way"
        if scene.latest and (beat := self._after(scene.latest[-1])):
            return beat
        code = self._read_text(CODE)
        if self._told and code:
            return "already" if tax_held(code) else "edit_told"
        if self._told:
            return "look_told"
        if scene.said != scene.request and not scene.results:
            return "ask"
        if tax_held(code):
            return "already"
        times = sum(result.operation == _SEARCH for result in scene.turn)
        return "search" if not times else "search_again" if times < _STUCK else "keep_going"

    def _after(self, last: Result) -> str:
        """What follows from the newest result; empty where that is not the point."""
        match last.operation, last.outcome:
            case (_, "denied"):
                return "denied" if last.operation == _EDIT else "done"
            case (_, "rejected" | "declined"):
                return "refused"
            case (operation, outcome) if outcome != "ok":
                return "done" if operation == RUN else "gave_up"
            case (operation, _) if operation == _EDIT:
                return "run"
            case (operation, _) if operation == RUN:
                return "done" if self._told else "done_found"
            case _ if last.text.startswith(f"[{TESTS}:"):
                return "edit_found" if tax_tested(last.text) else "ask"
            case _:
                return ""

    def _read_text(self, path: str) -> str:
        """What a file held when it was read last in this turn."""
        read = [r.text for r in self._scene.turn if r.text.startswith(f"[{path}:")]
        return read[-1] if read else ""

    # --- what a beat does --------------------------------------------------------------------

    def _course(self, beat: str) -> JsonObject:
        words = self._words
        match beat:
            case "search":
                return {**goes_on("EXECUTION", 0.7, self._read("code", CODE), self._search()),
                        **self._first()}  # fmt: skip
            case "look_told":
                return {**goes_on("EXECUTION", 0.8, self._read("code", CODE)), **self._first()}
            case "search_again" | "keep_going":
                return goes_on("EXECUTION", 0.6, self._search())
            case "other_way":
                return goes_on("EXECUTION", 0.8, self._read("tests", TESTS))
            case "edit_told" | "edit_found":
                args: JsonObject = {"path": CODE, "edits": tax_edits(self._rate())}
                call = action(_EDIT, args, words["changes"][beat])
                return goes_on("EXECUTION", 0.85, call)
            case "run":
                return goes_on("REVIEW", 0.85, run_tests(self._command, words["run_call"]))
            case "ask":
                return asks(words["ask"]["question"], words["ask"]["options"])
            case "refused" | "still_open":
                return asks(words[beat]["question"], [])
            case "done" | "done_found":
                return {**ends(), "confidence": 0.9}
            case _:
                return ends()

    def _first(self) -> JsonObject:
        check = {"kind": "file_contains", "value": f"{CODE}: TAX_RATE = Decimal("}
        wanted = {"requirement": self._words["requirement"], "priority": 1, "check": check}
        return {
            "task_profile": "FILE_OPERATION",
            "requirements": [wanted],
            "state_delta": {"goal": self._words["goal"], "why_now": self._words["why_now"]},
        }

    def _search(self) -> JsonObject:
        return action(_SEARCH, {"pattern": _PATTERN}, self._words["search_call"])

    def _read(self, why: str, path: str) -> JsonObject:
        return action(_READ, {"path": path}, self._words["reads"][why])

    def _rate(self) -> str:
        return self._told or tax_tested(self._read_text(TESTS))

    def _filled(self, text: str) -> str:
        ran = last_run(self._scene)
        rate = self._rate()
        kind = "as_before" if ran.failing == (TWO_DISCOUNTS,) else ran.kind
        return filled(
            text,
            tested=self._words["tested"][kind],
            command=self._command,
            run=ran.quote,
            fix=self._fix,
            rate=rate,
            percent=f"{(Decimal(rate) * 100).normalize():f} %" if rate else "",
            held=tax_held(self._read_text(CODE)),
            times=str(sum(r.operation == _SEARCH for r in self._scene.turn)),
            missing="\n".join(f"- {what}" for what in self._scene.missing),
        )
