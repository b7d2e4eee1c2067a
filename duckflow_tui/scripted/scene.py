"""What a request tells of the conversation so far, read from its messages in either protocol."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final, cast

from duckflow_tui.llm.codec import DECIDE, OTHER
from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.conversation import BESIDE_THE_WORK

#: The rationale of every answer beside the work. By it a later request knows such an answer, and
#: the message it answers, from the conversation of the work itself.
BESIDE: Final = frozenset({"an answer beside the work", "作業の横で答える"})

#: The rationale of every decision inside a step of the plan.
OF_STEP: Final = frozenset({"What this step needs next", "このステップに次に要ること"})

_REPORTED: Final = "Report on step "
_READ_OF: Final = re.compile(r"\[([^:\n]+): lines 1-(\d+) of \2\]")  # the whole file
_RESULTS: Final = "Results of your actions:"
LABEL: Final = r"\w+|exit -?\d+"  # how a call ended
_RESULT: Final = re.compile(
    rf"(?:^|\n\n)\d+\. ([\w.]+) \[({LABEL})\] ?(.*?)(?=\n\n\d+\. [\w.]+ \[|\Z)", re.S
)
_LATE_RESULT: Final = re.compile(rf"Result of ([\w.]+): \[({LABEL})\] ?(.*)", re.S)
#: How the app gives back what stands behind the first action, where it takes one a decision.
_GIVEN_BACK: Final = "not run: execution.mode is adaptive"
_NATIVE_RESULT: Final = re.compile(rf"\[({LABEL})\] ?(.*)", re.S)
_ASIDE: Final = re.compile(r"^# (?:Going on now|進行中)$", re.M)

#: How the app's own words to the model begin; they come as the user's, and are not.
_APP: Final = r"\[(?:Written by the app|アプリが書いた)[^\]]*\]\s"
_OUTSIDE: Final = re.compile(_APP + "(?:Changed by someone else|読んだ後にほかの人が)")
_STOPPED: Final = re.compile(_APP + "(?:The user stopped the work here|ユーザーがここで作業を停止)")
_LACKS: Final = re.compile(r"^\[Written by the app.*?<missing>\n(.*?)\n</missing>", re.S)
_LACK: Final = re.compile(r"^- P[123] (.+)$", re.M)
_OTHER_WAY: Final = re.compile(rf"^{_APP}The user wants a completely different approach", re.M)
_PROGRESS: Final = re.compile(r"\d+ of \d+ steps are done;")
_FROM_THE_APP: Final = re.compile(
    rf"{_PROGRESS.pattern}|\[Written by the app|\[アプリが書いた|The user undid"
    "|The user ran this themselves|Report on step |The user had these files put back "
    "|The user took the conversation back |The user stopped the work"
    "|It was ended with task_loop|Step ['\"].*['\"] is in progress "
)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one call."""

    operation: str  # dotted
    outcome: str  # ok, error, rejected …
    text: str


@dataclass(slots=True)
class Scene:
    """The turn, or the step, as a model sees it: what was said last, and all that came of it."""

    request: str = ""  # what the turn began with
    said: str = ""  # the same, or what the user said in mid-work
    before: str = ""  # the request whose question it answers
    turn: list[Result] = field(default_factory=list[Result])  # since the turn began
    results: list[Result] = field(default_factory=list[Result])  # since the user spoke
    latest: list[Result] = field(default_factory=list[Result])  # since the last reply
    changed_outside: bool = False  # told since the last reply
    progress: str = ""  # what the app said of the plan's run since the last reply
    run: str = ""  # the same, of the newest run since the turn began
    stopped: bool = False  # the work on the plan, told since the last reply
    missing: tuple[str, ...] = ()  # what a review found missing, told since the last reply
    other_way: bool = False  # the user wants one, told since the last reply
    left: list[JsonObject] = field(default_factory=list[JsonObject])  # given back: to ask for alone
    judgement: JsonObject = field(default_factory=dict[str, Any])  # of the last reply

    def last(self, operation: str) -> Result | None:
        """The newest result of an operation since the user spoke."""
        return next((r for r in reversed(self.results) if r.operation == operation), None)


def step_of(body: JsonObject) -> Scene:
    """Read a request for the next action inside a step: what was done since the step began."""
    messages = _messages(body)
    return scene_of({**body, "messages": messages[_begin_of_step(messages) :]}, of_step=True)


