"""Collects the facts by which the judge scores a request: recorded events, each with a short id,
ordered by kind with the strongest evidence first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from duckflow_tui.prompting.lines import format_call
from duckflow_tui.state.base import ELLIPSIS, canonical_json, one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import UserMessage
from duckflow_tui.state.gates import ACCEPT, RUN_ALL, RUN_STEPS, Card, CardKind, CardMessage
from duckflow_tui.state.goal import Evidence, EvidenceKind, RequirementItem, TaskObjective
from duckflow_tui.state.operations import Effect, OperationSpec, Outcome
from duckflow_tui.state.plan import Plan, ReportMessage
from duckflow_tui.tools.operation import RUN

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState
    from duckflow_tui.work.checks import Finding

FactKind = Literal["change", "run", "check", "read", "reply", "user"]

#: The letter of the ids of each kind, and the kind of evidence as which it is shown on the screen.
_KINDS: Final[Mapping[FactKind, tuple[str, EvidenceKind]]] = {
    "change": ("C", "diff"),
    "run": ("R", "command"),
    "check": ("K", "file"),
    "read": ("S", "file"),
    "reply": ("P", "reply"),
    "user": ("U", "user"),
}

_MAX_TOTAL: Final = 60_000  # characters of all facts together
_MAX_HUNK: Final = 4_000  # characters of one hunk
_MAX_OUTPUT: Final = 1_500  # characters from the end of an output
_MAX_EXCERPT: Final = 1_500  # characters of an excerpt
_MAX_PARAGRAPH: Final = 1_200  # characters of a paragraph
_MAX_USER_WORDS: Final = 500
_MAX_EVIDENCE: Final = 600  # characters of a fact stored with a requirement
_PLAN_OPERATIONS: Final = (
    "plan_tool.",
    "task_loop.",
    "task_tool.",
)  # prefixes of operations whose results prove nothing

_YES: Final = (ACCEPT.action, RUN_ALL.action, RUN_STEPS.action)
#: Commands that run a test suite.
_TEST_SUITE: Final = re.compile(
    r"\b(?:pytest|unittest|tox|nox|ctest|jest|vitest|rspec|phpunit"
    r"|(?:go|cargo|npm|npm run|yarn|pnpm|mvn|gradle|dotnet|mix|make) (?:test|check))\b"
)

_FACT_ID: Final = re.compile(
    r"(?<![A-Za-z0-9])([CRKSPU])[-_ ]?(\d{1,3})(?![A-Za-z0-9])", re.IGNORECASE
)
_ENTRY_NUMBER: Final = re.compile(
    r"^\W*(?:entry|log|fact|line)?\s*#?(\d{1,3})\W*(?::|$)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One recorded event as evidence. ``ok``: whether it succeeded, None where that does not apply;
    ``suite``: it is a run of the project's tests; ``current``: no file was changed after it.
    """

    id: str
    kind: FactKind
    title: str
    text: str = ""
    source: str = ""  # a path or a command line
    call_id: str = ""
    at: float = 0.0
    ok: bool | None = None
    exit_code: int | None = None
    suite: bool = False
    current: bool = True
    requirement: str = ""  # id of the requirement that this checks

    @property
    def is_red_suite(self) -> bool:
        """Whether the project's tests failed on the files as they are now."""
        return self.suite and self.current and self.ok is False

    def make_evidence(self, *, supports: bool) -> Evidence:
        """Convert the fact to evidence to store with a requirement; ``supports``: whether it speaks
        for the requirement.
        """
        command = self.exit_code is not None
        return Evidence(
            kind="command" if command else _KINDS[self.kind][1],
            text=_keep_end(self.text, _MAX_EVIDENCE) if command else self.text[:_MAX_EVIDENCE],
            source=self.source or self.title,
            supports=supports,
            exit_code=self.exit_code,
            call_id=self.call_id,
            at=self.at,
            fact=self.id,
        )


