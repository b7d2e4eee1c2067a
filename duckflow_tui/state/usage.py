"""Calls to models: streaming replies, the make-up of requests, tokens and costs; and the hosts that
the app contacted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal, get_args

from pydantic import Field

from duckflow_tui.state.base import MOST_COUNTED, Count, Event, Frozen

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState

KEPT_REQUESTS: Final = 100  # newest requests whose figures are kept

PartName = Literal["base", "operations", "project", "pinned", "files", "results", "chat", "tail"]

#: The parts of a request, in the order in which the meter shows them.
PARTS: Final[tuple[PartName, ...]] = get_args(PartName)

#: The API of a server by which a model is asked.
Api = Literal["chat", "responses"]
CompactedBy = Literal["user", "auto", "overflow"]


class PromptParts(Frozen):
    """Tokens of a request by part (C22)."""

    base: Count = Field(default=0, ge=0)  # the app's own instructions
    operations: Count = Field(default=0, ge=0)  # and the output format
    project: Count = Field(default=0, ge=0)  # AGENTS.md
    pinned: Count = Field(default=0, ge=0)  # goal, requirements, constraints, plan, gates
    files: Count = Field(default=0, ge=0)  # results of reads
    results: Count = Field(default=0, ge=0)  # other results
    chat: Count = Field(default=0, ge=0)  # what was said, and digests of it
    tail: Count = Field(default=0, ge=0)  # the rest of the working memory and where things stand

    @property
    def total(self) -> int:
        """The tokens of all parts."""
        return sum(attrgetter(*PARTS)(self))

    @property
    def conversation(self) -> int:
        """Tokens of the parts that grow with the conversation and that a compaction reduces."""
        return self.files + self.results + self.chat

    def scale_to(self, total: int) -> PromptParts:
        """Scale the parts to another total; the largest part absorbs rounding."""
        old = self.total
        if not old:
            return self.replace(tail=total)
        sizes: dict[str, int] = {name: getattr(self, name) * total // old for name in PARTS}
        largest = max(PARTS, key=lambda name: sizes[name])
        sizes[largest] += total - sum(sizes.values())
        return PromptParts(**sizes)


class PromptFigures(Frozen):
    """The figures of one request. Tokens are estimates until the endpoint has counted."""

    llm_id: str
    purpose: Purpose
    step_id: str = ""
    aside: bool = False
    turn_id: str = ""
    parts: PromptParts
    window: Count = Field(default=0, ge=0)  # tokens of the model; 0 when unknown
    shared: Count = Field(default=0, ge=0)  # tokens that the request of its kind before began with
    estimated: bool = True
    ended: bool = False  # however the call did
    at: float

    @property
    def tokens(self) -> int:
        """The tokens of the whole request."""
        return self.parts.total

    @property
    def shared_part(self) -> float:
        """The share of the request that a prompt cache can serve, 0 to 1."""
        return min(self.shared / self.tokens, 1.0) if self.tokens else 0.0

    def with_reported_usage(self, call: LlmCall) -> PromptFigures:
        """The figures of the ended call, with the tokens that the endpoint reported, if any."""
        if call.estimated or call.tokens_in <= 0 or not self.tokens:
            return self.replace(ended=True)
        shared = self.shared * call.tokens_in // self.tokens
        parts = self.parts.scale_to(call.tokens_in)
        return self.replace(parts=parts, shared=shared, estimated=False, ended=True)


def list_pending_requests(
    requests: Sequence[PromptFigures], turn_id: str
) -> tuple[PromptFigures, ...]:
    """Return the requests of a turn that never got a reply; at most the newest of each
    conversation.
    """
    newest: dict[tuple[bool, str], PromptFigures] = {}
    for figures in requests:
        if figures.turn_id == turn_id:
            newest[figures.aside, figures.step_id] = figures
    return tuple(figures for figures in newest.values() if not figures.ended)


Role = Literal["main", "creative", "fast", "evaluator", "strong"]

Purpose = Literal[
    "main", "plan", "continuation", "tasks", "task", "report", "requirements", "satisfaction",
    "missing", "failure", "digest",
]  # fmt: skip

_DECIDING: Final = ("main", "task")  # requests that fill the window of the main model

CallOutcome = Literal["ok", "malformed", "error", "cancelled", "incomplete"]


class LlmCall(Frozen):
    """One finished call to a model; tokens are counts, times are seconds."""

    llm_id: str
    role: Role
    purpose: Purpose
    endpoint: str
    model: str
    tokens_in: Count = Field(default=0, ge=0)
    tokens_cached: Count = Field(default=0, ge=0)  # part of tokens_in
    tokens_out: Count = Field(default=0, ge=0)
    tokens_reasoning: Count = Field(default=0, ge=0)  # part of tokens_out
    estimated: bool = False  # the endpoint sent no usage; counts are our estimate
    cost: float | None = None  # US dollars; None where nobody says a price
    duration_s: float = 0.0
    first_token_s: float | None = None
    outcome: CallOutcome = "ok"
    error: str = ""  # code of llm.errors, empty when ok
    attempts: int = 1  # HTTP requests, retries included
    step_id: str = ""  # the plan's step it was made for


class UsageTotals(Frozen):
    """Sums over the session; ``cost`` is None until one call had a price."""

    calls: int = 0
    tokens_in: Count = 0
    tokens_out: Count = 0
    cost: float | None = None
    last_context: Count = 0  # tokens of the newest main request: what fills the window
    context_window: Count = 0  # of the main model; 0 when unknown
    estimated: bool = False
    more_tokens: Count = Field(default=0, ge=0)  # beyond the limit of the settings, by the user
    more_cost: float = Field(default=0.0, ge=0.0)  # US dollars, the same

    def add_call(self, call: LlmCall) -> UsageTotals:
        """The totals after one more call."""
        cost = self.cost
        if call.cost is not None:
            cost = (cost or 0.0) + call.cost
        is_main = call.purpose in _DECIDING and call.tokens_in > 0
        return self.replace(
            calls=self.calls + 1,
            tokens_in=self.tokens_in + call.tokens_in,
            tokens_out=self.tokens_out + call.tokens_out,
            cost=cost,
            last_context=call.tokens_in if is_main else self.last_context,
            estimated=call.estimated if is_main else self.estimated,
        )


class Waiting(Frozen):
    """Why a model call makes no progress: a retry after a delay, or a silent stream."""

    reason: str  # code of llm.errors: rate_limited, server_error, connect, silent
    until: float | None = None  # seconds since the epoch; None: no end known
    since: float = 0.0


@dataclass(eq=False)
class LiveReply:
    """A reply that is being streamed. Mutable, because it grows many times a second."""

    llm_id: str
    purpose: Purpose
    started_at: float
    step_id: str = ""
    aside: bool = False
    attempt: int = field(default=0, init=False)  # how often it began anew
    text: list[str] = field(default_factory=list[str], init=False)
    reasoning: list[str] = field(default_factory=list[str], init=False)
    reasoning_started: float | None = field(default=None, init=False)
    first_text_at: float | None = field(default=None, init=False)
    waiting: Waiting | None = field(default=None, init=False)


#: Why a host is sent requests: to work with a model, for the tools of a server, to see which
#: servers run on this machine, to list a server's models, to try what a model can do.
HostUse = Literal["model", "mcp", "discovery", "list", "probe", "command"]


class HostContact(Frozen):
    """Traffic between the app and one host for one use. Bytes are those of headers and
    bodies; what HTTP, encryption and the network add is not counted. Times are seconds since the
    epoch.
    """

    host: str  # and port
    use: HostUse
    name: str = ""  # of the endpoint or the server, as the settings have it
    setting: str = ""  # what made it so, empty where no setting did
    via: str = ""  # the proxy that the connection goes to, with its port
    roles: tuple[Role, ...] = ()  # whose models answered
    requests: Count = Field(default=0, ge=0)
    sent: Count = Field(default=0, ge=0)
    received: Count = Field(default=0, ge=0)
    first: float
    last: float


@dataclass(eq=False)
class UsageState:
    """Token use and cost of model calls, and contacted hosts."""

    usage: UsageTotals = field(default_factory=UsageTotals)
    requests: tuple[PromptFigures, ...] = ()  # to models, the newest last
    hosts: dict[str, HostContact] = field(default_factory=dict[str, HostContact])
    """In the order of the first contact, each under what tells it from the others."""


class PromptMeasured(Event, kind="prompt_measured"):
    """A request is about to be sent; its make-up in tokens."""

    figures: PromptFigures

    def apply(self, state: AgentState) -> None:
        state.requests = (*state.requests, self.figures)[-KEPT_REQUESTS:]
        if self.figures.purpose in _DECIDING:
            state.usage = state.usage.replace(last_context=self.figures.tokens, estimated=True)
        if state.memory.untold and self.figures.purpose == "main" and not self.figures.aside:
            state.memory = state.memory.replace(untold=())


class WindowLearned(Event, kind="window_learned"):
    """The main model's context window is smaller than known, as its server showed."""

    tokens: int = Field(ge=1)

    def apply(self, state: AgentState) -> None:
        state.usage = state.usage.replace(context_window=self.tokens)


