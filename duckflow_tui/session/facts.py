"""Facts of a session for lists, its texts for searches, and figures over several sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from time import localtime, strftime
from typing import Final, Literal, NamedTuple

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.resume import Restored
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.audit import count_decisions, list_decisions, sum_counts
from duckflow_tui.state.base import Frozen, one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, Message, UserMessage
from duckflow_tui.state.gates import CardMessage
from duckflow_tui.state.goal import AttemptMessage, RequirementState, ReviewMessage
from duckflow_tui.state.operations import describe_target
from duckflow_tui.state.plan import ReportMessage
from duckflow_tui.state.turn import TurnOutcome

#: ``new``: no request yet; ``interrupted``: the process ended in the middle of a turn;
#: ``accepted``: the user accepted an unfinished result.
LastState = (
    Literal["new", "gate", "card", "paused", "interrupted", "accepted", "unreadable"] | TurnOutcome
)
Who = Literal["title", "user", "ai", "tool", "report"]

FORK: Final = "↳"  # before the title of a session that goes on from another
_TITLE: Final = 200  # characters of a heading and of a last message
_SAID: Final = 20_000  # searchable characters of a message
_RESULT: Final = 4_000  # searchable characters of a result
MARKS: Final = {  # signs for a requirement's state, as on the screen
    RequirementState.MET: "✓",
    RequirementState.PARTLY: "◐",
    RequirementState.REFUTED: "✗",
    RequirementState.OPEN: "○",
    RequirementState.WAIVED: "–",
}


class SessionFacts(Frozen):
    """One session in a list. All text in it is safe to show.

    ``cost`` is in US dollars, None without prices; times are seconds since the epoch; ``size`` is
    in bytes.
    """

    key: str = ""  # path of its folder below the state folder
    session_id: str
    workspace: str = ""  # absolute path
    folder: str = ""  # the workspace's own name
    name: str = ""  # the user's
    goal: str = ""  # the goal or plan that the model stated last
    request: str = ""  # the first one, on one line
    branch: str = ""
    model: str = ""
    plan: str = ""
    plan_done: int = 0
    plan_steps: int = 0
    met: int = 0
    requirements: int = 0  # those that were not waived
    turns: int = 0  # ended ones
    done: int = 0  # turns with the outcome ``done``
    answered: int = 0  # turns that needed only an answer in words
    asked: int = 0  # calls that the user approved or refused
    approved: int = 0
    attempts: int = 0  # at turns; each turn has at least one
    judged: int = 0  # user messages whose result was judged
    score: float = 0.0  # sum of their scores, each 0.0 to 1.0
    undone: int = 0  # calls whose changes the user has undone
    calls: int = 0
    cost: float | None = None
    tokens: int = 0
    state: LastState = "new"
    last: str = ""  # the last message, on one line
    messages: int = 0
    waiting: int = 0  # messages in the queue
    draft: str = ""  # of the composer, on one line
    started_at: float = 0.0
    last_at: float = 0.0
    size: int = 0
    pinned: bool = False
    forked_from: str = ""  # id of the session it was forked from
    forked_title: str = ""
    demo: bool = False
    headless: bool = False
    missing: int = 0  # records that could not be read
    problem: str = ""  # why it cannot be opened: a ``FaultCode``
    in_use: bool = False  # a process has it open
    trashed_at: float | None = None

    @property
    def title(self) -> str:
        """The title to show: the user's name for the session, else its goal, else the title it was
        forked with, else the first request, the draft or the id. A fork without a name is marked
        by ``↳``.
        """
        if self.name:
            return self.name
        title = self.goal or (self.forked_title if self.forked_from else "")
        title = title or self.request or self.draft or self.session_id
        return f"{FORK} {title}" if self.forked_from else title

    @property
    def is_blank(self) -> bool:
        """Whether the session has no message, draft, name, pin or problem."""
        said = self.messages or self.waiting or self.draft
        return not (said or self.problem or self.name or self.pinned)


class Listed(NamedTuple):
    """A session in a list. For a search, ``hits`` is the number of matching texts and ``at`` the
    index of the newest.
    """

    facts: SessionFacts
    hits: int = 0
    at: int | None = None


class Piece(NamedTuple):
    """A text of a session with its author (``who``) and time. Safe to show."""

    who: Who
    text: str
    at: float = 0.0


def make_facts(session_id: str, found: Restored) -> SessionFacts:
    """Return the facts of a restored session; the catalog adds key, size, use and time of
    deletion.
    """
    state = found.state
    session, header = state.session, found.read.header
    plan = state.active_plan or next(reversed(state.listed_plans), None)
    done, steps = plan.progress if plan else (0, 0)
    met, counted = state.objective.met_counts if state.objective else (0, 0)
    scores = _list_scores(state.messages)
    approvals = sum_counts(count_decisions(list_decisions(state), ()).values())
    again = sum(isinstance(message, AttemptMessage) for message in state.messages)
    workspace = session.workspace or (header.workspace if header else "")
    started = session.started_at or (header.created_at if header else 0.0)
    return SessionFacts(
        session_id=visible_line(session_id),
        workspace=visible_line(workspace),
        folder=visible_line(session.title),
        name=_clean_line(session.name),
        goal=_clean_line(session.goal),
        request=_clean_line(state.first_request),
        branch=_clean_line(session.branch),
        model=_clean_line(session.model),
        plan=_clean_line(plan.name) if plan else "",
        plan_done=done,
        plan_steps=steps,
        met=met,
        requirements=counted,
        turns=len(state.turns),
        done=sum(turn.outcome == "done" for turn in state.turns),
        answered=sum(turn.outcome == "answered" for turn in state.turns),
        asked=approvals.asked,
        approved=approvals.approved,
        attempts=len(state.turns) + again,
        judged=len(scores),
        score=sum(scores),
        undone=len(state.undone_calls),
        calls=state.usage.calls,
        cost=state.usage.cost,
        tokens=state.usage.tokens_in + state.usage.tokens_out,
        state=_last_state(state),
        last=_clean_line(_find_last_text(state)),
        messages=sum(isinstance(m, (UserMessage, AssistantMessage)) for m in state.messages),
        waiting=len(state.queue),
        draft=_clean_line(state.draft),
        started_at=started,
        last_at=max((m.at for m in state.messages[-20:]), default=started),
        pinned=session.pinned,
        forked_from=visible_line(session.forked_from),
        forked_title=_clean_line(session.forked_title),
        demo=session.demo,
        headless=session.headless,
        missing=found.missing_count,
    )


class Figures(NamedTuple):
    """Sums over several sessions of the fields of the same names in ``SessionFacts``."""

    sessions: int
    turns: int
    done: int
    answered: int
    attempts: int
    judged: int
    score: float
    calls: int
    asked: int
    approved: int
    undone: int


def group_by_month(found: Iterable[SessionFacts]) -> dict[str, Figures]:
    """Sum the figures of sessions by month, as ``2026-11``, newest first. A session belongs to the
    month, in local time, of its last message. Sessions of the demo or without an ended turn are
    left out.
    """
    months: dict[str, list[SessionFacts]] = {}
    for facts in found:
        if facts.turns and not facts.demo:
            month = strftime("%Y-%m", localtime(facts.last_at))
            months.setdefault(month, []).append(facts)
    return {month: sum_figures(months[month]) for month in sorted(months, reverse=True)}


def sum_figures(found: Sequence[SessionFacts]) -> Figures:
    """Return the sums over these sessions. Raises TypeError for an empty sequence."""
    rows = [[getattr(facts, name) for name in Figures._fields[1:]] for facts in found]
    return Figures(len(found), *map(sum, zip(*rows, strict=True)))


def _list_scores(messages: Sequence[Message]) -> list[float]:
    """Return one score for each user message with a review: that of the last review before the next
    message.
    """
    scores: dict[str, float] = {}  # by the message
    asked = ""
    for message in messages:
        if isinstance(message, UserMessage) and not message.aside:
            asked = message.message_id
        elif isinstance(message, ReviewMessage):
            scores[asked] = message.review.score
    return list(scores.values())


def make_unreadable_facts(session_id: str, fault: SessionFault) -> SessionFacts:
    """Return the facts of a session that cannot be opened, with the fault's code as ``problem``."""
    return SessionFacts(
        session_id=visible_line(session_id),
        state="unreadable",
        problem=fault.code,
    )