def collect_facts(
    state: AgentState,
    objective: TaskObjective,
    net_change: str,
    reply: str,
    specs: Sequence[OperationSpec],
    words: Callable[..., str],
    findings: Mapping[str, Finding] | None = None,
) -> list[Fact]:
    """Collect the facts about the work on a request, strongest kinds first.

    ``net_change``: the diff of the files as ``tools.results.net_change`` writes it; ``reply``: all
    replies to the user on the request; ``words`` looks up texts for models; ``findings``: results
    of checks by requirement id.
    """
    calls = [
        m
        for m in state.messages
        if isinstance(m, OperationMessage) and m.at >= objective.created_at
    ]
    facts = [
        *_collect_changes(net_change),
        *_collect_runs(calls, specs, words),
        *_collect_checks(objective.extracted_requirements, findings or {}, words),
        *_collect_reads(calls, specs, whole=not net_change),
        *_collect_paragraphs(reply, words("facts.reply")),
        *_collect_user_words(state, objective, words),
    ]
    numbers: dict[str, int] = {}
    named: list[Fact] = []
    for fact in facts:
        letter = _KINDS[fact.kind][0]
        numbers[letter] = numbers.get(letter, 0) + 1
        named.append(replace(fact, id=f"{letter}{numbers[letter]}"))
    return _limit_total(named)


def find_followed_plan(state: AgentState) -> Plan | None:
    """Return the active plan if one of its steps was reported on since the request, else None."""
    plan, objective = state.active_plan, state.objective
    since = objective.created_at if objective is not None else 0.0
    reports = (m.report for m in state.messages if isinstance(m, ReportMessage) and m.at >= since)
    worked = plan is not None and any(report.plan_id == plan.plan_id for report in reports)
    return plan if worked else None


def format_facts(facts: Sequence[Fact]) -> str:
    """Format the facts for the judge: id and title on one line, the text indented below."""
    shown: list[str] = []
    for fact in facts:
        shown.append(f"{fact.id} {fact.title}")
        shown += [f"    {line}" for line in fact.text.split("\n") if fact.text]
    return "\n".join(shown)


def resolve_reference(reference: str, facts: Sequence[Fact]) -> list[Fact]:
    """Find the facts that a reference of the judge means: by ids in it, else by list number, path,
    command or quotation. Empty if none is found.
    """
    by_id = {fact.id: fact for fact in facts}
    named = _FACT_ID.findall(unicodedata.normalize("NFKC", reference))
    ids = [f"{letter.upper()}{number}" for letter, number in named]
    if found := [by_id[name] for name in ids if name in by_id]:
        return found
    words = reference.strip().strip("\"'`“”「」『』«»*[]() ")
    if number := _ENTRY_NUMBER.match(words):  # position in the list of facts, from 1
        at = int(number[1])
        if 0 < at <= len(facts):
            return [facts[at - 1]]
    where = words.partition(":")[0].partition(" ")[0].strip("`")
    for fact in facts:
        if fact.source and (where == fact.source or words == fact.source):
            return [fact]
        if where and fact.source.endswith(f"/{where}"):
            return [fact]
    plain = _normalize_text(words)
    for fact in facts if plain else ():
        if plain in _normalize_text(f"{fact.title}\n{fact.text}"):
            return [fact]
    return []


def _normalize_text(text: str) -> str:
    """Normalize a text for comparison with a quotation."""
    return "".join(text.split()).casefold()


def _keep_end(text: str, most: int) -> str:
    """Cut a text to its last ``most`` characters."""
    return text if len(text) <= most else f"{ELLIPSIS}\n{text[-most:]}"


