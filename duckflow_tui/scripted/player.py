"""Plays the recorded stories: finds the reply to a request by its thread, purpose and position."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from duckflow_tui.llm.codec_tools import DECIDE, RESULT_OF
from duckflow_tui.scripted.endpoint import Request
from duckflow_tui.scripted.replies import Reply, When, all_text, list_messages
from duckflow_tui.scripted.stories import (
    Language,
    Lines,
    Requirement,
    Story,
    StoryCall,
    StoryReply,
    StoryStep,
    find_story,
    is_same,
    load_lines,
    load_story,
    read_rate,
)
from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.conversation import BESIDE_THE_WORK

_REPLY_S: Final = 3.0  # how long a reply takes to arrive, as from a quick model
_PIECE_S: Final = 0.02
_SMALLEST_PIECE: Final = 3  # characters
_RESULT_LINES: Final = 3  # of a result that a reply quotes
_GOOD_FROM: Final = 0.8  # score from which a request is met
#: How the app's note in a request begins (``prompts/*/session.md``).
_NOTES: Final = ("[Written by the app, not by", "[アプリが書いたもの。")
#: Outcomes of a call after which a recording cannot go on.
_STOPS: Final = ("rejected", "declined", "denied", "error")


@dataclass(slots=True)
class _Take:
    """The recording that one thread of work follows."""

    replies: list[StoryReply]
    story: Story | None = None
    sent: StoryReply | None = None  # the newest reply
    text: str = ""  # as it was sent
    ended: bool = False  # by an outcome that the recording does not have

    def choose(self, body: JsonObject, lines: Lines) -> StoryReply:
        """Return the recording's reply to this request, by the outcome of the calls before it; the
        one before again where the request does not hold it yet.
        """
        sent = self.sent
        if sent is None:
            return self._next_reply(lines)
        if not _is_received(self.text, body):
            return sent
        told = {"messages": _list_conversation_of(self.text, body)}
        for outcome, replies in sent.after.items():
            if When(gate=outcome).matches(told):
                self.replies = list(replies)
                return self._next_reply(lines)
        stop = next((name for name in _STOPS if When(gate=name).matches(told)), "")
        if sent.calls and stop:
            self.replies, self.ended = [], True
            named = {"rejected": lines.rejected, "declined": lines.rejected, "denied": lines.denied}
            return named.get(stop, lines.failed)
        if len(sent.calls) > 1 and When(gate="skipped").matches(told):
            # One call a decision: the others came back and are asked for one by one.
            return sent.model_copy(update={"calls": sent.calls[1:], "after": {}})
        return self._next_reply(lines)

    def _next_reply(self, lines: Lines) -> StoryReply:
        """Take the next recorded reply; the one for a recording that has ended where none
        is left.
        """
        return self.replies.pop(0) if self.replies else lines.spent


class StoryPlayer:
    """Answers the requests of one session. ``command`` runs the project's tests; ``fast`` leaves
    out the pauses of a real model.
    """

    def __init__(
        self, workspace: Path, command: str, language: Language, *, fast: bool = False
    ) -> None:
        self._workspace = workspace
        self._command = command
        self._language: Language = language
        self._fast = fast
        self._story: Story | None = None  # of the newest turn
        self._began_steps = False  # of its plan
        self._rate = ""  # as the user named it
        self._takes: dict[tuple[str, str], _Take] = {}  # by purpose and thread

    @property
    def _lines(self) -> Lines:
        """The replies that belong to no story, in the language of the session."""
        return load_lines(self._language)

    def reply(self, request: Request) -> Reply | None:
        """The reply to a request; None for a purpose that the demo does not know."""
        match request.purpose:
            case "main" | "task":
                return self._make_decision(request)
            case "satisfaction":
                return self._make_reply(data=self._judge_requirements())
            case "plan" if self._story is not None:
                return self._make_reply(data=_write_plan(self._story))
            case "tasks":
                return self._make_reply(data=self._list_tasks(request))
            case purpose:
                data = self._answer_purpose(purpose, request.text)
                return None if data is None else self._make_reply(data=data)

    # --- decisions -----------------------------------------------------------------------------

    def _make_decision(self, request: Request) -> Reply:
        """Return the next decision of the recording that the request's thread follows."""
        take = self._find_take(request)
        if self._began_steps:
            take.replies = [each for each in take.replies if not each.unless_begun]
        recorded = take.choose(request.json, self._lines)
        is_first = take.story is not None and recorded is take.story.main[0]
        decision = self._write_decision(
            recorded, take.story, _quote_result(take.text, request.json), is_first=is_first
        )
        take.sent, take.text = recorded, str(decision["reply"] or decision["rationale"])
        return self._make_reply(recorded.thinks, decision=decision)

    def _find_take(self, request: Request) -> _Take:
        """Return the recording that the request's thread follows, begun where it is new: a story by
        its request, a step by its description, an answer beside the work by the words.
        """
        key = (request.purpose, request.thread)
        if request.is_aside:
            return self._takes.setdefault(key, self._take_aside(request.json))
        take = self._takes.get(key)
        if request.purpose == "task":
            if take is None or take.ended:  # begun, or to be done again
                take = self._takes[key] = self._take_step(request.json)
                self._began_steps = True
            return take
        said = _list_new_words(request.json)
        fresh = [find_story(text) for text in said]
        begun = next((story for story in reversed(fresh) if story is not None), None)
        if take is None or (begun is not None and begun is not take.story):
            self._story = begun
            self._language = begun.language if begun is not None else self._language
            self._began_steps = False
            replies = list(begun.main) if begun is not None else [self._lines.free]
            take = self._takes[key] = _Take(replies, begun)
        elif take.story is not None and take.replies and take.story.rated:
            # What the app says itself stands in brackets.
            rates = [read_rate(text) for text in said if not text.startswith("[")]
            if rate := next(filter(None, reversed(rates)), ""):
                self._rate, take.replies = rate, list(take.story.rated)
        return take

    def _take_aside(self, body: JsonObject) -> _Take:
        """Return the recording of an answer beside the work: the story's own to these very words,
        else the line for all others.
        """
        texts = (_text_of(message) for message in reversed(list_messages(body)))
        said = next((text for text in texts if text.startswith(BESIDE_THE_WORK)), "")
        said = said.removeprefix(BESIDE_THE_WORK)
        asides = self._story.asides if self._story is not None else ()
        known = (aside.answer for aside in asides if is_same(aside.said, said))
        return _Take([next(known, self._lines.beside)])

    def _take_step(self, body: JsonObject) -> _Take:
        """Return the recording of the step that the request is about, behind the calls its list of
        tasks had.
        """
        notes = [m for m in map(_text_of, list_messages(body)) if m.startswith(_NOTES)]
        step = self._find_step(notes[-1] if notes else "")
        if step is None:
            return _Take([self._lines.step])
        listed = self._takes.pop(("tasks", step.id), None)  # what comes behind its list
        return _Take(listed.replies if listed is not None else list(step.main))

    def _find_step(self, tail: str) -> StoryStep | None:
        """Return the step of the present story whose description this text holds; None
        without one.
        """
        steps = self._story.steps if self._story is not None else ()
        return next((step for step in steps if step.description in tail), None)

    def _write_decision(
        self, recorded: StoryReply, story: Story | None, result: str, *, is_first: bool
    ) -> JsonObject:
        """A decision as a model writes it; the first of a story names what is asked for."""
        of_turn = story or self._story
        goal = of_turn.goal if of_turn is not None else recorded.says
        rationale = recorded.calls[0].reason if recorded.calls else goal
        says = recorded.says.replace("{next}", self._next_request(story))
        says = says.replace("{rate}", self._rate)
        decision: JsonObject = {
            "rationale": rationale,
            "reply": says.replace("{result}", result).strip(),
            "goal_consistency": {"ok": True, "reason": goal},
            "constraint_check": {"ok": True, "reason": rationale},
            "confidence": recorded.confidence,
            "step": recorded.phase,
            "next_step": recorded.next_step or ("continue" if recorded.calls else "done"),
            "prompt_pattern": "base_main_specialized" if recorded.calls else "base_main",
            "actions": [self._write_call(call) for call in recorded.calls],
        }
        if recorded.profile:
            decision["task_profile"] = recorded.profile
        if recorded.question:
            decision["question"] = {"text": recorded.question, "options": []}
        if is_first and story is not None and story.requirements:
            decision["requirements"] = [
                {
                    "requirement": each.text,
                    "priority": each.priority,
                    "check": self._fill_placeholders(each.check),
                }
                for each in story.requirements
            ]
            decision["state_delta"] = {"goal": story.goal, "why_now": story.why_now}
        return decision

    def _write_call(self, call: StoryCall) -> JsonObject:
        """Return a recorded call as an action of a decision."""
        action: JsonObject = {
            "operation": call.operation,
            "args": self._fill_placeholders(call.args),
            "reasoning": call.reason,
            "intent": call.intent,
        }
        if call.alternatives:
            action["alternatives"] = [{"label": label} for label in call.alternatives]
        return action

    def _fill_placeholders(self, args: JsonObject) -> JsonObject:
        """Return the arguments with the command of the tests and the named rate filled in."""
        command = self._command_of(self._story)
        filled = json.dumps(args, ensure_ascii=False).replace("{rate}", self._rate)
        return {
            name: value.replace("{command}", command) if isinstance(value, str) else value
            for name, value in json.loads(filled).items()
        }

    def _command_of(self, story: Story | None) -> str:
        """Return the command that runs the story's tests; all tests without a story."""
        return tests_command(self._command, story.tests if story is not None else "")

    def _next_request(self, story: Story | None) -> str:
        """Return the request of the story that comes next; empty for none."""
        return load_story(story.next, self._language).request if story and story.next else ""

    # --- other purposes ------------------------------------------------------------------------

    def _judge_requirements(self) -> JsonObject:
        """Return the judge's reply, with scores by what the project's files hold now."""
        requirements = self._story.requirements if self._story is not None else ()
        scores = {each.text: float(self._is_met(each)) for each in requirements}
        missing = [text for text, score in scores.items() if not score]
        overall = sum(scores.values()) / len(scores) if scores else 0.0
        good = overall >= _GOOD_FROM and not missing
        return {
            "overall_score": round(overall, 2),
            "requirement_scores": scores,
            "evidence": {each.text: [each.evidence] for each in requirements if scores[each.text]},
            "missing_aspects": missing,
            "grade": "good" if good else "needs_work",
            "quality_assessment": self._lines.judged_good if good else self._lines.judged_bad,
            "suggestions": [],
            "verdict": "approve" if good else "fix",
            "completion_recommendation": good,
        }

    def _is_met(self, requirement: Requirement) -> bool:
        """Whether the file of a requirement holds one of its parts; True where it names none, False
        where the file cannot be read.
        """
        if not requirement.holds:
            return True
        try:
            text = (self._workspace / requirement.evidence).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return False
        return any(part in text for part in requirement.holds)

    def _list_tasks(self, request: Request) -> JsonObject:
        """The calls of a step's next reply as a list of tasks; empty after the last."""
        step = self._find_step(request.text)
        if step is None:
            return {"tasks": []}
        take = self._takes.setdefault(("tasks", step.id), _Take(list(step.main)))
        calls = take.replies.pop(0).calls if take.replies else ()
        return {
            "tasks": [
                {
                    "operation": call.operation,
                    "args": self._fill_placeholders(call.args),
                    "description": call.intent,
                }
                for call in calls
            ]
        }

    def _answer_purpose(self, purpose: str, text: str) -> JsonObject | None:
        """Return the reply to a purpose that all stories share; None for another purpose."""
        lines, step = self._lines, self._find_step(text)
        summary = lines.report.replace("{step}", step.name if step is not None else "")
        answers: dict[str, JsonObject] = {
            "report": {
                "status": "completed", "summary": summary, "cause": "", "next_action": "",
            },
            "requirements": {"requirements": [], "dropped": self._list_dropped(text), "again": []},
            "missing": {
                "missing": [{"what": lines.judged_bad, "priority": 1}], "constraints": [],
                "suggested_improvements": [], "alternative_strategies": [],
            },
            "continuation": {"strategy": lines.failure, "steps": [lines.judged_bad]},
            "failure": {"cause": lines.failure, "fix": lines.spent.says, "retryable": False},
            "digest": {"digest": self._story.goal if self._story is not None else lines.free.says},
        }  # fmt: skip
        return answers.get(purpose)

    def _list_dropped(self, text: str) -> list[str]:
        """The requirements of the steps that the user took out, themselves or by the words of an
        answer beside the work.
        """
        changes = text.partition("<changes>")[2].partition("</changes>")[0]
        if self._story is None:
            return []
        asked = [aside.answer for aside in self._story.asides if aside.said in changes]
        changes += "".join(str(call.args) for answer in asked for call in answer.calls)
        gone = {step.id for step in self._story.steps if step.name in changes}
        return [each.text for each in self._story.requirements if each.step in gone]

    def _make_reply(self, thinks: str = "", **parts: Any) -> Reply:
        """Return a reply that takes about as long as a real one, or no time where the player is
        fast.
        """
        if self._fast:
            return Reply(reasoning=thinks, chunk_size=64, **parts)
        length = len(thinks) + len(json.dumps(parts, ensure_ascii=False))
        return Reply(
            reasoning=thinks,
            chunk_size=max(_SMALLEST_PIECE, round(length * _PIECE_S / _REPLY_S)),
            delay_s=_PIECE_S,
            first_delay_s=_PIECE_S * 20,
            **parts,
        )


