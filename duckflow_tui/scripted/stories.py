"""The recorded stories of the demo: their form, and how they are read from ``stories/*.toml``.

A file holds a story in both languages: a table ``{en = …, ja = …}`` stands for the text of one.
"""

from __future__ import annotations

import re
import tomllib
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeGuard, cast
from unicodedata import normalize

from pydantic import Field

from duckflow_tui.state.base import Frozen, JsonObject

Language = Literal["en", "ja"]

LANGUAGES: Final[tuple[Language, ...]] = ("en", "ja")
#: Stories that the start screen offers, in its order.
OFFERED: Final = ("bug", "plan", "savings", "tax")
_ALL: Final = (*OFFERED, "sum", "time", "weather", "products")
_ENDS: Final = ".?!。？！"  # signs that may end a request
_FOLDER: Final = Path(__file__).with_name("stories")


class StoryCall(Frozen):
    """An operation that a recorded reply calls. ``{command}`` in an argument stands for the command
    that runs the story's tests.
    """

    operation: str
    args: JsonObject = Field(default_factory=dict)
    intent: str
    reason: str
    alternatives: tuple[str, ...] = ()


class StoryReply(Frozen):
    """A recorded reply. In ``says``, ``{result}`` stands for the end of the newest result, and
    ``{next}`` for the request of the story that comes next.
    """

    thinks: str = ""
    says: str = ""
    calls: tuple[StoryCall, ...] = ()
    phase: str = "EXECUTION"
    confidence: float = 0.85
    profile: str = ""
    unless_begun: bool = False  # left out once a step of the plan has begun
    next_step: str = ""  # empty: ``continue`` with calls, ``done`` without
    question: str = ""
    after: dict[str, tuple[StoryReply, ...]] = Field(default_factory=dict)
    """Replies by the outcome of a call (``rejected``, ``alternative:1`` …), instead of the rest."""


class Requirement(Frozen):
    """A requirement of a story's request."""

    text: str
    priority: Literal[1, 2, 3] = 1
    check: JsonObject
    evidence: str
    """What the judge names as evidence: the path of a file, or words of a reply."""
    holds: tuple[str, ...] = ()
    """Parts of the file ``evidence``; with none of them the judge scores 0. Empty: scores 1."""
    step: str = ""
    """Id of the step that it falls away with; empty for none."""


class StoryStep(Frozen):
    """A step of a story's plan, and the replies while it runs."""

    id: str
    name: str
    description: str
    depends_on: tuple[str, ...] = ()
    main: tuple[StoryReply, ...]


class StoryAside(Frozen):
    """The answer to words that the user says while the work runs."""

    said: str
    answer: StoryReply


class Story(Frozen):
    """One story in one language."""

    language: Language
    request: str
    goal: str
    why_now: str = ""
    next: str = ""  # name of the story that comes next
    tests: str = ""  # modules of the project's tests that belong to it; empty for all
    plan_name: str = ""
    criteria: tuple[str, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    main: tuple[StoryReply, ...]
    steps: tuple[StoryStep, ...] = ()
    asides: tuple[StoryAside, ...] = ()
    rated: tuple[StoryReply, ...] = ()
    """Replies in place of the rest once the user names a rate, which ``{rate}`` stands for."""


class Lines(Frozen):
    """Replies to what no story has recorded."""

    free: StoryReply  # words that begin no story
    beside: StoryReply  # the same while work runs
    spent: StoryReply  # the recording has ended, and the work has not
    step: StoryReply  # a step that no story has
    rejected: StoryReply
    denied: StoryReply
    failed: StoryReply  # a call that did not fit the project as it is
    judged_good: str
    judged_bad: str
    failure: str
    report: str


def list_requests(language: str) -> dict[str, str]:
    """The requests of the stories that the start screen offers, by name."""
    return {name: load_story(name, choose_language(language)).request for name in OFFERED}


def choose_language(language: str) -> Language:
    """The language of the recordings for a language of the screen."""
    return "ja" if language == "ja" else "en"


@cache
def load_story(name: str, language: Language) -> Story:
    """Return a story in one language. Cached; raises OSError for an unknown name."""
    return Story.model_validate({"language": language, **_read_file(name, language)})


@cache
def load_lines(language: Language) -> Lines:
    """Return the replies that belong to no story. Cached."""
    return Lines.model_validate(_read_file("lines", language))


@cache
def find_story(said: str) -> Story | None:
    """Return the story whose whole request equals ``said``, ignoring case, spaces and the sign at
    the end, in either language; None where there is none.
    """
    stories = (load_story(name, language) for name in _ALL for language in LANGUAGES)
    return next((story for story in stories if is_same(story.request, said)), None)


def read_rate(said: str) -> str:
    """The tax rate in the user's words, ``0.075`` for ``7.5 %`` or ``0.075``; empty for none."""
    percent = re.search(r"(\d+(?:\.\d+)?)\s*(?:%|percent|パーセント)", normalize("NFKC", said))
    if percent is not None:
        return format(Decimal(percent[1]) / 100, "f")
    share = re.search(r"\b0\.\d+\b", said)
    return share[0] if share is not None else ""


def is_same(text: str, other: str) -> bool:
    """Whether two messages are the same but for case, spaces and the sign at the end."""
    plain, others = (" ".join(each.split()).casefold().rstrip(_ENDS) for each in (text, other))
    return plain == others


def _read_file(name: str, language: Language) -> dict[str, object]:
    """Return the table of a recording's file in one language."""
    return cast(
        "dict[str, object]",
        _localize(tomllib.loads((_FOLDER / f"{name}.toml").read_text("utf-8")), language),
    )


def _localize(value: object, language: Language) -> object:
    """Return a value with each table of both languages replaced by the text of this one."""
    if isinstance(value, list):
        return [_localize(each, language) for each in cast("list[object]", value)]
    if not _is_table(value):
        return value
    if value.keys() == set(LANGUAGES):
        return value[language]
    return {key: _localize(each, language) for key, each in value.items()}


def _is_table(value: object) -> TypeGuard[dict[str, object]]:
    """Whether the value is a table."""
    return isinstance(value, dict)