def _collect_changes(net_change: str) -> list[Fact]:
    """Make a fact for each hunk of the diff, and for each changed file without hunks."""
    heads, *hunks = f"\n{net_change}".split("\n@@ ")
    found: list[Fact] = []
    hunk_paths = {hunk.partition(" ")[0] for hunk in hunks}
    for line in filter(None, heads.split("\n")):
        words = line.removeprefix("- ").split(" ")
        path = words[1] if len(words) > 1 else words[0]
        if path not in hunk_paths:
            found.append(Fact("", "change", line.removeprefix("- "), source=path))
    for hunk in hunks:
        head, _, lines = hunk.partition("\n")
        path, _, rest = head.partition(" ")
        number, _, heading = rest.partition(" ")
        title = f"{path} line {number} {heading}".strip()
        found.append(Fact("", "change", title, lines[:_MAX_HUNK], source=path))
    return found


def _collect_runs(
    calls: Sequence[OperationMessage], specs: Sequence[OperationSpec], words: Callable[..., str]
) -> list[Fact]:
    """Make facts of commands and other effects, newest last; of identical calls only the newest."""
    effects = {spec.name: spec.effect for spec in specs}
    found: dict[str, Fact] = {}
    last_change = max((n for n, m in enumerate(calls) if _changes_files(m)), default=-1)
    for number, message in enumerate(calls):
        reads = effects.get(message.operation) is Effect.READ
        if reads or message.for_requirement or message.operation.startswith(_PLAN_OPERATIONS):
            continue
        result = message.result
        if result.changes and message.operation != RUN:
            continue  # the changes themselves show it
        if result.outcome.is_refused or result.outcome is Outcome.SKIPPED:
            continue
        key = canonical_json([message.operation, message.args])
        found.pop(key, None)
        command = str(message.args.get("command", "")) if message.operation == RUN else ""
        title = one_line(format_call(message.operation, message.args), 300)
        if message.by_user:
            title = words("facts.run_by_user", call=title)
        current = number >= last_change
        code = result.exit_code
        end = f"exit {code}" if code is not None else result.outcome.value
        if not current:
            end = words("facts.run_outdated", end=end)
        went_well = result.outcome is Outcome.OK and code in (None, 0)
        found[key] = Fact(
            "",
            "run",
            f"{title} -> {end}",
            _keep_end(result.text.strip(), _MAX_OUTPUT),
            source=command or message.operation,
            call_id=message.call_id,
            at=message.at,
            ok=went_well,
            exit_code=code,
            suite=bool(command and _TEST_SUITE.search(command)),
            current=current,
        )
    return list(found.values())


def _changes_files(message: OperationMessage) -> bool:
    """Whether a call changed files of the work; files that a run of tests wrote do not count."""
    command = str(message.args.get("command", ""))
    touched = message.result.touched and not _TEST_SUITE.search(command)
    return bool(message.result.changes or touched)


def _collect_checks(
    items: Sequence[RequirementItem],
    findings: Mapping[str, Finding],
    words: Callable[..., str],
) -> list[Fact]:
    """Make a fact for each check that was run."""
    found: list[Fact] = []
    for item in items:
        finding = findings.get(item.requirement_id)
        if finding is None:
            continue
        check = words(f"facts.check_by_{'user' if item.by_user else 'worker'}")
        result = f"{item.requirement_id}, {finding.outcome}: {one_line(finding.words, 400)}"
        seen = finding.evidence
        found.append(
            Fact(
                "",
                "check",
                f"{check} {result}",
                seen.text if seen is not None and seen.exit_code is not None else "",
                source=item.check.value,
                call_id=seen.call_id if seen is not None else "",
                at=seen.at if seen is not None else 0.0,
                ok={"met": True, "refuted": False}.get(finding.outcome),
                exit_code=seen.exit_code if seen is not None else None,
                suite=item.check.kind == "command" and bool(_TEST_SUITE.search(item.check.value)),
                requirement=item.requirement_id,
            )
        )
    return found