def tests_command(command: str, modules: str) -> str:
    """The command that runs these modules of the project's tests; ``command`` runs them all."""
    return f"{command} {modules}".strip()


def _write_plan(story: Story) -> JsonObject:
    """Return the story's plan as a model writes it."""
    return {
        "name": story.plan_name,
        "goal": story.goal,
        "steps": [step.model_dump(exclude={"main"}, mode="json") for step in story.steps],
        "risk": "low",
        "success_criteria": list(story.criteria),
    }


def _list_conversation(body: JsonObject) -> list[JsonObject]:
    """The messages of a request without the app's note."""
    return [m for m in list_messages(body) if not _text_of(m).startswith(_NOTES)]


def _list_new_words(body: JsonObject) -> list[str]:
    """The user messages behind the last reply."""
    found: list[str] = []
    for message in reversed(_list_conversation(body)):
        if message.get("role") == "assistant":
            break
        if message.get("role") == "user":
            found.insert(0, _text_of(message).removeprefix(BESIDE_THE_WORK))
    return found


def _list_conversation_of(sent: str, body: JsonObject) -> list[JsonObject]:
    """The messages of a request up to this reply, and those behind it without later replies that
    call nothing, which are answers beside the work; none where the reply is not among them.
    """
    messages = _list_conversation(body)
    own = [at for at, message in enumerate(messages) if _is_reply(message, sent)]
    behind = own[-1] + 1 if own else 0
    after = [m for m in messages[behind:] if m.get("role") != "assistant" or _has_actions(m)]
    return [*messages[:behind], *after] if own else []


