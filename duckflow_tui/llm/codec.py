"""Parts that both codecs share: requests, decoded replies, the decision's schema, and names on the
wire.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from duckflow_tui.llm.completion import Completion
from duckflow_tui.llm.decision_reading import DECIDE, OTHER, Reading
from duckflow_tui.llm.foreign_calls import STATEMENTS, bare_name, foreign_names
from duckflow_tui.llm.wire import wire_text
from duckflow_tui.state.base import (
    IdSource,
    JsonObject,
    ModelText,
    hash_data,
    plain_schema,
    schema_of,
)
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, Message, UserMessage
from duckflow_tui.state.decision import CHECKS, NEEDED, Action, Check, TurnDecision
from duckflow_tui.state.operations import OperationSpec
from duckflow_tui.state.prompt import Prompt

if TYPE_CHECKING:
    from duckflow_tui.llm.text_calls import TextCalls

Show = Callable[[str], None]

CUT_OFF: Final = " [cut off]"
STOPPED: Final = " [The user stopped this reply here. Nothing that it asked for was carried out.]"
NO_TEXT: Final = "(no text)"
NOT_SHOWN: Final = "(not shown)"  # behind the name of a result with pictures

CUT_BY_LIMIT: Final = ModelText("reply.cut_by_limit", {})
CUT_BY_CONNECTION: Final = ModelText("reply.cut_by_connection", {})


@dataclass(frozen=True, slots=True)
class WireRequest:
    """The parts of a request's body that a codec writes."""

    messages: list[JsonObject]
    tools: list[JsonObject] = field(default_factory=list[JsonObject])
    response_format: JsonObject | None = None
    decoder: Callable[[Show], Decoder] | None = None  # for the answer, if it is a decision
    shared: int = 1  # messages with which the next request begins too


@dataclass(frozen=True)
class Decoded:
    """The result of decoding a reply. ``problems`` are sent to the model; while there are any, no
    call of the reply with side effects may run, and ``decision`` holds only the valid parts.
    ``warnings`` are only logged.
    """

    decision: TurnDecision | None
    text: str  # text for the user
    raw: (
        str  # the reply as it came, for history when it cannot be used; of a huge one its beginning
    )
    problems: tuple[ModelText, ...] = ()
    warnings: tuple[str, ...] = ()
    from_text: bool = False  # its calls were written as text


class Decoder(Protocol):
    """Decodes the answer to one request: shows its text piece by piece, then decodes the whole."""

    @property
    def content(self) -> Show:
        """The function that takes each piece of the content."""
        ...

    @property
    def in_calls(self) -> bool:
        """Whether the reply has reached its calls. A connection that breaks from then on is
        reported to the model as a problem instead of retried.
        """
        ...

    def decode(
        self, completion: Completion, prompt: Prompt, ids: IdSource, decision_id: str
    ) -> Decoded:
        """Decode the complete reply to a decision, or problems; only strict JSON becomes calls
        (R16).
        """
        ...


def name_operations(operations: Sequence[OperationSpec]) -> dict[str, OperationSpec]:
    """Map every name that a model may use for an operation to its spec: our name, the wire name,
    and the bare names of both and in other tools, where they mean one operation only.
    """
    own = {spec.name: spec for spec in operations}
    bare = Counter(map(bare_name, own))
    return {
        **foreign_names(operations),
        **{bare_name(name): spec for name, spec in own.items() if bare[bare_name(name)] == 1},
        **{wire_name(name): spec for name, spec in own.items()},
        **own,
    }


def reading_of(prompt: Prompt, ids: IdSource) -> Reading:
    """Make the reader that decodes a reply to this prompt."""
    judged = judged_before(prompt.history)
    return Reading(
        name_operations((*prompt.known, *prompt.operations)),
        ids,
        offered=tuple(spec.name for spec in (*prompt.operations, *prompt.at_hand)),
        judged_before=judged and (judged.goal_consistency, judged.constraint_check),
    )


#: Signs of which every call as text has one.
_CALL_SIGNS: Final = ("<", "[", "{", "*** ", "(")
NOT_READ: Final = ModelText("reply.calls_not_read", {})


def calls_in(text: str, prompt: Prompt) -> TextCalls | None:
    """Parse calls written as text in a reply; None if there are none. Calls that cannot be parsed
    are marked ``unread``.
    """
    if not any(sign in text for sign in _CALL_SIGNS):
        return None
    from duckflow_tui.llm.text_calls import read_calls

    known: dict[str, JsonObject] = {name: {} for name in STATEMENTS}
    known[DECIDE] = schema_of(TurnDecision)["properties"]
    for name, spec in name_operations((*prompt.known, *prompt.operations)).items():
        known[name] = spec.parameters.get("properties", {})
    found = read_calls(text, known)
    return found if found.calls or found.unread else None


