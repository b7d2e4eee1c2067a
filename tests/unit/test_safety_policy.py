"""One function judges every operation: the table of zones, operations and modes (R17, C16)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.model_words import WORDS

from duckflow_tui.safety.paths import Place
from duckflow_tui.safety.policy import (
    MAX_WRITE,
    Access,
    CallFact,
    Decision,
    Verdict,
    grant_for,
    judge_access,
)
from duckflow_tui.state.base import StateError
from duckflow_tui.state.gates import EDITS, ROUTINE, Gate, GateChoice, Grant, Impact
from duckflow_tui.state.operations import ApprovalMode, Effect, Risk, Zone

PLAN, STRICT, STANDARD, TRUSTED = ApprovalMode
A, G, D = Decision.ALLOW, Decision.GATE, Decision.DENY

READ, WRITE, MOVE, DELETE = Effect.READ, Effect.WRITE, Effect.MOVE, Effect.DELETE
RUN, REMOTE, STATE = Effect.EXECUTE, Effect.REMOTE, Effect.STATE


def place(
    name: str = "src/a.py", zone: Zone = Zone.INSIDE, *, exists: bool = True, **more: object
) -> Place:
    outside = zone is Zone.OUTSIDE
    real = Path(name if outside else f"/work/{name}")
    values: dict[str, object] = {"secret": zone is Zone.SECRET, **more}
    return Place(name, name, name, real, zone, exists, **values)  # type: ignore[arg-type] - test data


INSIDE = (place(),)
SECRET = (place(".env", Zone.SECRET),)
OUTSIDE = (place("/etc/hosts", Zone.OUTSIDE),)
PROTECTED = (place(".git/config", Zone.PROTECTED),)
NONE: tuple[Place, ...] = ()
NAMED, APPROVED = CallFact.NAMED, CallFact.APPROVED
HELD, UNHELD = CallFact.HELD, CallFact.UNHELD


@pytest.mark.parametrize(
    ("operation", "effect", "places", "facts", "cells"),
    [
        # read, list, search inside
        ("file_ops.read_file", READ, INSIDE, (), (A, A, A, A)),
        ("file_ops.search_text", READ, INSIDE, (), (A, A, A, A)),
        # read of a secret file or outside
        ("file_ops.read_file", READ, SECRET, (), (G, G, G, G)),
        ("file_ops.read_file", READ, OUTSIDE, (), (G, G, G, G)),
        ("file_ops.list_dir", READ, OUTSIDE, (), (G, G, G, G)),
        # write, edit, move inside
        ("file_ops.write_file", WRITE, INSIDE, (), (D, G, G, A)),
        ("file_ops.edit_file", WRITE, INSIDE, (), (D, G, G, A)),
        ("file_ops.move_file", MOVE, INSIDE * 2, (), (D, G, G, A)),
        ("file_ops.write_file", WRITE, SECRET, (), (D, G, G, G)),
        ("file_ops.move_file", MOVE, INSIDE + SECRET, (), (D, G, G, G)),
        # delete inside
        ("file_ops.delete_file", DELETE, INSIDE, (), (D, G, G, G)),
        ("file_ops.delete_file", DELETE, SECRET, (), (D, G, G, G)),
        # shell
        ("shell.run", RUN, INSIDE, (), (D, G, G, G)),
        ("shell.run", RUN, INSIDE, (NAMED,), (D, G, A, A)),
        ("shell.run", RUN, NONE, (), (D, G, G, G)),
        ("shell.run", RUN, OUTSIDE, (NAMED,), (D, G, G, G)),
        ("shell.run", RUN, INSIDE, (HELD,), (D, G, G, A)),
        ("shell.run", RUN, INSIDE, (HELD, NAMED), (D, G, A, A)),
        ("shell.run", RUN, OUTSIDE, (HELD,), (D, G, G, G)),
        ("shell.run", RUN, INSIDE, (UNHELD,), (D, G, G, G)),
        ("shell.run", RUN, INSIDE, (UNHELD, NAMED), (D, G, G, G)),
        ("shell.run", RUN, SECRET, (NAMED,), (D, G, G, G)),
        ("shell.output", READ, NONE, (), (A, A, A, A)),
        ("shell.end", STATE, NONE, (), (D, A, A, A)),
        ("shell.other", READ, NONE, (), (D, D, D, D)),
        # MCP
        ("mcp.docs.find", READ, NONE, (NAMED,), (G, G, A, A)),
        ("mcp.docs.add", REMOTE, NONE, (NAMED,), (D, G, A, A)),
        ("mcp.docs.find", READ, NONE, (), (G, G, G, G)),
        ("mcp.docs.find", READ, NONE, (APPROVED,), (G, G, A, A)),
        ("mcp.docs.add", REMOTE, NONE, (), (D, G, G, G)),
        ("mcp.docs.add", REMOTE, NONE, (APPROVED,), (D, G, G, G)),
        # outside
        ("file_ops.write_file", WRITE, OUTSIDE, (), (D, G, G, G)),
        ("file_ops.delete_file", DELETE, OUTSIDE, (), (D, G, G, G)),
        ("file_ops.move_file", MOVE, INSIDE + OUTSIDE, (), (D, G, G, G)),
        # protected
        ("file_ops.write_file", WRITE, PROTECTED, (), (D, D, D, D)),
        ("file_ops.read_file", READ, PROTECTED, (), (D, D, D, D)),
        ("file_ops.move_file", MOVE, INSIDE + PROTECTED, (), (D, D, D, D)),
        ("shell.run", RUN, PROTECTED, (NAMED,), (D, D, D, D)),
        ("shell.run", RUN, PROTECTED, (HELD,), (D, D, D, D)),
        # our own state
        ("plan_tool.propose", STATE, NONE, (), (A, A, A, A)),
        ("task_loop.run", STATE, NONE, (), (A, A, A, A)),
    ],
)
def test_the_table(
    operation: str,
    effect: Effect,
    places: tuple[Place, ...],
    facts: tuple[CallFact, ...],
    cells: tuple[Decision, ...],
) -> None:
    """Covers S4-64, S4-69, S4-83, S4-85, S4-86: the table of safety.md, cell by cell."""
    access = Access(operation, effect, places, facts=frozenset(facts))
    assert tuple(judge_access(access, mode).kind for mode in ApprovalMode) == cells


@pytest.mark.parametrize(
    ("operation", "effect", "places"),
    [
        ("file_ops.chmod", Effect.EXECUTE, INSIDE),
        ("file_ops.write_file", WRITE, NONE),
        ("file_ops.read_file", READ, NONE),
        ("net.fetch", READ, INSIDE),
        ("git.status", READ, NONE),
        ("xfile_ops.read_file", READ, INSIDE),
        ("", READ, INSIDE),
        ("plan_tool.propose", WRITE, INSIDE),
        ("file_ops.read_file", None, INSIDE),
    ],
)
@pytest.mark.parametrize("mode", list(ApprovalMode))
def test_what_no_row_speaks_about_is_denied(
    operation: str, effect: Effect | None, places: tuple[Place, ...], mode: ApprovalMode
) -> None:
    """R17: an unknown operation, or a known one doing something else, is a denial."""
    grants = [Grant(grant_id="g", operation=operation, path="src/a.py", gate_id="x")]
    verdict = judge_access(Access(operation, effect, places), mode, grants)
    assert (verdict.kind, verdict.reasons[0]) == (D, "unknown_operation")
    assert WORDS(verdict.told)


def test_a_denial_says_why() -> None:
    """R17, promise 8: a code for the screen and a sentence for the model."""
    plan = judge_access(Access("file_ops.write_file", WRITE, INSIDE), PLAN)
    assert plan.reasons[0] == "plan_mode"
    assert "Plan mode" in WORDS(plan.told)
    protected = judge_access(Access("file_ops.write_file", WRITE, PROTECTED), TRUSTED)
    assert protected.reasons[0] == "protected"
    assert ".git/config" in WORDS(protected.told)
    assert protected.risk is Risk.CRITICAL


# --- what asks in every mode -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("access", "reason"),
    [
        (Access("file_ops.write_file", WRITE, SECRET), "secret"),
        (
            Access("file_ops.write_file", WRITE, INSIDE, b"key = 'q7Lr2Vx9Tb4Nw8Kd'"),
            "secret_content",
        ),
        (
            Access("file_ops.write_file", WRITE, tuple(place(f"{n}.py") for n in range(10))),
            "wide_impact",
        ),
        (Access("file_ops.write_file", WRITE, INSIDE, b"", removed_lines=500), "bulk_data"),
        (
            Access("file_ops.write_file", WRITE, INSIDE, "x = 1 \u202e# 1".encode()),
            "hidden_characters",
        ),
        (
            Access("file_ops.write_file", WRITE, INSIDE, "k = '\u3164'".encode()),
            "hidden_characters",
        ),
        (
            Access("file_ops.write_file", WRITE, INSIDE, "p\u0430y = 1".encode()),
            "lookalike_letters",
        ),
        (Access("file_ops.delete_file", DELETE, INSIDE), "deletes"),
    ],
)
def test_what_always_needs_a_gate(access: Access, reason: str) -> None:
    """Covers S4-63: deletion, system files, bulk data, secrets and wide impact ask in trusted
    mode too, each time anew.
    """
    verdict = judge_access(access, TRUSTED)
    assert verdict.kind is G
    assert reason in verdict.reasons
    assert not verdict.can_grant_session
    assert verdict.risk.rank >= Risk.MEDIUM.rank


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        (place(".github/workflows/a.yml"), "dot_name"),
        (place("sub/Makefile"), "build_file"),
        (place("bin/tool", mode=0o755), "program"),
    ],
)
@pytest.mark.parametrize("mode", [STRICT, STANDARD, TRUSTED])
def test_what_others_act_on_asks_until_a_key_allows_this_file(
    at: Place, reason: str, mode: ApprovalMode
) -> None:
    """For the session or a step, never for later ones; no wider consent covers it."""
    edit = Access("file_ops.edit_file", WRITE, (at,))
    wide = (routine(), routine().replace(operation=EDITS, path=EDITS))
    asked = judge_access(edit, mode, wide, step_id="s1", keeps=True)
    assert (asked.kind, reason in asked.reasons) == (G, True)
    can = (asked.can_grant_session, asked.can_grant_step, asked.can_grant_project)
    assert can == (True, True, False)
    assert (asked.can_grant_routine, asked.grant_only) == (False, "")
    shown = gate(asked.grant_pattern)
    impact = shown.impact.model_copy(update={"reasons": asked.reasons})
    grant = grant_for(shown.replace(impact=impact), "g")
    assert judge_access(edit, mode, [grant]).kind is A
    # Given while the file was an ordinary one, or written into the project's file of rules.
    assert judge_access(edit, mode, [grant.replace(obeyed=False)]).kind is G
    assert judge_access(edit, mode, [grant.replace(source="project")]).kind is G
    other = place(f"{at.shown}/Makefile", mode=0o755)
    left_to_user = frozenset({CallFact.FOR_USER})
    for more in (
        replace(edit, places=(other,)),
        replace(edit, facts=left_to_user),
        replace(edit, content=KEY),
        replace(edit, removed_lines=500),
        Access("file_ops.write_file", WRITE, (at,)),
        Access("file_ops.delete_file", DELETE, (at,)),
    ):
        assert judge_access(more, mode, [grant]).kind is G


@pytest.mark.parametrize("text", ["привет, SQL-запрос за 5с", "Δx = 1", "日本語 is fine 한국어"])
def test_another_script_asks_nothing(text: str) -> None:
    verdict = judge_access(Access("file_ops.write_file", WRITE, INSIDE, text.encode()), TRUSTED)
    assert (verdict.kind, verdict.reasons) == (A, ())


@pytest.mark.parametrize(
    "access",
    [
        Access("file_ops.write_file", WRITE, INSIDE, b"x = 1\n"),
        Access("file_ops.write_file", WRITE, INSIDE, b"", removed_lines=499),
        Access("file_ops.write_file", WRITE, tuple(place(f"{n}.py") for n in range(9))),
        Access("file_ops.write_file", WRITE, INSIDE, b"MZ is a text"),
        Access("file_ops.write_file", WRITE, INSIDE, b"MZ" + b" " * 300 + b"\0"),
    ],
)
def test_an_ordinary_write_in_trusted_mode_asks_nothing(access: Access) -> None:
    verdict = judge_access(access, TRUSTED)
    assert (verdict.kind, verdict.risk, verdict.reasons) == (A, Risk.LOW, ())


def test_what_the_model_leaves_to_the_user_is_asked_for_that_reason() -> None:
    access = Access("file_ops.edit_file", WRITE, INSIDE, facts=frozenset({CallFact.FOR_USER}))
    assert judge_access(access, TRUSTED).reasons == ("for_user",)


# --- what is refused in every mode -----------------------------------------------------------


@pytest.mark.parametrize("mode", [STRICT, STANDARD, TRUSTED])
@pytest.mark.parametrize("name", ["x.exe", "x.EXE ", "lib/y.dll", "z.so", "setup.msi"])
def test_programs_are_not_written(name: str, mode: ApprovalMode) -> None:
    """C18, safety.md: a binary executable is refused, in any spelling, as target of a move too."""
    write = judge_access(Access("file_ops.write_file", WRITE, (place(name),), b"text"), mode)
    move = judge_access(Access("file_ops.move_file", MOVE, (place(), place(name))), mode)
    assert [v.reasons[0] for v in (write, move)] == ["binary_executable"] * 2
    assert {write.kind, move.kind} == {D}


@pytest.mark.parametrize(
    "content",
    [
        b"\x7fELF\x02\x01\x01",
        b"MZ\x90\x00\x03\x00",
        b"MZ" + b"x" * 253 + b"\0",
        b"\xcf\xfa\xed\xfe\x07",
        b"\xca\xfe\xba\xbe\0",
    ],
)
def test_programs_are_known_by_their_bytes(content: bytes) -> None:
    """C18: whatever the name says."""
    verdict = judge_access(Access("file_ops.write_file", WRITE, INSIDE, content), TRUSTED)
    assert (verdict.kind, verdict.reasons[0]) == (D, "binary_executable")


@pytest.mark.parametrize(
    ("operation", "effect", "places", "can"),
    [
        ("file_ops.write_file", WRITE, INSIDE, True),
        ("file_ops.move_file", MOVE, INSIDE * 2, True),
        ("file_ops.write_file", WRITE, NONE, False),
        ("file_ops.read_file", READ, (*SECRET, *SECRET), False),
        ("mcp.docs.find", READ, NONE, True),
        ("mcp.docs.find", READ, INSIDE * 2, False),
    ],
)
def test_only_edits_here_one_file_or_one_tool_can_be_allowed_for_the_session(
    operation: str, effect: Effect, places: tuple[Place, ...], can: bool
) -> None:
    assert judge_access(Access(operation, effect, places), STANDARD).can_grant_session is can


@pytest.mark.parametrize("mode", [STRICT, STANDARD, TRUSTED])
def test_a_link_that_leads_out_is_not_written_through(mode: ApprovalMode) -> None:
    """R02, promise 1: refused before a gate is opened that names only the link."""
    link = Place(
        "l", "l", "/etc/hosts", Path("/etc/hosts"), Zone.OUTSIDE, True, is_link=True, leads_out=True
    )
    write = judge_access(Access("file_ops.write_file", WRITE, (link,)), mode)
    assert (write.kind, write.reasons[0]) == (D, "link_out")
    read = judge_access(Access("file_ops.read_file", READ, (link,)), mode)
    assert (read.kind, read.risk) == (G, Risk.HIGH)


def test_a_program_may_be_read_and_deleted() -> None:
    exe = (place("x.exe"),)
    assert judge_access(Access("file_ops.read_file", READ, exe), STANDARD).kind is A
    assert judge_access(Access("file_ops.delete_file", DELETE, exe), STANDARD).kind is G


def test_the_size_limit() -> None:
    """Covers S4-87: at most 1 MB by default, and it is a setting."""

    def kind(size: int, limit: int = MAX_WRITE) -> Decision:
        access = Access("file_ops.write_file", WRITE, INSIDE, b"x" * size)
        return judge_access(access, TRUSTED, max_write=limit).kind

    assert kind(1_000_000) is A
    assert kind(1_000_001) is D
    assert kind(11, limit=10) is D
    assert kind(2_000_000, limit=3_000_000) is A
    key = b"token=q7Lr2Vx9Tb4Nw8Kd"  # one of that size is searched for secrets as any other
    asked = judge_access(
        Access("file_ops.write_file", WRITE, INSIDE, key), TRUSTED, max_write=len(key)
    )
    assert asked.reasons == ("secret_content",)
    kept = Access("file_ops.edit_file", WRITE, INSIDE, key + b"\nb = 1", before=key + b"\na = 1")
    assert judge_access(kept, TRUSTED).kind is A  # the change does not bring the key


# --- grants ----------------------------------------------------------------------------------


def gate(pattern: str, *, grantable: bool = True) -> Gate:
    return Gate(
        gate_id="gate_1",
        call_id="c",
        operation="file_ops.edit_file",
        args={},
        args_hash="h",
        effect=WRITE,
        intent="",
        why="",
        impact=Impact(),
        can_grant_session=grantable,
        grant_pattern=pattern,
        opened_at=0.0,
    )


def test_a_grant_allows_the_same_again_and_nothing_else() -> None:
    """Session grants: same operation and same real path."""
    asked = judge_access(Access("file_ops.edit_file", WRITE, INSIDE), STANDARD)
    assert (asked.kind, asked.can_grant_session) == (G, True)
    shown = gate(asked.grant_pattern).replace(grant_only=asked.grant_only)
    grant = grant_for(shown, "grant_1", GateChoice.ONLY)

    def kind(operation: str, at: Place, mode: ApprovalMode = STANDARD) -> Decision:
        return judge_access(Access(operation, WRITE, (at,)), mode, [grant]).kind

    assert kind("file_ops.edit_file", place()) is A
    assert kind("file_ops.edit_file", place(), STRICT) is A
    assert kind("file_ops.edit_file", place(), PLAN) is D
    assert kind("file_ops.edit_file", place("src/b.py")) is G
    assert kind("file_ops.write_file", place()) is G
    link = Place("src/a.py", "src/a.py", "other.py", Path("/work/other.py"), Zone.INSIDE)
    assert kind("file_ops.edit_file", link) is G


@pytest.mark.parametrize(
    ("access", "standard", "strict"),
    [
        (Access("file_ops.edit_file", WRITE, INSIDE), A, G),
        (Access("file_ops.write_file", WRITE, (place("new.py"),)), A, G),
        (Access("file_ops.move_file", MOVE, (place(), place("b.py"))), A, G),
        (Access("file_ops.edit_file", WRITE, (place("conftest.py"),)), G, G),
        (Access("file_ops.edit_file", WRITE, INSIDE, facts=frozenset({CallFact.FOR_USER})), G, G),
        (Access("file_ops.edit_file", WRITE, INSIDE, facts=frozenset({CallFact.WIDE})), G, G),
        (Access("file_ops.write_file", WRITE, SECRET), G, G),
        (Access("file_ops.write_file", WRITE, OUTSIDE), G, G),
        (Access("file_ops.write_file", WRITE, PROTECTED), D, D),
        (Access("file_ops.delete_file", DELETE, INSIDE), G, G),
        (Access("shell.run", RUN, INSIDE, command="pytest", facts=frozenset({HELD})), G, G),
    ],
)
def test_s_at_an_edit_allows_the_edits_of_the_folder_and_nothing_else(
    access: Access, standard: Decision, strict: Decision
) -> None:
    """In standard mode, for this session or one step; a rule that is kept names one file."""
    edit = Access("file_ops.edit_file", WRITE, INSIDE)
    asked = judge_access(edit, STANDARD, step_id="s1", keeps=True)
    shown = gate(asked.grant_pattern).replace(
        grant_only=asked.grant_only, can_grant_step=True, can_grant_project=True, step_id="s1"
    )
    session, step = (grant_for(shown, "g", c) for c in (GateChoice.SESSION, GateChoice.STEP))
    assert grant_for(shown, "g", GateChoice.PROJECT).path == "src/a.py"
    assert judge_access(access, STANDARD, [session]).kind is standard
    assert judge_access(access, STRICT, [session]).kind is strict
    assert judge_access(access, STANDARD, [step], step_id="s1").kind is standard
    assert judge_access(access, STANDARD, [step], step_id="s2").kind is not A
    assert judge_access(access, STANDARD, [session.replace(source="project")]).kind is not A
    assert judge_access(access, STANDARD, [session.replace(operation=access.operation)]).kind is (
        D if standard is D else G
    )


KEY = b"-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx7Lr2Vx9Tb4Nw8KdXz5Pq0Zm3Hs6Wc1\n"


def test_a_grant_never_covers_what_always_asks() -> None:
    grants = [
        Grant(grant_id="g", operation=operation, path=path, gate_id="x")
        for operation in ("file_ops.write_file", "file_ops.delete_file", "file_ops.move_file")
        for path in ("src/a.py", "/etc/hosts", ".env")
    ]
    for effect, operation, places, content in (
        (WRITE, "file_ops.write_file", OUTSIDE, b""),
        (WRITE, "file_ops.write_file", SECRET, b""),
        (WRITE, "file_ops.write_file", INSIDE, KEY),
        (DELETE, "file_ops.delete_file", INSIDE, None),
        (MOVE, "file_ops.move_file", INSIDE * 2, None),
    ):
        verdict = judge_access(Access(operation, effect, places, content), STANDARD, grants)
        assert verdict.kind is G, operation
        assert effect is MOVE or not verdict.can_grant_session
        assert not judge_access(
            Access(operation, effect, places, content), STANDARD, keeps=True
        ).can_grant_project


EDIT = Access("file_ops.edit_file", WRITE, INSIDE)


def routine() -> Grant:
    """What ``a`` gives, at the gate of an edit."""
    shown = gate(judge_access(EDIT, STANDARD).grant_pattern).replace(can_grant_routine=True)
    return grant_for(shown, "grant_1", GateChoice.ROUTINE)


@pytest.mark.parametrize(
    ("access", "standard", "strict"),
    [
        (EDIT, A, G),
        (Access("file_ops.write_file", WRITE, (place("other.txt"),)), A, G),
        (Access("file_ops.move_file", MOVE, (place(), place("b.py"))), A, G),
        (Access("shell.run", RUN, INSIDE, command="pytest -q", facts=frozenset({HELD})), A, G),
        (Access("shell.run", RUN, INSIDE, command="pytest -q"), G, G),
        (Access("shell.run", RUN, INSIDE, command="rm a.py", facts=frozenset({HELD})), A, G),
        (Access("shell.run", RUN, INSIDE, command="cat .env", facts=frozenset({HELD})), G, G),
        (Access("shell.run", RUN, INSIDE, command="pytest", facts=frozenset({UNHELD})), G, G),
        (Access("shell.run", RUN, INSIDE, None, frozenset({HELD}), hosts=("pypi.org",)), A, G),
        (Access("file_ops.delete_file", DELETE, INSIDE), G, G),
        (Access("file_ops.write_file", WRITE, SECRET), G, G),
        (Access("file_ops.write_file", WRITE, OUTSIDE), G, G),
        (Access("file_ops.write_file", WRITE, PROTECTED), D, D),
        (Access("file_ops.read_file", READ, SECRET), G, G),
        (Access("mcp.docs.add", REMOTE), G, G),
        (Access("file_ops.write_file", WRITE, (place("conftest.py"),)), G, G),
        (Access("file_ops.edit_file", WRITE, INSIDE, facts=frozenset({CallFact.FOR_USER})), G, G),
        (Access("file_ops.edit_file", WRITE, INSIDE, facts=frozenset({CallFact.WIDE})), G, G),
    ],
)
def test_one_consent_covers_edits_and_held_commands_in_standard_mode(
    access: Access, standard: Decision, strict: Decision
) -> None:
    """The key ``a``: nothing that trusted mode would ask about, and in strict mode nothing."""
    grants = (routine(),)
    if access.hosts:  # that commands may reach these is a consent of its own
        assert judge_access(access, STANDARD, grants).kind is G
        grants = (
            *grants,
            Grant(grant_id="h", operation="shell.run", path="*network pypi.org", gate_id=""),
        )
    assert (
        judge_access(access, STANDARD, grants).kind,
        judge_access(access, STRICT, grants).kind,
    ) == (
        standard,
        strict,
    )
    asked = judge_access(access, STANDARD, grants[1:])
    assert asked.can_grant_routine is (standard is A)
    assert not judge_access(access, STRICT, grants[1:]).can_grant_routine


def test_the_consent_to_edits_and_held_commands_is_a_key_of_this_session() -> None:
    """It is in no file of rules, only a gate that offers it gives it, and no path stands for it."""
    given = routine()
    assert (given.operation, given.path, given.source) == (ROUTINE, ROUTINE, "key")
    assert judge_access(EDIT, STANDARD, (given.replace(source="project"),)).kind is G
    named = Grant(grant_id="g", operation="file_ops.edit_file", path=ROUTINE, gate_id="gate_1")
    assert judge_access(EDIT, STANDARD, (named,)).kind is G
    with pytest.raises(StateError, match="cannot be granted"):
        grant_for(gate("file_ops.edit_file src/a.py"), "grant_1", GateChoice.ROUTINE)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("python3 -m pytest", A),
        ("python3 -m pytest -x tests/test_a.py && python3 -m pytest -q", A),
        ("python3 -m pip install x", G),
        ("python3 -c 'print(1)'", G),
        ("pytest -q", G),
        ("python3 -m pytest && ls", G),
    ],
)
def test_x_at_a_module_of_python_allows_this_module_alone(command: str, kind: Decision) -> None:
    def judge(line: str, *grants: Grant) -> Verdict:
        held = Access("shell.run", RUN, INSIDE, command=line, facts=frozenset({HELD}))
        return judge_access(held, STANDARD, grants)

    asked = judge("python3 -m pytest -q tests")
    shown = gate(asked.grant_pattern).replace(operation="shell.run", grant_only=asked.grant_only)
    assert judge(command, grant_for(shown, "g", GateChoice.ONLY)).kind is kind


HOSTS = Access("shell.run", RUN, INSIDE, None, frozenset({HELD}), hosts=("pypi.org",))


@pytest.mark.parametrize(
    ("access", "session", "in_step"),
    [
        (EDIT, True, True),
        (HOSTS, True, True),
        (Access("shell.run", RUN, INSIDE, command="make", root=Path("/work")), True, True),
        (Access("file_ops.write_file", WRITE, SECRET), False, False),
        (Access("file_ops.read_file", READ, SECRET), True, False),
        (Access("file_ops.read_file", READ, OUTSIDE), True, False),
        (Access("mcp.docs.find", READ), True, False),
        (Access("mcp.docs.add", REMOTE), False, False),
    ],
)
def test_what_a_key_may_allow_for_longer_than_once(
    access: Access, session: bool, in_step: bool
) -> None:
    """For the step only while one runs, for the project only where rules can be kept."""
    for step, keeps in (("s1", True), ("s1", False), ("", True), ("", False)):
        asked = judge_access(access, STANDARD, step_id=step, keeps=keeps)
        assert asked.kind is G
        can = (asked.can_grant_session, asked.can_grant_step, asked.can_grant_project)
        assert can == (session, in_step and bool(step), in_step and keeps)


def test_what_the_sandbox_holds_may_be_allowed_for_the_step_and_never_for_the_project() -> None:
    held = Access("shell.run", RUN, INSIDE, command="make", facts=frozenset({HELD}))
    asked = judge_access(held, STANDARD, step_id="s1", keeps=True)
    can = (asked.can_grant_session, asked.can_grant_step, asked.can_grant_project)
    assert can == (True, True, False)


def test_only_a_gate_that_offers_it_lets_a_key_allow_until_the_step_ends() -> None:
    shown = gate("file_ops.edit_file src/a.py").replace(step_id="s1")
    for bad in (shown, shown.replace(step_id="", can_grant_step=True)):
        with pytest.raises(StateError, match="gate_1"):
            grant_for(bad, "grant_1", GateChoice.STEP)
    given = grant_for(shown.replace(can_grant_step=True), "grant_1", GateChoice.STEP)
    assert (given.step_id, given.source) == ("s1", "key")


def test_the_record_names_the_rule_by_which_a_command_reaches_its_hosts() -> None:
    """And each other one that let it run; a rule of another operation says nothing of it."""
    network = Grant(grant_id="h", operation="shell.run", path="*network pypi.org a.org", gate_id="")
    other = network.replace(grant_id="o", path="*network b.org")
    for mode, grants, rules in (
        (TRUSTED, (network, other), ("h",)),
        (STANDARD, (network, other, routine()), ("grant_1", "h")),
    ):
        ruling = judge_access(HOSTS, mode, grants).ruling
        assert ruling is not None
        assert (ruling.said, ruling.code, ruling.rules) == ("allow", "granted", rules)
    held = Access("shell.run", RUN, INSIDE, command="make", facts=frozenset({HELD}))
    ruling = judge_access(held, TRUSTED, (network,)).ruling
    assert ruling is not None
    assert (ruling.said, ruling.code, ruling.rules) == ("allow", "", ())
    for foreign in (other, network.replace(operation="shell.other"), network.replace(step_id="s2")):
        assert judge_access(HOSTS, TRUSTED, (foreign,), step_id="s1").kind is G
    assert judge_access(HOSTS, TRUSTED, (network.replace(step_id="s1"),), step_id="s1").kind is A


def test_reading_a_secret_can_be_granted() -> None:
    asked = judge_access(Access("file_ops.read_file", READ, SECRET), TRUSTED)
    assert asked.grant_pattern == "file_ops.read_file .env"
    grant = Grant(grant_id="g", operation="file_ops.read_file", path=".env", gate_id="x")
    assert judge_access(Access("file_ops.read_file", READ, SECRET), TRUSTED, [grant]).kind is A


@pytest.mark.parametrize("pattern", ["", "file_ops.edit_file", "file_ops.write_file a.py"])
def test_a_gate_without_a_pattern_gives_no_grant(pattern: str) -> None:
    with pytest.raises(StateError, match="gate_1"):
        grant_for(gate(pattern), "grant_1")
    with pytest.raises(StateError, match="gate_1"):
        grant_for(gate("file_ops.edit_file a.py", grantable=False), "grant_1")


# --- commands ----------------------------------------------------------------------------------

ROOT = Path("/work")
HERE = (Place(".", ".", ".", ROOT, Zone.INSIDE, True, is_dir=True),)
SUB = (Place("sub", "sub", "sub", ROOT / "sub", Zone.INSIDE, True, is_dir=True),)


def command(
    line: str, *facts: CallFact, mode: ApprovalMode = STANDARD, grants: tuple[str, ...] = (),
    at: tuple[Place, ...] = HERE, step: str = "",
) -> Verdict:  # fmt: skip
    given = [Grant(grant_id="g", operation="shell.run", path=p, gate_id="x") for p in grants]
    access = Access("shell.run", RUN, at, facts=frozenset(facts), command=line, root=ROOT)
    return judge_access(access, mode, given, step_id=step)


def test_one_consent_lets_all_run_that_the_sandbox_holds() -> None:
    """Covers S4-64: asked once in standard mode, never in trusted, always in strict."""
    asked = command("make test > log", HELD)
    assert (asked.kind, asked.grant_pattern) == (G, "shell.run *sandbox")
    only = command("cd src && make -k test", HELD)
    assert (only.can_grant_session, only.grant_only) == (True, "")
    only = command("make -k test", HELD)
    assert (only.can_grant_session, only.grant_only) == (True, "shell.run *sandbox make …")
    assert command("make").grant_only == ""
    given = ("*sandbox",)
    for line in ("make test > log", "x=1; for i in *; do sh $i; done", "rm -rf *", "./run.sh"):
        assert command(line, HELD, grants=given).kind is A, line
        assert command(line, HELD, mode=TRUSTED).kind is A, line
        strict = command(line, HELD, mode=STRICT, grants=given)
        assert (strict.kind, strict.can_grant_session) == (G, False), line
        assert command(line, HELD, mode=PLAN, grants=given).kind is D, line
        assert command(line, grants=given).kind is G, line
        assert command(line, HELD, UNHELD, grants=given).kind is G, line


def test_a_key_for_a_program_allows_it_in_the_sandbox_with_whatever_words() -> None:
    """R05: and each command of a line needs one."""
    given = ("*sandbox make …", "*sandbox cd …")
    for line in ("make", "make -f other x", "cd src && make", "make 2>&1"):
        assert command(line, HELD, grants=given).kind is A, line
        assert command(line, HELD, grants=given, at=SUB).kind is A, line
        assert command(line, grants=given).kind is G, line
        assert command(line, HELD, UNHELD, grants=given).kind is G, line
    for line in ("make > log", "make && ls", "make $(ls)", "./make", "x=1 make", "'make …'"):
        assert command(line, HELD, grants=given).kind is G, line


@pytest.mark.parametrize(
    "line",
    ["make; f() { rm -r src", f"make # {'x' * 8_000}", f"make {'$(' * 7}ls{')' * 7}"],
    ids=["open", "long", "deep"],
)
def test_a_line_that_cannot_be_read_asks_each_time_in_the_sandbox_too(line: str) -> None:
    """R06: it may name a secret file."""
    for grants in ((), ("*sandbox",)):
        asked = command(line, HELD, mode=TRUSTED, grants=grants)
        assert (asked.kind, asked.grant_pattern) == (G, "")
        assert "not_readable" in asked.reasons


def test_letters_that_look_like_others_are_told_of_in_a_command_too() -> None:
    found = command("p\u0443test -q", mode=STANDARD)
    assert (found.kind, found.risk) == (G, Risk.HIGH)
    assert "lookalike_letters" in found.reasons


@pytest.mark.parametrize(
    ("line", "subject"),
    [
        ("make test", "make test"),
        ("make 'a b'", "make 'a b'"),
        ("git  status --short", "git status --short"),
        ("pytest -x 2>&1 | tail -20", "pytest -x | tail -20"),
        ("cd sub && make; ls", "cd sub && make ; ls"),
    ],
)
def test_without_a_sandbox_a_key_allows_this_very_line(line: str, subject: str) -> None:
    """R05."""
    asked = command(line, step="s1")
    assert (asked.kind, asked.can_grant_session, asked.can_grant_step) == (G, True, True)
    assert asked.grant_pattern == f"shell.run {subject}"
    assert command(line, grants=(subject,)).kind is A
    assert command(line, mode=TRUSTED, grants=(subject,)).kind is A
    assert command(line, mode=STRICT, grants=(subject,)).kind is G
    assert command(f"{line} x", grants=(subject,)).kind is G
    assert command(line, grants=(subject,), at=SUB).kind is G
    assert command(line, grants=(f"{subject} (in sub)",), at=SUB).kind is A
    behind = command(line, CallFact.BACKGROUND, grants=(subject,))
    assert (behind.kind, behind.grant_pattern) == (G, f"shell.run {subject} &")


@pytest.mark.parametrize("line", ["make > out", "make $(x)", "a=1 make", "x &", "cat a*", "a\nb"])
def test_without_a_sandbox_what_is_more_than_plain_words_is_allowed_once_only(line: str) -> None:
    found = command(line, step="s1", grants=(line, "make", "*sandbox"))
    assert (found.kind, found.can_grant_session, found.can_grant_step) == (G, False, False)


def test_a_rule_of_the_project_names_a_command_and_never_the_sandbox() -> None:
    """What holds it may be another sandbox next time, or none."""
    kept = Grant(
        grant_id="g", operation="shell.run", path="*sandbox", gate_id="x", source="project"
    )
    for fact, keeps in ((HELD, False), (NAMED, False), (None, True)):
        facts = frozenset({fact} if fact else ())
        access = Access("shell.run", RUN, HERE, facts=facts, command="make", root=ROOT)
        found = judge_access(access, STANDARD, [kept], keeps=True)
        assert (found.kind, found.can_grant_project) == (A if fact is NAMED else G, keeps)


# --- risk ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("access", "risk", "reasons"),
    [
        (Access("file_ops.read_file", READ, INSIDE), Risk.LOW, ()),
        (Access("file_ops.read_file", READ, OUTSIDE), Risk.MEDIUM, ("outside",)),
        (Access("file_ops.read_file", READ, SECRET), Risk.HIGH, ("secret",)),
        (Access("file_ops.write_file", WRITE, INSIDE, b"x"), Risk.LOW, ()),
        (
            Access("file_ops.write_file", WRITE, (place("run.SH"),), b"x"),
            Risk.MEDIUM,
            ("executable_extension",),
        ),
        (
            Access("file_ops.write_file", WRITE, (place("run"),), b"#!/bin/sh\n"),
            Risk.MEDIUM,
            ("executable_content",),
        ),
        (
            Access("file_ops.write_file", WRITE, (place("run.sh", mode=0o755),), b"#!/bin/sh\n"),
            Risk.HIGH,
            ("program",),
        ),
        (
            Access("file_ops.move_file", MOVE, (place("a.txt"), place("a.bat"))),
            Risk.MEDIUM,
            ("executable_extension",),
        ),
        (Access("file_ops.delete_file", DELETE, INSIDE), Risk.MEDIUM, ("deletes",)),
        (Access("file_ops.write_file", WRITE, OUTSIDE), Risk.HIGH, ("outside",)),
        (
            Access("file_ops.write_file", WRITE, (place("/opt/x.sh", Zone.OUTSIDE),)),
            Risk.CRITICAL,
            ("outside", "executable_extension"),
        ),
        (
            Access(
                "file_ops.read_file", READ, (place("/h/.ssh/id_rsa", Zone.OUTSIDE, secret=True),)
            ),
            Risk.CRITICAL,
            ("outside", "secret"),
        ),
        (
            Access("file_ops.write_file", WRITE, (place(is_link=True),)),
            Risk.MEDIUM,
            ("through_link",),
        ),
    ],
)
def test_the_risk_is_the_highest_of_operation_path_and_content(
    access: Access, risk: Risk, reasons: tuple[str, ...]
) -> None:
    """Covers S4-66, S4-84; C18: a script is one level more, not forbidden."""
    verdict = judge_access(access, STANDARD)
    assert (verdict.risk, verdict.reasons) == (risk, reasons)
