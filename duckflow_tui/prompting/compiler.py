"""Compiles the state into a request to a model, its unchanging parts first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from duckflow_tui.prompting.background import (
    HANDLE,
    READ_FILE,
    SHARE,
    FileRead,
    format_files,
    frame_data,
)
from duckflow_tui.prompting.budget import (
    ASSUMED_CONTEXT,
    Budgets,
    Cuttable,
    Layer,
    ScriptCounter,
    Trim,
    fit_layers,
)
from duckflow_tui.prompting.layers import (
    UNSET,
    LongMemory,
    ModeChoice,
    aside_values,
    execution_values,
    main_values,
    planning_values,
    review_values,
    session_values,
    step_values,
)
from duckflow_tui.prompting.lines import (
    escape_frame,
    filter_usable,
    frame_text,
    is_always_offered,
    operation_lines,
    operation_names,
    schema_text,
)
from duckflow_tui.prompting.templates import load_texts
from duckflow_tui.prompting.threads import Threads, full_share, step_of_thread
from duckflow_tui.prompting.window import KEPT, Overflow, View, measure_parts, message_tokens
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Frozen, one_line
from duckflow_tui.state.conversation import NoticeMessage
from duckflow_tui.state.decision import MAX_ACTIONS, MAX_ALTERNATIVES, PromptPattern
from duckflow_tui.state.memory import (
    ITEM,
    LINE,
    MAX_CONSTRAINTS,
    MAX_OPEN_QUESTIONS,
    MAX_PLAN_BRIEF,
    Compaction,
)
from duckflow_tui.state.operations import OperationSpec, Permissions
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.prompt import LayerUse, Prompt
from duckflow_tui.state.session import HOLDS

REPLY_SHARE: Final = 0.2  # of the window, kept for the reply and for errors of the estimate
MOST_REPLY: Final = 16_384  # tokens; more than this is not kept free
SMALLEST_ROOM: Final = 512  # tokens; a window this small cannot be worked in anyway
#: Parts of what a request was thought to take that a server may report: a smaller count means that
#: it cut the request. No tokenizer takes less than half of the first estimate; once a model has
#: counted some requests, its estimates come near to what it counts, by half the way each time.
REPORTED_FIRST: Final = 0.5
REPORTED: Final = 0.65
LEAST_REPORTED: Final = 512  # tokens; a count below is no window, but nonsense
USUAL_WINDOWS: Final = (2_048, 4_096, 8_192)  # tokens; those of Ollama, by its version and memory
AFTER_REFUSAL: Final = 0.7  # of what was refused as too long is what is sent next

_LIMITS: Final = {
    "max_actions": str(MAX_ACTIONS),
    "max_alternatives": str(MAX_ALTERNATIVES),
    "line": str(LINE),
    "item": str(ITEM),
    "max_constraints": str(MAX_CONSTRAINTS),
    "max_plan_brief": str(MAX_PLAN_BRIEF),
    "max_open_questions": str(MAX_OPEN_QUESTIONS),
    "also": "-",
}
#: What of them a small window is told.
_FEW_LIMITS: Final = dict.fromkeys(_LIMITS, "") | {
    name: _LIMITS[name] for name in ("max_actions", "max_alternatives")
}

#: Tokens of a window up to which a request is written short: fewer operations and rules, no
#: specialized layer. The whole fixed part, some 2,500 tokens, leaves little of less.
SMALL_WINDOW: Final = 8_192
_SMALL: Final = {"base": 200, "main": 400, "specialized": 0, "project": 300}  # tokens of the layers
RUN: Final = "shell.run"
#: What reads, edits and runs; beside them a small window is told of what serves work under way.
_FEW: Final = frozenset({
    "file_ops.read_file", "file_ops.list_dir", "file_ops.search_text", "file_ops.write_file",
    "file_ops.edit_file", "shell.run",
})  # fmt: skip


class _Stable(Frozen):
    """The parts of a request that never change within a session, so that servers can cache them.
    Operations that become usable later are listed at the end of a request instead.
    """

    operations: tuple[OperationSpec, ...]
    small: bool  # the window, so that it is told of less
    instructions: str
    budgets: Budgets
    sections: tuple[str, ...]
    formats: dict[str, str]
    uses: tuple[LayerUse, ...]  # before the model's factor
    tokens: int  # of all of it but base, which its budget has, before the model's factor


class PromptCompiler:
    """Compiles the requests of one session. Its only state is where the sent history begins,
    learned limits, and the values that the app sets on it.
    """

    def __init__(
        self,
        folder: Path,
        language: str,
        budgets: Budgets,
        counter: ScriptCounter,
        *,
        mode: ModeChoice = "auto",
        memory: Callable[[], LongMemory] = LongMemory,
    ) -> None:
        """Read the files of ``folder/<language>``. Raises TemplateError where one is unusable.

        ``mode`` is how plans are carried out; ``memory`` returns the memory of earlier sessions.
        """
        self._mode: ModeChoice = mode
        self._memory = memory
        self.permissions = Permissions()  # as the policy judged last
        self.texts = load_texts(folder, language)
        self.budgets = budgets
        self._short = budgets.model_copy(
            update={name: min(getattr(budgets, name), most) for name, most in _SMALL.items()}
        )
        self._counter = counter
        self._base = self.texts["base"].render()
        self._threads = Threads(
            counter,
            self._left_out,
            self._make_digest_message,
            self._left_line,
        )
        self.instructions = ""  # the project's own, once the user trusts them
        self.overview: tuple[str, ...] = ()  # of the project, for the first request of a session
        #: The files that the work is about, as they are now, where the history no longer has them:
        #: sent behind it.
        self.in_hand: tuple[FileRead, ...] = ()
        self._full: dict[str, tuple[int, int]] = {}
        """Of each model the last count that fills a usual window, and what was sent, in tokens."""
        self._stable: dict[bool, _Stable] = {}  # by whether the window is small
        self._refused: dict[tuple[str, str], int] = {}  # (endpoint, model) → tokens that fit

    def compile(
        self,
        state: AgentState,
        operations: Sequence[OperationSpec],
        *,
        pattern: PromptPattern = PromptPattern.BASE_MAIN,
        thread: str = "",
        aside: bool = False,
        answers: str = "",
        window: int = 0,
    ) -> Prompt:
        """Compile the next request for the conversation, a plan's step or an aside.

        ``pattern`` is the layers that the last decision asked for (S4-72, S4-75). ``thread`` is the
        id of the step whose next action is asked for. ``aside`` asks for an answer to the user
        beside running work: to the message with the id ``answers``, or to all waiting ones.
        ``window`` is the context of the model in tokens; 0: that of the main model. Raises
        ValueError for an unknown step, or for ``thread`` and ``aside`` together.

        ``uses`` of the result lists the parts in order: base, operations, project, format, history,
        main, specialized; a budget of 0 means no limit.
        """
        if thread and aside:
            raise ValueError("an aside belongs to the conversation, not to a step")
        stable, factor, room = self._measure_room(state, operations, window)
        whole = self._message_limit(state, window)
        code = None if aside or not self.in_hand else self._make_code_message(room)
        spare = 0 if code is None else message_tokens(code, self._counter.count)
        view = self._threads.make_view(state, aside, room - spare, whole, answers)
        if code is not None:
            sizes = (*view.sizes, spare)
            view = replace(
                view, history=(*view.history, code), sizes=sizes, tokens=view.tokens + spare
            )
        others = tuple(spec for spec in operations if spec not in stable.operations)
        hand = filter_usable(others, state, bool(thread), aside, self._memory().noted)
        if stable.small:
            hand = tuple(spec for spec in hand if not is_always_offered(spec))
        layers = self._make_layers(
            state, stable, view, pattern, thread, aside, answers, hand, operations
        )
        session, *rest = fitted = fit_layers(layers, self._counter.count, factor)
        uses = [
            use.model_copy(update={"tokens": math.ceil(use.tokens * factor)}) for use in stable.uses
        ]
        history = LayerUse(
            layer="history",
            tokens=math.ceil(view.tokens * factor),
            budget=math.ceil(view.room * factor),
            trimmed=("conversation",) if view.digests else (),
        )
        main, *specialized = rest
        turn = state.turn.turn_id if state.turn is not None else ""
        return Prompt(
            system="\n\n".join(stable.sections),
            sections=stable.sections,
            formats=stable.formats,
            history=view.history,
            tail="\n\n".join(part.text for part in (session, *specialized, main)),
            operations=stable.operations,
            at_hand=hand,
            known=tuple(operations),
            pattern=pattern,
            uses=(session.use, *uses, history, *(part.use for part in rest)),
            parts=measure_parts(
                view,
                self._counter.count(self._base),
                uses,
                layers,
                fitted,
                stable.operations,
                self._counter.count,
                factor,
            ),
            sizes=tuple(math.ceil(size * factor) for size in view.sizes),
            thread=thread or (f"aside {answers}" if aside else turn),
            tight=view.tight and not aside,
        )

    def shrink_after_refusal(self, state: AgentState, prompt: Prompt) -> bool:
        """Lower the limit of the session's model after its endpoint refused ``prompt`` as too long
        (S4-80). Returns False where the history has nothing left to leave out.
        """
        sent = prompt_tokens(prompt)
        model = (state.session.endpoint, state.session.model)
        self._refused[model] = int(sent * AFTER_REFUSAL)
        history = next(use.tokens for use in prompt.uses if use.layer == "history")
        return len(prompt.history) > 1 or history > sent * (1 - AFTER_REFUSAL)

    def find_overflow(
        self,
        state: AgentState,
        operations: Sequence[OperationSpec],
        *,
        keep: float = KEPT,
        always: bool = False,
    ) -> Overflow | None:
        """Return the part of the conversation to compact before the next request, so that the share
        ``keep`` of its room is used afterwards; None where it still fits, unless ``always``.
        """
        _, factor, room = self._measure_room(state, operations)
        spare = 0
        if self.in_hand:
            spare = message_tokens(self._make_code_message(room), self._counter.count)
        cut = self._threads.find_overflow(
            state,
            room - spare,
            self._message_limit(state),
            full=0.0 if always else full_share(state),
            keep=keep,
            inside=always,
        )
        if cut is None:
            return None
        tokens, left = math.ceil(cut.tokens * factor), math.ceil(cut.left * factor)
        room, context = int(cut.room * factor), self._request_limit(state)
        return replace(cut, tokens=tokens, left=left, room=room, context=context)

    def measure_undo(
        self, state: AgentState, operations: Sequence[OperationSpec]
    ) -> tuple[int, int]:
        """Return the tokens of the conversation if its newest compaction were undone, and the
        tokens that fit.
        """
        _, factor, room = self._measure_room(state, operations)
        tokens = self._threads.without_newest(state)
        return math.ceil(tokens * factor), int(room * factor)

    def count_tokens(self, state: AgentState, text: str) -> int:
        """Estimate the tokens of a text for the session's main model."""
        return math.ceil(self._counter.count(text) * self._counter.factor(state.session.model))

    def learn(self, state: AgentState, prompt: Prompt, tokens_in: int) -> bool:
        """Correct the model's token estimates by the count ``tokens_in`` that the server reported
        for ``prompt``. Returns False where the count is so low that the server must have cut the
        request; then nothing is learned. Neither is it from pictures: each maker counts them in
        its own way.
        """
        if any(m.kind == "operation" and m.result.images for m in prompt.history):
            return True
        model, sent = state.session.model, prompt_tokens(prompt)
        least = REPORTED_FIRST if self._counter.factor(model) == 1.0 else REPORTED
        if tokens_in < least * sent:
            return tokens_in < LEAST_REPORTED
        if tokens_in < sent and is_usual_window(tokens_in):
            counted, size = self._full.get(model, (0, 0))
            self._full[model] = tokens_in, sent
            return counted != tokens_in or sent <= size  # a longer one counted the same was cut
        self._counter.learn(model, sent, tokens_in)
        return True

    def _stable_part(
        self, state: AgentState, operations: Sequence[OperationSpec], small: bool
    ) -> _Stable:
        """Return the unchanging part of requests for a large or a ``small`` window, built once for
        each.
        """
        if (kept := self._stable.get(small)) is not None:
            return kept
        budgets, limits = self.budgets, _LIMITS
        operations = tuple(filter(is_always_offered, operations))
        if small:
            budgets, limits = self._short, _FEW_LIMITS
            operations = tuple(spec for spec in operations if spec.name in _FEW)
        texts, count, instructions = self.texts, self._counter.count, self.instructions
        workspace = one_line(state.session.workspace, LINE)
        working = texts["operations"].render({"workspace": workspace})
        project, cut = self._cut_instructions(instructions, budgets.project)
        listed = operation_lines(operations, arguments=not small)
        rare = [spec for spec in operations if spec.listed]
        formats = {
            "json": texts["format_json"].render({**limits, "operations": listed}),
            "tools": texts["format_tools"].render({**limits, "operations": operation_lines(rare)}),
        }
        largest = max(
            count(formats["json"]), count(formats["tools"]) + count(schema_text(operations))
        )
        project_tokens, working_tokens = count(project), count(working)
        made = _Stable(
            operations=operations,
            small=small,
            instructions=instructions,
            budgets=budgets,
            sections=(self._base, working, project),
            formats=formats,
            uses=(
                LayerUse(layer="operations", tokens=working_tokens, budget=0),
                LayerUse(
                    layer="project",
                    tokens=project_tokens,
                    budget=budgets.project,
                    trimmed=("project",) if cut else (),
                ),
                LayerUse(layer="format", tokens=largest, budget=0),
            ),
            tokens=working_tokens + project_tokens + largest,
        )
        self._stable[small] = made
        return made

    def project_rules(self) -> str:
        """Return the project's instructions as they are shown to models; empty where there are
        none.
        """
        rules = self.instructions
        return self._cut_instructions(rules, self.budgets.project)[0] if rules.strip() else ""

    def _cut_instructions(self, instructions: str, most: int) -> tuple[str, bool]:
        """Cut the project's instructions at the end to ``most`` tokens, before the model's factor.
        Returns the text, and whether it was cut.
        """
        text = instructions.strip()
        if not text:
            return self.texts["no_project"].render(), False
        text = escape_frame(text, "project_instructions")
        size = self._counter.count(text)
        if size <= most:
            return self.texts["project"].render({"instructions": text}), False
        keep = int(len(text) * most / size)
        note = self._left_out(len(text) - keep, "")
        return self.texts["project"].render({"instructions": f"{text[:keep]}\n{note}"}), True

    def _measure_room(
        self,
        state: AgentState,
        operations: Sequence[OperationSpec],
        window: int = 0,
    ) -> tuple[_Stable, float, int]:
        """Return the stable part, the model's factor, and the tokens left for the conversation
        before that factor.
        """
        context = self._request_limit(state, window)
        small = context <= request_room(SMALL_WINDOW)
        stable = self._stable_part(state, operations, small)
        factor = self._counter.factor(state.session.model)
        tail = stable.budgets.base + stable.budgets.main + stable.budgets.specialized
        return stable, factor, max(int((context - tail) / factor) - stable.tokens, SMALLEST_ROOM)

    def _request_limit(self, state: AgentState, window: int = 0) -> int:
        """Return the most tokens a request may have: the window without the reply's share, or less,
        as learned from a refusal.
        """
        context = request_room(window or state.usage.context_window)
        model = (state.session.endpoint, state.session.model)
        return min(context, self._refused.get(model, context))

    def _message_limit(self, state: AgentState, window: int = 0) -> int:
        """Return the tokens, before the model's factor, above which a message of the user is cut in
        its middle.
        """
        context = window or state.usage.context_window or ASSUMED_CONTEXT
        return int(context / SHARE / self._counter.factor(state.session.model))

    def _left_out(self, characters: int, call_id: str) -> str:
        """Return the note for ``characters`` cut out of a result; it says how to read them."""
        known = any(o.name == READ_FILE for s in self._stable.values() for o in s.operations)
        return self.texts["left_out"].render(
            {
                "characters": str(characters),
                "handle": f"{HANDLE}{call_id}" if known and call_id else "",
                "op_read": READ_FILE if known and call_id else "",
            }
        )

    def _left_line(self, about: str) -> str:
        """Return the line that replaces a whole result that was left out to save room."""
        return self.texts["left_line"].render({"about": about})

    def _make_digest_message(self, compaction: Compaction) -> NoticeMessage:
        """Return the digest of a compaction as the first message of the history."""
        digest = frame_text("digest", compaction.digest)
        return NoticeMessage(
            message_id=compaction.compaction_id,
            key="context.digest",
            for_model=self.texts["compacted"].render({"digest": digest}),
            at=compaction.at,
        )

    def _make_code_message(self, room: int) -> NoticeMessage:
        """Return the present contents of the files in hand as a message, in at most a quarter of
        ``room`` tokens.
        """
        text = format_files(self.in_hand, room // SHARE, self._counter.count)
        return NoticeMessage(
            message_id="code",
            key="context.code",
            for_model=self.texts["in_hand"].render({"files": frame_data("files", text)}),
            at=0.0,
        )

    def _make_layers(
        self,
        state: AgentState,
        stable: _Stable,
        view: View,
        pattern: PromptPattern,
        thread: str,
        aside: bool,
        answers: str,
        hand: tuple[OperationSpec, ...],
        known: Sequence[OperationSpec],
    ) -> list[Layer]:
        """Return the layers that change with each request: base, main and specialized.

        ``hand``: operations outside the stable part that are usable now; ``known``: all operations.
        """
        values, cut = session_values(state, self._memory(), view.digests)
        values["at_hand"] = operation_lines(hand)
        changed = self.instructions != stable.instructions
        most = stable.budgets.project
        values["project"] = self._cut_instructions(self.instructions, most)[0] if changed else ""
        fixed, operations, budgets = (
            self._counter.count(self._base),
            (*stable.operations, *hand),
            stable.budgets,
        )
        layers = [Layer("base", budgets.base, self.texts["session"], values, cut, fixed)]
        both = budgets.main + budgets.specialized
        recovery = ""  # how to go on after an operation failed
        if state.status is Status.ERROR:
            error = {"error": one_line(state.status_detail, LINE)}
            recovery = self.texts["recovery"].render(error)
        approval = self._describe_approval(state)
        whole = view.tight or state.compaction is not None
        if thread:
            step = step_of_thread(state, thread)
            values, cut = step_values(state, *step, known, view.digests, whole=whole)
            rules, lessons = execution_values(state)
            rules |= {"plan": "", "step": "", "learned": "\n".join(lessons["learned"].items)}
            values |= {"execution": self.texts["execution"].render(rules)}
            values |= {"recovery": recovery, "mode": approval}
            layers.append(Layer("main", both, self.texts["step"], values, cut))
        elif aside:
            values, cut = aside_values(state, operations, view.digests, answers)
            values |= {"mode": approval}
            layers.append(Layer("main", both, self.texts["aside"], values, cut))
        else:
            values, cut = main_values(state, view.digests, self._mode, whole=whole)
            values |= {"recovery": recovery, "mode": approval}
            first = state.last_turn is None and (state.turn is None or state.turn.loop <= 1)
            cut["overview"] = Cuttable(Trim.EVIDENCE, self.overview if first else ())
            layers.append(Layer("main", budgets.main, self.texts["main"], values, cut))
            if pattern is PromptPattern.BASE_MAIN_SPECIALIZED and budgets.specialized:
                layers.extend(self._make_specialized_layers(state, operations))
        return layers

    def _describe_approval(self, state: AgentState) -> str:
        """Describe which operations run at once and which ask the user first, as the policy decided
        last.
        """
        now, session = self.permissions, state.session
        asks, runs, refused = (
            ", ".join(name.removeprefix("file_ops.") for name in names)
            for names in (now.asks, now.runs, now.refused)
        )
        held = RUN in (*now.runs, *now.asks) and session.sandbox in HOLDS
        return self.texts["approval"].render({
            "mode": state.mode.value,
            "runs": runs,
            "asks": "" if session.headless else asks,
            "refused": refused,
            "named": ", ".join(now.besides),
            "held": session.sandbox if held else "",
            "alone": (asks or UNSET) if session.headless else "",
        })  # fmt: skip

    def _make_specialized_layers(
        self, state: AgentState, operations: tuple[OperationSpec, ...]
    ) -> list[Layer]:
        """Return the layer of the current phase; empty where the phase has none."""
        match state.phase:
            case Phase.PLANNING:
                template = self.texts["planning"]
                values, cut = planning_values(state, operation_names(operations)["op_propose"])
            case Phase.EXECUTION:
                template, (values, cut) = self.texts["execution"], execution_values(state)
            case Phase.REVIEW:
                template, (values, cut) = self.texts["review"], review_values(state)
            case _:
                return []
        return [Layer("specialized", self.budgets.specialized, template, values, cut)]


def is_usual_window(tokens: int) -> bool:
    """Whether a server's count equals a default window of local servers (2,048, 4,096 or 8,192
    tokens), or is one less: the server has probably cut the request to it.
    """
    return any(size - 1 <= tokens <= size for size in USUAL_WINDOWS)


def request_room(window: int) -> int:
    """Return the tokens a request may have in a context of ``window`` tokens, the reply's share
    taken off; 0 stands for an assumed window.
    """
    context = window or ASSUMED_CONTEXT
    return context - min(int(context * REPLY_SHARE), MOST_REPLY)


def prompt_tokens(prompt: Prompt) -> int:
    """Return the estimated tokens of a compiled request, the sum of its parts."""
    return sum(use.tokens for use in prompt.uses)