def files_read(body: JsonObject) -> dict[str, str]:
    """Files that were read for the request in hand before the step began, and that nobody has
    changed since: path → the result of reading it.
    """
    messages = _messages(body)
    before = [*messages[: _begin_of_step(messages)], *messages[-1:]]
    found, tail = dict[str, str](), tail_of(body).splitlines()
    for result in scene_of({**body, "messages": before}, of_step=True).turn:
        for path in list(found):
            if f"changed {path} " in result.text:
                del found[path]
        if result.outcome == "ok" and (read := _READ_OF.match(result.text)):
            found[read[1]] = result.text
    return {path: text for path, text in found.items() if f"- {path}" not in tail}


def _begin_of_step(messages: list[JsonObject]) -> int:
    """The place of the first message of the step that is asked for."""
    begun = 0
    for place, message in enumerate(messages[:-1]):
        words = message.get("content")
        ends = isinstance(words, str) and words.startswith(_REPORTED)
        other = message.get("role") == "assistant" and not _is_of_step(message)
        beside = _judgement(message).get("rationale") in BESIDE
        if ends or (other and not beside):
            begun = place + 1
    while begun < len(messages) - 1 and messages[begun].get("role") != "assistant":
        if from_the_user(messages[begun]):
            break  # said in the step, before its first decision
        begun += 1
    return begun


def scene_of(
    body: JsonObject, about: re.Pattern[str] | None = None, *, of_step: bool = False
) -> Scene:
    """Read a request. Its last message is the volatile tail and says nothing of the story.

    What was said and answered beside the work is left out, but for the request that is such an
    answer itself. What was said beside it and has no answer yet redirects the work when it is
    ``about`` something the story knows; else it waits for its answer. Actions of one reply that
    were given back and asked for again, one by one, count as that one reply. What steps of a plan
    said and did is left out, but ``of_step``.
    """
    messages = _messages(body)[:-1]
    left_out = frozenset[int]() if is_aside(body) else _beside(messages, about)
    scene = Scene()
    asked: dict[str, JsonObject] = {}
    beside = set[str]()  # operations whose results answer somebody beside the work
    goes_on = in_step = False
    for place, message in enumerate(messages):
        text = message.get("content")
        words = text if isinstance(text, str) else ""
        if message.get("role") == "assistant":
            in_step = not of_step and _is_of_step(message)
        elif in_step and (from_the_app(words) or from_the_user(message)):
            in_step = False
        if in_step:
            continue
        match message.get("role"):
            case "assistant":
                asked = _asked(message)
                beside = {str(c.get("operation")) for c in asked.values()}
                if place not in left_out:
                    beside.clear()
                    scene.judgement = _judgement(message)
                    goes_on = scene.judgement.get("next_step") == "continue"
                    left = [action for action in scene.left if not _holds(asked, action)]
                    if len(left) == len(scene.left):
                        scene.latest, scene.changed_outside, scene.progress = [], False, ""
                        scene.missing, scene.other_way, left = (), False, []
                        scene.stopped = False
                    scene.left = left
            case _ if place in left_out:
                pass
            case "tool":
                call = asked.get(str(message.get("tool_call_id")), {})
                if found := _NATIVE_RESULT.fullmatch(words):
                    _add(scene, call, result_of(str(call.get("operation")), found[1], found[2]))
            case "user":
                goes_on = goes_on and not _STOPPED.match(words)
                _hear(scene, words, asked, beside, goes_on)
            case _:
                pass
    return scene


def tail_of(body: JsonObject) -> str:
    """The volatile tail: where things stand."""
    messages = _messages(body)
    text = messages[-1].get("content") if messages else ""
    return text if isinstance(text, str) else ""


def is_aside(body: JsonObject) -> bool:
    """Whether the request wants an answer beside running work."""
    return _ASIDE.search(tail_of(body)) is not None


def from_the_app(words: str) -> bool:
    """Whether a message with the user's role is the app's own."""
    return _FROM_THE_APP.match(words) is not None


def from_the_user(message: JsonObject) -> bool:
    """Whether a message is what the user said."""
    words = message.get("content")
    if message.get("role") != "user" or not isinstance(words, str):
        return False
    return not (words.startswith((_RESULTS, "Result of ")) or from_the_app(words))


def _is_of_step(message: JsonObject) -> bool:
    return _judgement(message).get("rationale") in OF_STEP