IN_CODE_BLOCK: Final = ModelText("reply.code_block", {})
_COMMANDS: Final = ("bash", "sh", "shell", "zsh", "console", "powershell", "diff", "patch")


def is_untold_command(text: str, prompt: Prompt) -> bool:
    """Whether a reply ends with a code block of a command or diff that was probably meant as a
    call: no call was made in the conversation, and the model was not told about such a reply
    before.
    """
    if not _ends_with_command(text):
        return False
    said = [item for item in prompt.history if isinstance(item, AssistantMessage)]
    made = any(item.decision is not None and item.decision.actions for item in said)
    return not made and not any(item.raw and _ends_with_command(item.raw) for item in said)


def _ends_with_command(text: str) -> bool:
    """Whether a text ends with a code block of a command or diff."""
    lines = text.rstrip().split("\n")
    if lines[-1].strip() != "```":
        return False
    opens = next((line for line in reversed(lines[:-1]) if line.startswith("```")), "")
    return opens.strip("` ").lower() in _COMMANDS


def mark_as_text(decision: TurnDecision) -> TurnDecision:
    """Mark all calls of a decision as written as text, since they may be quotations; checks that
    would run a command become judgements.
    """
    actions = tuple(action.replace(from_text=True) for action in decision.actions)
    claims = tuple(
        claim.replace(check=Check()) if claim.check.kind == "command" else claim
        for claim in decision.requirements
    )
    return decision.replace(actions=actions, requirements=claims)


def judged_before(history: Sequence[Message]) -> TurnDecision | None:
    """Return the previous decision if it only judged and made no calls; its judgement then applies
    to the calls of the next reply. For models that make one call per message.
    """
    for item in reversed(history):
        if isinstance(item, AssistantMessage):
            made = item.decision
            if made is None or made.actions or not made.judged:
                return None
            return made
        if isinstance(item, UserMessage):
            return None
    return None


def user_message(text: str) -> JsonObject:
    """Make a message of the role user."""
    return {"role": "user", "content": wire_text(text)}


def add_note(messages: list[JsonObject], prompt: Prompt) -> int:
    """Insert the prompt's changing note at the end of ``messages``, but before an unanswered
    message of the user, because models answer the last message. Return the number of messages
    before the note.
    """
    unanswered = bool(prompt.history) and isinstance(prompt.history[-1], UserMessage)
    place = len(messages) - unanswered
    if prompt.tail:
        messages.insert(place, user_message(prompt.tail))
    return place


def assistant_message(text: str) -> JsonObject:
    """Make a message of the role assistant; an empty text is replaced, because some servers refuse
    it.
    """
    return {"role": "assistant", "content": wire_text(text) or NO_TEXT}


def system_of(prompt: Prompt, codec: str) -> JsonObject:
    """Make the system message: the stable part of the prompt, then the reply format for
    this codec.
    """
    parts = filter(None, (prompt.system, prompt.formats.get(codec)))
    return {"role": "system", "content": wire_text("\n\n".join(parts))}


def unread_text(message: AssistantMessage) -> str:
    """Return the text that requests show for an earlier reply without a usable decision: its
    original text, with a note if it was cut or stopped.
    """
    if not message.complete:
        return (message.text or message.raw) + (STOPPED if message.stopped else CUT_OFF)
    return message.raw or message.text


def judgement_of(decision: TurnDecision) -> JsonObject:
    """Return the fields of a decision except reply and actions, in schema order."""
    fields: dict[str, Any] = {"rationale": decision.rationale}
    for name in CHECKS:
        check = getattr(decision, name)
        if check.ok is not None:
            fields[name] = {"ok": check.ok, "reason": check.reason}
    if decision.confidence is not None:
        fields["confidence"] = decision.confidence
    if decision.task_profile is not None:
        fields["task_profile"] = decision.task_profile.value
    if decision.requirements:
        fields["requirements"] = [
            claim.model_dump(exclude_defaults=True, exclude={"priority"})
            | {"priority": claim.priority}
            for claim in decision.requirements
        ]
    if decision.continues is not None:
        fields["continues"] = decision.continues
    if decision.step is not None:
        fields["step"] = decision.step.value
    fields["next_step"] = decision.next_step.value
    fields["prompt_pattern"] = decision.prompt_pattern.value
    if delta := decision.state_delta.model_dump(mode="json", exclude_none=True):
        fields["state_delta"] = delta
    if decision.question is not None:
        fields["question"] = decision.question.model_dump(mode="json")
    return fields


