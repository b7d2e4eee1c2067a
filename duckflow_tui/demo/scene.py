"""What a request tells of the conversation so far, read from its messages in either protocol."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, cast

from duckflow_tui.state.base import JsonObject

_RESULTS: Final = "Results of your actions:"
_RESULT: Final = re.compile(
    r"(?:^|\n\n)\d+\. ([\w.]+) \[(\w+)\] ?(.*?)(?=\n\n\d+\. [\w.]+ \[|\Z)", re.S
)
_LATE_RESULT: Final = re.compile(r"Result of ([\w.]+): \[(\w+)\] ?(.*)", re.S)
_NATIVE_RESULT: Final = re.compile(r"\[(\w+)\] ?(.*)", re.S)

#: How the app's own words to the model begin; they come as the user's, and are not.
_OUTSIDE: Final = "Changed outside since you read them:"
_FROM_THE_APP: Final = (
    _OUTSIDE,
    "Your last reply could not be used",
    "Your goal_consistency was no",
    "Your constraint_check was no",
    "You said continue but asked for no action",
    "The user stopped the work here",
    "The user undid",
)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one call."""

    operation: str  # dotted
    outcome: str  # ok, error, rejected …
    text: str


@dataclass(slots=True)
class Scene:
    """The turn as a model sees it: what the user said last, and all that came of it."""

    said: str = ""
    results: list[Result] = field(default_factory=list[Result])  # since the user spoke
    latest: list[Result] = field(default_factory=list[Result])  # since the last reply
    changed_outside: bool = False  # told since the last reply


def scene_of(body: JsonObject) -> Scene:
    """Read a request. Its last message is the volatile tail and says nothing of the story."""
    scene = Scene()
    names: dict[str, str] = {}
    for message in _messages(body)[:-1]:
        text = message.get("content")
        words = text if isinstance(text, str) else ""
        match message.get("role"):
            case "assistant":
                names = _calls(message)
                scene.latest, scene.changed_outside = [], False
            case "tool":
                operation = names.get(str(message.get("tool_call_id")), "")
                if found := _NATIVE_RESULT.fullmatch(words):
                    _add(scene, [Result(operation, found[1], found[2])])
            case "user":
                _hear(scene, words)
            case _:
                pass
    return scene


def _hear(scene: Scene, words: str) -> None:
    if words.startswith(_RESULTS):
        found = _RESULT.finditer(words.removeprefix(_RESULTS))
        _add(scene, (Result(match[1], match[2], match[3]) for match in found))
    elif late := _LATE_RESULT.fullmatch(words):
        _add(scene, [Result(late[1], late[2], late[3])])
    elif words.startswith(_FROM_THE_APP):
        scene.changed_outside = scene.changed_outside or words.startswith(_OUTSIDE)
    else:
        scene.said = words
        scene.results, scene.latest = [], []


def _add(scene: Scene, results: Iterable[Result]) -> None:
    found = list(results)
    scene.results.extend(found)
    scene.latest.extend(found)


def _calls(message: JsonObject) -> dict[str, str]:
    """The operations of a reply's native calls by the id of the call."""
    names: dict[str, str] = {}
    for call in cast("list[JsonObject]", message.get("tool_calls") or []):
        function = cast("JsonObject", call.get("function") or {})
        names[str(call.get("id"))] = str(function.get("name", "")).replace("__", ".")
    return names


def _messages(body: JsonObject) -> list[JsonObject]:
    value: Any = body.get("messages")
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("JsonObject", item) for item in items if isinstance(item, dict)]