def _hear(
    scene: Scene, words: str, asked: dict[str, JsonObject], beside: set[str], goes_on: bool
) -> None:
    if words.startswith(_RESULTS):
        found = _RESULT.finditer(words.removeprefix(_RESULTS))
        for number, match in enumerate(found, start=1):
            call = asked.get(str(number), {})
            if match[1] not in beside:
                _add(scene, call, result_of(match[1], match[2], match[3]))
    elif late := _LATE_RESULT.fullmatch(words):
        if late[1] not in beside:
            _add(scene, {}, result_of(late[1], late[2], late[3]))
    elif from_the_app(words):
        scene.changed_outside = scene.changed_outside or _OUTSIDE.match(words) is not None
        scene.stopped = scene.stopped or words.startswith("It was ended with task_loop")
        if _PROGRESS.match(words):
            scene.progress = scene.run = words
        if found := _LACKS.search(words):
            scene.missing = tuple(_LACK.findall(found[1]))
        scene.other_way = scene.other_way or _OTHER_WAY.match(words) is not None
    else:
        scene.said = words.removeprefix(BESIDE_THE_WORK).lstrip()
        if not goes_on:
            waits = scene.judgement.get("next_step") == "pending_user"
            scene.before = (scene.before or scene.request) if waits else ""
            scene.request, scene.turn, scene.run = scene.said, [], ""
        scene.results, scene.latest, scene.progress, scene.left = [], [], "", []


def result_of(operation: str, label: str, text: str) -> Result:
    """A result as it was told; a command that ran is ok here, whatever its exit code."""
    return Result(operation, "ok" if label.startswith("exit") else label, text)


def _add(scene: Scene, call: JsonObject, result: Result) -> None:
    if call and result.outcome == "skipped" and result.text.startswith(_GIVEN_BACK):
        scene.left.append(call)
        return
    for results in (scene.turn, scene.results, scene.latest):
        results.append(result)


def _holds(asked: dict[str, JsonObject], action: JsonObject) -> bool:
    """Whether a reply asks for an action that was given back, in whatever words."""
    same = ("operation", "args")
    return any(all(call[key] == action[key] for key in same) for call in asked.values())


# --- what is beside the work -------------------------------------------------------------------


def _beside(messages: list[JsonObject], about: re.Pattern[str] | None) -> frozenset[int]:
    """Places of messages that were said, answered and found out beside the work."""
    out: set[int] = set()
    open_words: list[int] = []  # not answered yet
    goes_on = beside = False
    for place, message in enumerate(messages):
        text = message.get("content")
        words = text if isinstance(text, str) else ""
        match message.get("role"):
            case "assistant":
                judgement = _judgement(message)
                beside = judgement.get("rationale") in BESIDE
                if beside:
                    out.add(place)
                    out.update(open_words[-1:])
                    del open_words[-1:]
                else:
                    # What it asked for runs yet, also where it ends what it is part of.
                    goes_on = judgement.get("next_step") == "continue" or bool(_asked(message))
            case "user" if not (words.startswith((_RESULTS, "Result of ")) or from_the_app(words)):
                if goes_on and words.startswith(BESIDE_THE_WORK):
                    open_words.append(place)
                elif open_words:
                    open_words.clear()
            case "user" if _STOPPED.match(words):
                goes_on = False
            case "tool" if beside:
                out.add(place)
            case _:
                pass
    for place in open_words:
        if about is None or not about.search(str(messages[place].get("content"))):
            out.add(place)
    return frozenset(out)


def _judgement(message: JsonObject) -> JsonObject:
    """The fields of a reply's decision in either protocol; empty where it holds none."""
    content = message.get("content")
    sources = [content if isinstance(content, str) else ""]
    for call in cast("list[JsonObject]", message.get("tool_calls") or []):
        function = cast("JsonObject", call.get("function") or {})
        if function.get("name") == DECIDE:
            sources.insert(0, str(function.get("arguments", "")))
    for source in sources:
        try:
            value: object = json.loads(source)
        except ValueError:
            continue
        if isinstance(value, dict):
            return cast("JsonObject", value)
    return {}


def _asked(message: JsonObject) -> dict[str, JsonObject]:
    """The actions of a reply by the id of their native call, else by their number, from 1 on."""
    judgement = _judgement(message)
    actions = cast("list[JsonObject]", judgement.get("actions") or [])
    asked = {str(number): action for number, action in enumerate(actions, start=1)}
    words = iter(cast("list[JsonObject]", judgement.get("calls") or []))
    for call in cast("list[JsonObject]", message.get("tool_calls") or []):
        function = cast("JsonObject", call.get("function") or {})
        if function.get("name") == DECIDE:
            continue
        name = str(function.get("name", "")).replace("__", ".")
        args = json.loads(str(function.get("arguments") or "{}"))
        if name == OTHER:
            name, args = args["name"], json.loads(args["args"])
        about = next(words, dict[str, Any]())
        asked[str(call.get("id"))] = {**about, "operation": name, "args": args}
    return asked


def _messages(body: JsonObject) -> list[JsonObject]:
    value: Any = body.get("messages")
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("JsonObject", item) for item in items if isinstance(item, dict)]