def extras_of(action: Action) -> JsonObject:
    """Return reasoning, intent and alternatives of a call as on the wire, without empty ones."""
    given = {"reasoning": action.reasoning, "intent": action.intent}
    fields: dict[str, Any] = {name: text for name, text in given.items() if text}
    if action.alternatives:
        fields["alternatives"] = [{"label": label} for label in action.alternatives]
    return fields


def result_text(message: OperationMessage) -> str:
    """Format a result for the model: its outcome, then its text."""
    if message.by_user:
        return f"The user ran this themselves:\n{message.result.text}".rstrip()
    return f"{message.result.label} {message.result.text}".rstrip()


def image_messages(result: OperationMessage) -> list[JsonObject]:
    """Return the message with the pictures of a result, or an empty list without pictures. Its
    parts of type ``image`` name the blobs to load. A separate message is needed because results
    contain only text in both APIs.
    """
    images = result.result.images
    if not images:
        return []
    parts: list[JsonObject] = [{"type": "text", "text": wire_text(f"{result.call_text}:")}]
    parts += [{"type": "image", "sha": image.sha, "mime": image.mime} for image in images]
    return [{"role": "user", "content": parts}]


def history_for_model(history: Sequence[Message]) -> list[Message]:
    """Return the history as the model sees it: without screen-only messages and the app's own
    checks, and with each result moved directly after the reply that made the call.
    """
    results = {
        item.call_id: item
        for item in history
        if isinstance(item, OperationMessage) and not item.for_requirement
    }
    items: list[Message] = []
    for item in history:
        if isinstance(item, OperationMessage):
            if item.call_id in results:  # of no reply that travels
                items.append(item)
        elif isinstance(item, AssistantMessage):
            items.append(item)
            if item.decision is not None and item.complete:
                for action in item.decision.actions:
                    if (result := results.pop(action.call_id, None)) is not None:
                        items.append(result)
        elif item.kind == "user" or item.for_model:
            items.append(item)
    return items


LONGEST: Final = 64  # characters that providers take for a function's name
_KEPT: Final = 55  # of a longer name, then "_" and 8 hex digits of its SHA-256
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")


def wire_name(operation: str) -> str:
    """Return the name of an operation in requests: at most 64 characters of ``A-Z a-z 0-9 _ -``."""
    name = _NO_NAME.sub("_", operation.replace(".", "__"))
    if len(name) <= LONGEST:
        return name
    return f"{name[:_KEPT]}_{hash_data(operation)[:8]}"


#: Fields whose values are explained by the output format only, not by the function.
_EXPLAINED: Final = ("step", "next_step", "prompt_pattern")


@cache
def decision_schema() -> JsonObject:
    """Return the JSON schema of a TurnDecision, only the top level: the prompt's output format
    describes the rest. Cached; must not be changed.
    """
    schema = plain_schema(TurnDecision, ("type", "enum", "items", "properties"))
    fields: JsonObject = {}
    for name, whole in schema["properties"].items():
        fields[name] = {key: whole[key] for key in ("type", "enum") if key in whole}
        if "items" in whole:  # servers refuse a list that does not say of what
            fields[name]["items"] = {"type": whole["items"]["type"]}
    return {"type": "object", "properties": fields, "required": [*NEEDED]}


@cache
def decide_function() -> JsonObject:
    """Return the function ``decide`` for native calls: the decision's fields without the reply, and
    with ``calls`` instead of actions. Cached; must not be changed.
    """
    schema = decision_schema()
    fields: JsonObject = {**schema["properties"]}
    del fields["reply"]
    fields["calls"] = fields.pop("actions")
    for name in (*CHECKS, *_EXPLAINED):
        fields[name] = {"type": "string"}
    return {
        "type": "function",
        "function": {
            "name": DECIDE,
            "description": "Once, before all other calls.",
            "parameters": {**schema, "properties": fields},
        },
    }


@cache
def other_function() -> JsonObject:
    """Return the function that calls, by name, an operation without a function of its own. Cached;
    must not be changed.
    """
    return {
        "type": "function",
        "function": {
            "name": OTHER,
            "description": "Call an operation of the lists.",
            "parameters": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "args": {"type": "string", "description": "A JSON object."},
                },
                "required": ["name", "args"],
            },
        },
    }


def operation_function(spec: OperationSpec) -> JsonObject:
    """Describe an operation as a function for native calls."""
    parameters: JsonObject = {**spec.parameters, "type": "object"}
    parameters.setdefault("properties", {})
    return {
        "type": "function",
        "function": {
            "name": wire_name(spec.name),
            "description": spec.summary,
            "parameters": parameters,
        },
    }
