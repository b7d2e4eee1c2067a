"""What else a call may be: tried again, part of a plan's step, run by the user."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.bench import Bench, done

from duckflow_tui.state.base import StateError
from duckflow_tui.state.gates import EDITS, GateChoice
from duckflow_tui.state.operations import ApprovalMode, Effect, Outcome
from duckflow_tui.tools.operation import (
    Arguments,
    Operation,
    Output,
    Registry,
    ToolContext,
    ToolFault,
    Work,
)

WRITE = "file_ops.write_file"


class _Nothing(Arguments):
    pass


@pytest.mark.parametrize(
    ("effect", "failures", "transient", "calls", "text"),
    [
        (Effect.READ, 2, True, 3, "[tried 3 times; before: not now]\nthere"),
        (Effect.READ, 3, True, 3, "not now It was tried 3 times."),
        (Effect.READ, 1, False, 1, "not now"),
        (Effect.REMOTE, 1, True, 1, "not now"),  # may have had an effect
    ],
)
async def test_only_a_read_is_tried_again_and_only_after_a_transient_fault(
    tmp_path: Path, effect: Effect, failures: int, transient: bool, calls: int, text: str
) -> None:
    """Covers S3-22."""
    made = 0

    async def prepare(args: _Nothing, places: object, context: ToolContext) -> Work:
        async def run() -> Output:
            nonlocal made
            made += 1
            if made <= failures:
                raise ToolFault("text", text="not now", transient=transient)
            return Output("there")

        return Work(run)

    name = "shell.output" if effect is Effect.READ else "mcp.shop.buy"
    operation = Operation(
        name=name,
        summary="Fails, then works.",
        effect=effect,
        arguments=_Nothing,
        paths=lambda args: (),
        prepare=prepare,
        retries=2,
    )
    bench = Bench(tmp_path, registry=Registry([operation]))
    bench.router.retry_after_s = 0.0
    call = bench.call if effect is Effect.READ else bench.approved
    message = await call(name)
    assert (made, message.result.text) == (calls, text)


async def test_consent_for_a_step_holds_for_edits_in_that_step_alone(tmp_path: Path) -> None:
    """Covers S4-69."""
    bench = Bench(tmp_path)

    def begin(step_id: str, path: str = "a.txt", text: str = "") -> asyncio.Task[object]:
        action = bench.action(WRITE, path=path, content=f"{step_id}{text}\n")
        return asyncio.create_task(bench.router.call(action, step_id=step_id))

    first = begin("step_1")
    gate = await bench.gate()
    assert gate.can_grant_step
    assert gate.step_id == "step_1"
    await bench.answer(gate, GateChoice.STEP)
    await done(first)
    (grant,) = bench.store.state.grants
    assert (grant.step_id, grant.path) == ("step_1", EDITS)
    await done(begin("step_1", text=" again"))
    await done(begin("step_1", "b.txt"))
    assert (tmp_path / "b.txt").read_text() == "step_1\n"
    assert (tmp_path / "a.txt").read_text() == "step_1 again\n"
    for step_id, path in (("step_2", "b.txt"), ("step_2", "a.txt"), ("", "a.txt")):
        task = begin(step_id, path, " other")
        gate = await bench.gate()
        assert gate.can_grant_step is bool(step_id)
        await bench.answer(gate, GateChoice.REJECT)
        await done(task)
    assert (tmp_path / "a.txt").read_text() == "step_1 again\n"


async def test_there_is_no_consent_for_a_step_outside_of_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    task = bench.begin(WRITE, path="a.txt", content="a\n")
    gate = await bench.gate()
    with pytest.raises(StateError):
        await bench.answer(gate, GateChoice.STEP)
    await bench.answer(gate, GateChoice.REJECT)
    await done(task)


async def test_a_deletion_in_a_step_can_be_allowed_only_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    bench = Bench(tmp_path)
    action = bench.action("file_ops.delete_file", path="a.txt")
    task = asyncio.create_task(bench.router.call(action, step_id="step_1"))
    gate = await bench.gate()
    assert not gate.can_grant_step
    await bench.answer(gate, GateChoice.REJECT)
    await done(task)


async def test_the_user_s_key_is_consent_but_not_for_protected_places(tmp_path: Path) -> None:
    bench = Bench(tmp_path, mode=ApprovalMode.PLAN)
    action = bench.action(WRITE, path="a.txt", content="a\n").model_copy(update={"reasoning": ""})
    message = await bench.router.call(action, by_user=True)
    assert message.by_user
    assert message.result.outcome is Outcome.OK
    action = bench.action(WRITE, path=".git/config", content="a\n")
    message = await bench.router.call(action, by_user=True)
    assert message.result.outcome is Outcome.DENIED
    assert not (tmp_path / ".git").exists()