class LlmCallStarted(Event, kind="llm_call_started", transient=True):
    """A request was sent."""

    llm_id: str
    purpose: Purpose
    at: float
    step_id: str = ""
    aside: bool = False

    def apply(self, state: AgentState) -> None:
        live = LiveReply(self.llm_id, self.purpose, self.at, self.step_id, self.aside)
        state.live[self.llm_id] = live


class _Delta(Event, transient=True):
    llm_id: str
    text: str
    at: float


class ReplyDelta(_Delta, kind="reply_delta"):
    """A piece of the reply arrived."""

    def apply(self, state: AgentState) -> None:
        live = state.live.get(self.llm_id)
        if live is None:
            return
        live.waiting = None
        if live.first_text_at is None:
            live.first_text_at = self.at
        live.text.append(self.text)


class ReasoningDelta(_Delta, kind="reasoning_delta"):
    """A piece of the model's reasoning arrived."""

    def apply(self, state: AgentState) -> None:
        live = state.live.get(self.llm_id)
        if live is None:
            return
        live.waiting = None
        if live.reasoning_started is None:
            live.reasoning_started = self.at
        live.reasoning.append(self.text)


class ReplyRestarted(Event, kind="reply_restarted", transient=True):
    """The reply broke off and is requested again; its pieces so far are discarded."""

    llm_id: str

    def apply(self, state: AgentState) -> None:
        live = state.live.get(self.llm_id)
        if live is not None:
            live.attempt += 1
            live.text.clear()
            live.reasoning.clear()
            live.reasoning_started = live.first_text_at = None


