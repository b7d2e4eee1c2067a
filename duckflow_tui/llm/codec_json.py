"""The JSON codec: a reply is one JSON object with the whole decision."""

from __future__ import annotations

import json
import re
from itertools import chain
from typing import Final, Literal, cast

from duckflow_tui.llm.codec import (
    CUT_BY_LIMIT,
    IN_CODE_BLOCK,
    NOT_READ,
    Decoded,
    Show,
    WireRequest,
    add_note,
    assistant_message,
    calls_in,
    decision_schema,
    extras_of,
    history_for_model,
    image_messages,
    is_untold_command,
    judgement_of,
    mark_as_text,
    reading_of,
    result_text,
    system_of,
    unread_text,
    user_message,
    wire_name,
)
from duckflow_tui.llm.completion import Completion
from duckflow_tui.llm.quotations import flatten_text, has_all_entries
from duckflow_tui.llm.reply_json import (
    MOST_READ,
    NotStrict,
    ReplyObject,
    ReplyPreview,
    find_object,
)
from duckflow_tui.llm.wire import wire_text
from duckflow_tui.state.base import IdSource, JsonObject, ModelText
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, Message, UserMessage
from duckflow_tui.state.decision import TurnDecision
from duckflow_tui.state.prompt import Prompt

JsonRung = Literal["json_schema", "json_object", "text"]

RESULTS: Final = "Results of your actions:"  # how a message with results begins

_FIELDS: Final = "|".join(TurnDecision.model_fields)
_WORDS: Final = ("reasoning", "intent", "alternatives")  # of an action, which do nothing
_PIECE: Final = 1 << 18  # characters that are searched at once
_OVERLAP: Final = 1 << 10  # that a match may reach into the next piece
#: What a decision or a call looks like, as far as it is written: then a text is no plain answer.
_WRITTEN: Final = re.compile(
    rf"^(?:\{{|```json)|[\"'“](?:{_FIELDS})[\"'”]\s*:|\{{\s*(?:{_FIELDS})\s*:"
    r"|[\"'](?:name|tool|tool_name|function|operation)[\"']\s*:"
    r".{0,400}?[\"'](?:arguments|parameters|args|input)[\"']\s*:"
    r"|(?:^|\n)Action Input:",
    re.S,
)


def encode_request(prompt: Prompt, rung: JsonRung = "json_schema") -> WireRequest:
    """Encode a prompt as a request; ``rung`` is the form of JSON to ask for."""
    messages = [system_of(prompt, "json"), *_encode_history(prompt.history)]
    shared = add_note(messages, prompt)
    form = response_format(rung, "turn_decision", decision_schema())
    return WireRequest(messages, response_format=form, decoder=JsonDecoder, shared=shared)


def response_format(rung: JsonRung, name: str, schema: JsonObject) -> JsonObject | None:
    """Return the request field that asks the server for JSON; None for the rung ``text``."""
    if rung == "text":
        return None
    if rung == "json_object":
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": name, "strict": False, "schema": schema}}


def decision_text(decision: TurnDecision) -> str:
    """Encode a decision as JSON, as a model would write it; equal decisions give equal text."""
    judgement = judgement_of(decision)
    fields: JsonObject = {"rationale": judgement.pop("rationale"), "reply": decision.reply}
    fields.update(judgement)
    if decision.actions:
        fields["actions"] = [
            {"operation": action.operation, "args": action.args, **extras_of(action)}
            for action in decision.actions
        ]
    return json.dumps(fields, ensure_ascii=False)


def _encode_history(history: tuple[Message, ...]) -> list[JsonObject]:
    """Encode the history as messages, with consecutive results in one message."""
    messages: list[JsonObject] = []
    results: list[OperationMessage] = []
    for item in history_for_model(history):
        if isinstance(item, OperationMessage) and not item.by_user:
            results.append(item)
            continue
        messages += _encode_results(results)
        results = []
        if isinstance(item, AssistantMessage):
            made = item.decision if item.complete else None
            messages.append(
                assistant_message(item.raw or decision_text(made) if made else unread_text(item))
            )
        elif isinstance(item, OperationMessage):
            messages += [user_message(result_text(item)), *image_messages(item)]
        else:
            messages.append(user_message(item.for_model))
    return messages + _encode_results(results)


def _encode_results(results: list[OperationMessage]) -> list[JsonObject]:
    """Return one message with these results, then messages with their pictures; empty without
    results.
    """
    if not results:
        return []
    parts = [
        f"{number}. {result.operation} {result_text(result)}"
        for number, result in enumerate(results, start=1)
    ]
    told = user_message(f"{RESULTS}\n\n" + "\n\n".join(parts))
    return [told, *chain.from_iterable(map(image_messages, results))]