def _collect_reads(
    calls: Sequence[OperationMessage], specs: Sequence[OperationSpec], *, whole: bool
) -> list[Fact]:
    """Make facts of calls that read. ``whole`` adds excerpts, for requests without changed files,
    where the reply is judged by what was read.
    """
    reads = {spec.name for spec in specs if spec.effect is Effect.READ}
    found: dict[str, Fact] = {}
    for message in calls:
        if message.operation not in reads or message.result.outcome not in (
            Outcome.OK,
            Outcome.ERROR,
        ):
            continue
        key = canonical_json([message.operation, message.args])
        found.pop(key, None)
        text = message.result.text.strip()
        went_well = message.result.went_well
        end = "" if went_well else f" -> {one_line(text, 200)}"
        found[key] = Fact(
            "",
            "read",
            one_line(format_call(message.operation, message.args), 300) + end,
            text[:_MAX_EXCERPT] if whole and went_well else "",
            source=str(message.args.get("path", "")),
            call_id=message.call_id,
            at=message.at,
            ok=went_well,
        )
    return list(found.values())


def _collect_paragraphs(reply: str, title: str) -> list[Fact]:
    """Make a fact of each paragraph of the reply."""
    parts = [part.strip() for part in re.split(r"\n\s*\n", reply) if part.strip()]
    return [Fact("", "reply", title, _keep_end(part, _MAX_PARAGRAPH)) for part in parts]


def _collect_user_words(
    state: AgentState, objective: TaskObjective, words: Callable[..., str]
) -> list[Fact]:
    """Make facts of the user's messages and decisions after the request, oldest first, and of the
    calls that no rule of theirs allows. A refusal, or such a call, is a fact with ``ok`` False.
    """
    found: list[Fact] = []
    followed = find_followed_plan(state)

    def add(name: str, text: str, at: float, call_id: str = "", **values: str) -> None:
        """Add a fact with the title ``facts.user_NAME``."""
        title, text = words(f"facts.user_{name}", **values), text.strip()[:_MAX_USER_WORDS]
        ok = False if name.startswith(("refused", "denied")) else None
        found.append(Fact("", "user", title, text, call_id=call_id, at=at, ok=ok))

    for message in state.messages:
        if message.at < objective.created_at:
            continue
        match message:
            case UserMessage() if message.message_id != objective.message_id:
                add("said", message.text, message.at)
            case OperationMessage(answer=answer, result=result):
                text = answer.full_text if answer is not None else ""
                forbidden = result.outcome.is_forbidden
                if forbidden or text.strip():
                    what = one_line(format_call(message.operation, message.args), 300)
                    name = "allowed"
                    if forbidden:
                        name = "refused" if result.outcome.is_refused else "denied"
                    add(name, text, message.at, message.call_id, what=what)
            case CardMessage(card=Card(kind=CardKind.PLAN), plan=Plan() as plan, answer=answer):
                steps = "\n".join(f"{n}. {step.name}" for n, step in enumerate(plan.steps, 1))
                if followed is not None and followed.plan_id == plan.plan_id:
                    steps = ""  # the question shows their current state
                name = "approved" if answer.action in _YES else "refused"
                text = "\n".join(filter(None, (answer.full_text.strip(), steps)))
                add(f"{name}_plan", text, message.at, plan=plan.name)
            case CardMessage(card=Card(kind=CardKind.PLAN_CHANGE), plan=Plan() as plan):
                name = "approved" if message.answer.action in _YES else "refused"
                add(f"{name}_change", message.answer.full_text, message.at, plan=plan.name)
            case CardMessage(answer=answer) if answer.full_text.strip():
                add("answered", answer.full_text, message.at, action=answer.action)
            case _:
                pass
    return found


def _limit_total(facts: list[Fact]) -> list[Fact]:
    """Shorten the texts of the last facts until all together fit into ``_MAX_TOTAL`` characters."""
    left = _MAX_TOTAL
    kept: list[Fact] = []
    for fact in facts:
        room = max(left - len(fact.title), 0)
        if len(fact.text) > room:
            fact = replace(fact, text=f"{fact.text[:room]}{ELLIPSIS}" if room > 80 else "")
        left -= len(fact.title) + len(fact.text)
        kept.append(fact)
    return kept