class LlmWaiting(Event, kind="llm_waiting", transient=True):
    """A call waits for a retry or on a silent stream; None: it makes progress again."""

    llm_id: str
    waiting: Waiting | None

    def apply(self, state: AgentState) -> None:
        live = state.live.get(self.llm_id)
        if live is not None:
            live.waiting = self.waiting


class LlmCallDropped(Event, kind="llm_call_dropped", transient=True):
    """A call was given up before it was sent; it cost nothing."""

    llm_id: str

    def apply(self, state: AgentState) -> None:
        state.live.pop(self.llm_id, None)


class LlmCallFinished(Event, kind="llm_call"):
    """A model call ended, with its usage and its outcome."""

    call: LlmCall

    def apply(self, state: AgentState) -> None:
        decides = self.call.purpose in _DECIDING  # whose reply ends it
        if self.call.outcome in ("error", "cancelled") or not decides:
            state.live.pop(self.call.llm_id, None)
        state.usage = state.usage.add_call(self.call)
        for at, figures in enumerate(state.requests):
            if figures.llm_id == self.call.llm_id:  # what the endpoint counted, not the estimate
                counted = figures.with_reported_usage(self.call)
                state.requests = (*state.requests[:at], counted, *state.requests[at + 1 :])
        if self.call.step_id:
            _add_to_step(state, self.call)
        answered = ""
        for key, host in state.hosts.items():
            asked = host.use == "model" and host.name == self.call.endpoint
            if asked and (not answered or host.last >= state.hosts[answered].last):
                answered = key
        if answered and self.call.role not in (roles := state.hosts[answered].roles):
            host = state.hosts[answered].replace(roles=(*roles, self.call.role))
            state.hosts = {**state.hosts, answered: host}


def _add_to_step(state: AgentState, call: LlmCall) -> None:
    """Add a call to the figures of its step, if the step still exists."""
    for plan in state.plans:
        step = plan.get_step(call.step_id)
        if step is None:
            continue
        cost = step.cost if call.cost is None else (step.cost or 0.0) + call.cost
        changed = plan.with_step(step.replace(calls=step.calls + 1, cost=cost))
        state.plans = tuple(changed if p.plan_id == plan.plan_id else p for p in state.plans)


#: What a limit counts: tokens and US dollars of a session.
SessionBudget = Literal["tokens", "cost"]


class BudgetRaised(Event, kind="budget_raised"):
    """The user raised the session's budget by this many tokens or US dollars."""

    what: SessionBudget
    by: float = Field(gt=0.0, allow_inf_nan=False)

    def apply(self, state: AgentState) -> None:
        usage = state.usage
        if self.what == "tokens":
            more = usage.more_tokens + int(self.by)
            update = {"more_tokens": min(more, MOST_COUNTED)}
        else:
            update = {"more_cost": usage.more_cost + self.by}
        state.usage = usage.replace(**update)


class HostContacted(Event, kind="host_contacted"):
    """A request was sent to a host (``requests`` is 1), or an answer ended (0)."""

    host: str
    use: HostUse
    name: str = ""
    setting: str = ""
    via: str = ""
    at: float
    requests: Count = Field(default=0, ge=0)
    sent: Count = Field(default=0, ge=0)
    received: Count = Field(default=0, ge=0)

    def apply(self, state: AgentState) -> None:
        """Add requests and bytes to the entry in ``state.hosts`` for this use, name, host and way
        (``via``).
        """
        key = " ".join((self.use, self.name, self.host, self.via))
        old = state.hosts.get(key) or HostContact(
            host=self.host, use=self.use, name=self.name, via=self.via, first=self.at, last=self.at
        )
        new = old.replace(
            setting=self.setting,
            requests=old.requests + self.requests,
            sent=old.sent + self.sent,
            received=old.received + self.received,
            last=max(old.last, self.at),
        )
        state.hosts = {**state.hosts, key: new}
