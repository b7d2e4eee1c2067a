"""A session in which much was decided: by keys, by rules, by the mode, and by the policy."""

from __future__ import annotations

from typing import Any, Final

from support.app_states import FakeEngine, store_with
from support.conversations import user
from support.gates import gate
from support.pinned import ManualClock
from support.plans import running

from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.calls import ChangesUndone, OperationMessage
from duckflow_tui.state.gates import (
    GateAnswer,
    GateChoice,
    Grant,
    GrantAdded,
    GrantRevoked,
)
from duckflow_tui.state.operations import (
    ApprovalMode,
    FileChange,
    OperationResult,
    Outcome,
    Ruling,
)
from duckflow_tui.state.session import ModeChanged
from duckflow_tui.state.store import Store

NOW: Final = ManualClock().now()
EDIT: Final = "file_ops.edit_file"
KEPT: Final = Grant(
    grant_id="grant_00000001",
    operation=EDIT,
    path="CHANGELOG.md",
    gate_id="gate_00000009",
    source="project",
    at=NOW - 86_400,
)
GIVEN: Final = Grant(
    grant_id="grant_00000002",
    operation=EDIT,
    path="src/shop/pricing.py",
    gate_id="gate_00000001",
    at=NOW - 600,
)
OLD: Final = GIVEN.replace(
    grant_id="grant_00000003", path="src/shop/cart.py", gate_id="gate_00000003", at=NOW - 500
)
WORDS: Final = {
    "en": {
        "ask": "Two discounts give a wrong total. Fix it, test it.",
        "why": "each discount has to act on what is left",
        "log": "the change belongs into the changelog",
        "no": "keep the old names",
        "test": "to see whether the tests pass",
    },
    "ja": {
        "ask": "割引が二つのとき合計が違います。直してテストもしてください。",
        "why": "割引は、残った額に順に掛ける必要があります",
        "log": "変更を変更履歴に書きます",
        "no": "古い名前は残してください",
        "test": "テストが通るか確かめます",
    },
}


def ruled(said: Any, row: str, code: str = "", *rules: str) -> Ruling:
    return Ruling(said=said, mode=ApprovalMode.STANDARD, row=row, code=code, rules=rules)


def ended_call(
    number: int, operation: str, about: dict[str, Any], ruling: Ruling | None, **fields: Any
) -> OperationMessage:
    """The n-th call, some minutes ago."""
    outcome = fields.pop("outcome", Outcome.OK)
    changes = fields.pop("changes", ())
    values: dict[str, Any] = {
        "call_id": f"call_0000000{number}",
        "operation": operation,
        "args": about,
        "ruling": ruling,
        "result": OperationResult(outcome=outcome, text="", changes=changes),
        "at": NOW - 600 + 60 * number,
    }
    return OperationMessage(**(values | fields))


def asked_call(
    number: int, path: str, choice: GateChoice, why: str, **fields: Any
) -> OperationMessage:
    """An edit that was asked about and answered."""
    reason = fields.pop("reason", "")
    asks = gate(
        (),
        gate_id=f"gate_0000000{number}",
        call_id=f"call_0000000{number}",
        args={"path": path},
        grant_pattern=f"{EDIT} {path}",
        grant_only="",
        can_grant_project=True,
    )
    answer = GateAnswer(
        gate_id=asks.gate_id,
        call_id=asks.call_id,
        args_hash=asks.args_hash,
        choice=choice,
        reason=reason,
    )
    more: dict[str, Any] = {"reasoning": why, "gate": asks, "answer": answer, **fields}
    return ended_call(number, EDIT, {"path": path}, ruled("gate", "write inside"), **more)


def decided(language: str = "en") -> Store:
    """Each kind of decision."""
    store = store_with()
    said, state = WORDS[language], store.state
    plan = running()
    state.plans, state.active_plan_id = (plan,), plan.plan_id
    step = plan.steps[1].step_id
    pricing, rejected = "src/shop/pricing.py", Outcome.REJECTED
    change = FileChange(path="src/shop/cart.py", kind="modify", added=2, removed=1)
    state.messages += [
        user(said["ask"]),
        ended_call(
            0, "file_ops.read_file", {"path": pricing}, ruled("allow", "read inside"), reasoning="?"
        ),
        asked_call(1, pricing, GateChoice.SESSION, said["why"]),
        ended_call(
            *(
                2,
                EDIT,
                {"path": pricing},
                ruled("allow", "write inside", "granted", GIVEN.grant_id),
            ),
            allowed="granted",
            reasoning=said["why"],
            step_id=step,
        ),
        asked_call(3, "src/shop/cart.py", GateChoice.ONCE, said["why"], changes=(change,)),
        asked_call(
            *(4, "src/shop/names.py", GateChoice.REJECT, said["why"]),
            reason=said["no"],
            outcome=rejected,
        ),
        ended_call(
            *(5, "file_ops.write_file", {"path": ".git/config"}, ruled("deny", "", "protected")),
            outcome=Outcome.DENIED,
            reasoning=said["why"],
        ),
        ended_call(
            *(6, "shell.run", {"command": "python -m pytest -q"}, ruled("allow", "shell named")),
            allowed="standard",
            reasoning=said["test"],
        ),
        ended_call(7, "shell.run", {"command": "git status"}, None, by_user=True),
        ended_call(
            *(
                8,
                EDIT,
                {"path": KEPT.path},
                ruled("allow", "write inside", "granted", KEPT.grant_id),
            ),
            allowed="granted",
            reasoning=said["log"],
        ),
    ]
    store.dispatch(GrantAdded(grant=KEPT))
    store.dispatch(GrantAdded(grant=GIVEN))
    store.dispatch(GrantAdded(grant=OLD))
    store.dispatch(GrantRevoked(grant=OLD, at=NOW - 200))
    store.dispatch(ModeChanged(mode=ApprovalMode.STANDARD, at=NOW - 610))
    store.dispatch(ChangesUndone(call_id="call_00000003", changes=(change,)))
    return store


class FakeRules:
    """Does to the Store what revoking does; ``problem`` is what it says then."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.problem: LocalizedText | None = None
        self.command_line_rules = (
            Grant(
                grant_id="python -m pytest:*",
                operation="--allow",
                path="python -m pytest:*",
                gate_id="",
                source="command_line",
            ),
        )

    async def revoke_rule(self, rule: Grant) -> LocalizedText | None:
        self._store.dispatch(GrantRevoked(grant=rule, at=NOW))
        if rule.source == "command_line":
            self.command_line_rules = ()
        return self.problem


class RuledEngine(FakeEngine):
    """With rules of the command line, too."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.rules = FakeRules(store)