def iter_pieces(state: AgentState) -> Iterator[Piece]:
    """Yield the searchable texts of a session: first one piece with its name, plans and
    requirements, then the messages in order, then the queue.
    """
    session = state.session
    named = [session.name, session.goal, session.workspace, session.branch, state.draft]
    for plan in state.listed_plans:
        named += [plan.name, plan.goal, *(step.name for step in plan.steps)]
    if state.objective is not None:
        named += [item.requirement for item in state.objective.extracted_requirements]
    for request in state.earlier:
        named += [item.requirement for item in request.extracted_requirements]
    yield Piece(who="title", text=make_visible("\n".join(filter(None, named))[:_SAID]))
    for message in state.messages:
        piece = _make_piece(message)
        if piece is not None and piece.text:
            yield piece
    for message in state.queue:
        yield Piece(who="user", at=message.at, text=make_visible(message.text[:_SAID]))


def _make_piece(message: Message) -> Piece | None:
    """Return the searchable text of a message, cut to a limit; None for notices."""
    match message:
        case UserMessage():
            return Piece(who="user", at=message.at, text=make_visible(message.text[:_SAID]))
        case AssistantMessage():
            return Piece(who="ai", at=message.at, text=make_visible(message.text[:_SAID]))
        case OperationMessage():
            target = describe_target(message.args, _TITLE)
            head = f"{message.operation} {target} · {message.result.summary}".rstrip(" ·")
            text = f"{one_line(head, _TITLE)}\n{message.result.text[:_RESULT]}".rstrip()
            return Piece(who="tool", at=message.at, text=make_visible(text))
        case ReportMessage():
            report = message.report
            said = f"{report.step_name}: {report.summary} {report.cause}".rstrip()
            return Piece(who="report", at=message.at, text=make_visible(said[:_SAID]))
        case ReviewMessage():
            said = "\n".join(
                f"{MARKS[item.state]} {item.requirement}" for item in message.review.items
            )
            return Piece(who="report", at=message.at, text=make_visible(said[:_SAID]))
        case CardMessage():
            said = message.answer.full_text
            return Piece(who="user", at=message.at, text=make_visible(said[:_SAID]))
        case _:  # notices are the app's own words, in whatever language it speaks
            return None


def _find_last_text(state: AgentState) -> str:
    """Return the newest text of the user or the model; empty where there is none."""
    for message in reversed(state.messages):
        if isinstance(message, (UserMessage, AssistantMessage)) and message.text.strip():
            return message.text
    return ""


def _last_state(state: AgentState) -> LastState:
    """Return the state of the session: its open gate, card or turn, else the outcome of its last
    turn.
    """
    if state.gates:
        return "gate"
    if state.is_work_waiting:
        return "card"
    if state.turn is not None:
        cut = state.interrupted is not None or state.turn.pause != "paused"
        return "interrupted" if cut else "paused"
    last = state.last_turn
    if last is not None and last.question is not None and last.outcome == "partial":
        return "card"
    if last is not None and last.reason is not None and last.reason.code == "accepted":
        return "accepted"
    return last.outcome if last is not None else "new"


def _clean_line(text: str) -> str:
    """Return the text on one line, safe to show and cut to 200 characters."""
    return visible_line(one_line(text, _TITLE))