def _quote_result(sent: str, body: JsonObject) -> str:
    """The last lines of the newest result of the reply that was sent."""
    texts = list[str]()
    for message in _list_conversation_of(sent, body):
        if message.get("role") == "assistant":
            texts = []
        elif _is_result(message) or not texts:
            texts.append(_text_of(message))
    lines = texts[-1].splitlines() if texts else []
    return "\n".join([line for line in lines if any(map(str.isalnum, line))][-_RESULT_LINES:])


def _has_actions(message: JsonObject) -> bool:
    """Whether a reply calls an operation."""
    calls = message.get("tool_calls") or ()
    return any(call["function"]["name"] != DECIDE for call in calls)


def _is_reply(message: JsonObject, text: str) -> bool:
    """Whether this message is the reply with this text."""
    return message.get("role") == "assistant" and _is_received(text, {"messages": [message]})


def _is_result(message: JsonObject) -> bool:
    """Whether a message of the conversation is the result of a call, also of one of a list."""
    return message.get("role") == "tool" or _text_of(message).startswith(RESULT_OF)


def _is_received(text: str, body: JsonObject) -> bool:
    """Whether a reply with this text is part of the conversation."""
    begin = text.partition("\n")[0]
    return begin in (sent := all_text(body)) or json.dumps(begin, ensure_ascii=False)[1:-1] in sent


def _text_of(message: JsonObject) -> str:
    """Return the text of a message; empty for none."""
    return cast("str", message.get("content") or "")
