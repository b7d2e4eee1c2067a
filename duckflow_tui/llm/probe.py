"""Probes what a model at an endpoint can do, by two small requests.

The requests take the same way as a session's, so that refusals are learned and stored the same way.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

import jiter
from pydantic import BaseModel, Field

from duckflow_tui.llm.connections import ModelLine
from duckflow_tui.llm.discovery import (
    MAX_HERE,
    first_count,
    get_bounded,
    inner_of,
    read_faults,
)
from duckflow_tui.llm.endpoints import (
    PROBE,
    Endpoint,
    Roles,
    Target,
    is_loopback,
    is_private,
    key_name,
    resolve_key,
)
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.llm.exchange import Patience, ReplyObserver
from duckflow_tui.llm.learned_models import LearnedModels
from duckflow_tui.state.base import JsonObject, SystemClock, random_id
from duckflow_tui.state.conversation import UserMessage
from duckflow_tui.state.operations import Effect, OperationSpec
from duckflow_tui.state.prompt import ChatMessage, Prompt
from duckflow_tui.state.usage import LlmCall

PROBE_OUTPUT: Final = 512  # tokens: a model that thinks uses some before it answers
PROBED: Final[Mapping[str, object]] = {
    "name": PROBE, "max_output": PROBE_OUTPUT, "idle_s": 60.0
}  # fmt: skip
_COUNTED_TO: Final = 40  # numbers, of one or two tokens each: enough to tell the speed
_ENOUGH: Final = 16  # tokens, for their speed to mean something
_LOOK_UP: Final = OperationSpec(
    name="probe.look_up",
    summary="Looks a word up in the dictionary.",
    parameters={
        "type": "object",
        "properties": {"word": {"type": "string"}},
        "required": ["word"],
        "additionalProperties": False,
    },
    effect=Effect.READ,
)
_TALK: Final = Prompt(
    system="You answer with one call of probe.look_up and nothing else.",
    formats={
        "tools": "Call the function probe__look_up.",
        "json": 'Answer with one JSON object: {"reply": "", "actions": '
        '[{"operation": "probe.look_up", "args": {"word": …}}]}',
    },
    history=(UserMessage(message_id="probe", text='Look up the word "duck".', at=0.0),),
    operations=(_LOOK_UP,),
)


#: Where llama.cpp, Ollama and LM Studio say with which window they run a model.
_RUNNING: Final = "/props", "/api/ps", "/api/v0/models"


class _Counted(BaseModel):
    """The reply to the second request."""

    numbers: list[int] = Field(min_length=1)


class ProbeReport(NamedTuple):
    """The result of probing a model; None or 0 for what was not observed."""

    host: str
    model: str
    streams: bool | None = None  # the answer comes piece by piece
    native_calls: bool | None = None  # it made one; None: it takes functions, but made no call
    json_schema: bool | None = None  # it kept to one
    context: int = 0  # tokens, as the server says
    tokens_per_s: float | None = None
    first_token_s: float | None = None
    error: LlmError | None = None  # what ended the probe early

    @property
    def answers(self) -> bool:
        """Whether any answer came."""
        return self.first_token_s is not None


async def probe_model(
    endpoint: Endpoint,
    model: str,
    environ: Mapping[str, str] = os.environ,
    learned: LearnedModels | None = None,
    line: ModelLine | None = None,
) -> ProbeReport:
    """Send a model two small requests, of at most ``PROBE_OUTPUT`` tokens each. Replaces the
    model's quirks in ``learned``. ``line`` is the server's description of the model. Faults of
    the server are not raised; they are in ``error``.
    """
    variable = key_name(endpoint, environ) or endpoint.api_key_env  # by the endpoint's own name
    protocol = "responses" if endpoint.protocol == "responses" else "auto"
    update = {**PROBED, "api_key_env": variable, "protocol": protocol}
    target = Target(endpoint.model_copy(update=update), model)
    learned = learned or LearnedModels()
    learned.forget_model(target)
    report = ProbeReport(endpoint.host, model, context=line.context if line is not None else 0)
    try:
        report = await _ask_two_things(target, environ, learned, report)
    except LlmError as error:
        report = report._replace(error=error)
    else:
        if not report.context and (is_loopback(endpoint.hostname) or is_private(endpoint.hostname)):
            report = report._replace(context=await _running_context(target, environ))
    return report


async def _ask_two_things(
    target: Target, environ: Mapping[str, str], learned: LearnedModels, report: ProbeReport
) -> ProbeReport:
    """Ask the model for a reply with native calls, then for one in a JSON schema, and return the
    report completed by what it could do and how fast. Raises LlmError.
    """
    from duckflow_tui.llm.service import LLMService

    endpoint, model = target
    service = LLMService(
        {endpoint.name: endpoint},
        Roles(main=f"{endpoint.name}/{model}"),
        random_id,
        SystemClock(),
        environ,
        patience=Patience(retries=1, total_s=15.0),
        learned=learned,
    )
    quirks = learned.quirks_of(target)
    try:
        reply = await service.decide(_TALK, llm_id="probe_1", observer=ReplyObserver())
        called = reply.protocol == "tools" and bool(reply.calls) and not reply.from_text
        report = report._replace(
            native_calls=True if called else None if reply.protocol == "tools" else False,
            streams=not quirks.has_any("no_stream", "sends_whole"),
            first_token_s=reply.call.first_token_s,
            tokens_per_s=_tokens_per_second(reply.call),
        )
        wanted = f'Answer with {{"numbers": [1, 2, 3, …]}}, all numbers from 1 to {_COUNTED_TO}.'
        messages = [ChatMessage("user", wanted)]
        answer = await service.ask("digest", "main", messages, _Counted, llm_id="probe_2")
        return report._replace(
            json_schema=quirks.json == "json_schema" and answer.value is not None,
            tokens_per_s=_tokens_per_second(answer.call) or report.tokens_per_s,
        )
    finally:
        await service.aclose()


def _tokens_per_second(call: LlmCall) -> float | None:
    """Return the generation speed after the first token; None if too few tokens came."""
    took = call.duration_s - (call.first_token_s or 0.0)
    return call.tokens_out / took if call.tokens_out >= _ENOUGH and took > 0.01 else None


async def _running_context(target: Target, environ: Mapping[str, str]) -> int:
    """Return the context window with which a local server runs the model; 0 if it does not say."""
    endpoint, model = target
    key = resolve_key(endpoint, environ)

    async def fetch(path: str) -> JsonObject:
        """Fetch a JSON object from the server; empty on any error."""
        from duckflow_tui.llm.transport import BadStatus

        try:
            async with asyncio.timeout(1.5):
                _, body = await get_bounded(endpoint, key, f"{endpoint.origin}{path}", MAX_HERE)
                answer: object = jiter.from_json(body)
                return cast("JsonObject", answer) if isinstance(answer, dict) else {}
        except (BadStatus, *read_faults()):
            return {}

    llama, ollama, studio = await asyncio.gather(*map(fetch, _RUNNING))
    sizes: list[object] = [inner_of(llama, "default_generation_settings").get("n_ctx")]
    for listed, size in (
        (ollama.get("models"), "context_length"),
        (studio.get("data"), "loaded_context_length"),
    ):
        for entry in cast("list[object]", listed) if isinstance(listed, list) else []:
            fields = cast("JsonObject", entry) if isinstance(entry, dict) else {}
            if model in (fields.get("id"), fields.get("name"), fields.get("model")):
                sizes.append(fields.get(size))
    return first_count(sizes)