class JsonDecoder:
    """Shows the text of ``reply`` while the JSON object arrives, then decodes the whole object."""

    def __init__(self, show: Show) -> None:
        self._shown: list[str] = []
        self._show = show
        self._preview = ReplyPreview(self._show_text)

    def _show_text(self, text: str) -> None:
        """Show a piece of the reply and remember it."""
        self._shown.append(text)
        self._show(text)

    def content(self, text: str) -> None:
        """Take a piece of the JSON text."""
        self._preview.feed(text)

    @property
    def in_calls(self) -> bool:
        """Whether the field ``actions`` has begun."""
        return "actions" in self._preview.keys

    def decode(
        self, completion: Completion, prompt: Prompt, ids: IdSource, decision_id: str
    ) -> Decoded:
        """Decode the JSON object to a decision, or calls written as text. Plain prose counts as the
        reply; it is a problem if it resembles a decision or a call, or if the model was just
        asked to repeat one.
        """
        said = completion.text
        raw = wire_text(said[:MOST_READ])
        shown = "".join(self._shown)
        if completion.finish == "length":  # R16a
            return Decoded(None, shown, raw, (CUT_BY_LIMIT,))
        reading = reading_of(prompt, ids)
        if completion.calls:
            reading.warnings.append("native calls in a JSON reply are left out")
        wrong: ModelText | None = None
        spoken = None
        try:
            found = find_object(said, TurnDecision.model_fields)
        except NotStrict as error:
            found, wrong = ReplyObject({}), error.told
        foreign = wrong is not None or TurnDecision.model_fields.keys().isdisjoint(found.data)
        if foreign:
            spoken = calls_in(said, prompt)
        if spoken is not None and spoken.unread:
            return Decoded(None, shown, raw, (NOT_READ,))
        if spoken is not None:
            calls: list[JsonObject] = [
                {"operation": call.name, "args": call.arguments} for call in spoken.calls
            ]
            found = ReplyObject({"reply": spoken.rest, "actions": calls})
        elif wrong or (foreign and found.around):
            plain = not shown and _is_prose(said, prompt)
            if not plain or _is_owed(prompt):
                return Decoded(None, raw if plain else shown, raw, (wrong or NOT_READ,))
            if is_untold_command(raw, prompt):
                return Decoded(None, raw, raw, (IN_CODE_BLOCK,))
            found = ReplyObject({"reply": raw.strip()})
        if found.around and not found.data.get("reply"):
            found.data["reply"] = found.around
        elif found.around:
            reading.warnings.append("text around the JSON object is left out")
        decision = reading.decision(decision_id, found.data)
        if spoken is not None or (decision.actions and _is_quoted(found.data, prompt)):
            decision = mark_as_text(decision)
        if not (decision.reply or decision.rationale or decision.actions or decision.question):
            reading.problems.append(ModelText("reply.empty", {}))
        return Decoded(
            decision, decision.reply, raw, tuple(reading.problems), tuple(reading.warnings),
            spoken is not None,
        )  # fmt: skip


def _is_quoted(data: JsonObject, prompt: Prompt) -> bool:
    """Whether the operation and all arguments of one of the actions occur as such in what the model
    was given to read. Then it may be a quotation, not a decision.
    """
    told = [message for message in _encode_history(prompt.history) if message["role"] == "user"]
    given = flatten_text(
        "\n".join(str(message["content"]) for message in (*told, system_of(prompt, "json")))
    )
    actions = data.get("actions")
    calls = cast("list[object]", actions) if isinstance(actions, list) else [actions or data]
    return any(has_all_entries(_without_words(call), given) for call in calls)


def _without_words(call: object) -> object:
    """Return a call without what the model says of it."""
    if not isinstance(call, dict):
        return call
    fields = cast("JsonObject", call)
    return {name: value for name, value in fields.items() if name not in _WORDS}


def _is_prose(text: str, prompt: Prompt) -> bool:
    """Whether nothing in a text resembles a decision or a call of an operation."""
    if _occurs_in(_WRITTEN, text.strip()):
        return False
    specs = (*prompt.known, *prompt.operations)
    names = (name for spec in specs for name in (spec.name, wire_name(spec.name)))
    return not any(
        _occurs_in(re.compile(rf"{re.escape(name)}\W{{0,3}}[({{]"), text) for name in names
    )


def _occurs_in(pattern: re.Pattern[str], text: str) -> bool:
    """Whether the pattern matches somewhere in the text; searches in pieces, because one long
    search would block other threads.
    """
    starts = range(0, max(len(text), 1), _PIECE)
    return any(pattern.search(text, at, at + _PIECE + _OVERLAP) for at in starts)


def _is_owed(prompt: Prompt) -> bool:
    """Whether the previous reply contained a decision or call that could not be read, so that a
    repeated one is expected.
    """
    for item in reversed(prompt.history):
        if isinstance(item, AssistantMessage):
            return bool(item.raw) and not _is_prose(item.raw, prompt)
        if isinstance(item, UserMessage):
            return False
    return False
