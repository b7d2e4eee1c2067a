"""The file of the rules that a user keeps for a project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.decision_states import KEPT

from duckflow_tui.session.project_rules import ProjectRules
from duckflow_tui.state.gates import Grant

PROJECT: dict[str, Any] = {"workspace": "/work/shop", "device": 1, "inode": 2}
RULE = {"grant_id": "g", "operation": "shell.run", "path": "make", "gate_id": "x"}


def rules(tmp_path: Path, identity: tuple[int, int] = (1, 2)) -> ProjectRules:
    return ProjectRules(tmp_path / "rules", Path("/work/shop"), identity)


def put(kept: ProjectRules, text: str) -> None:
    path = Path(kept.path)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def test_a_rule_is_kept_once_the_newest_last_and_removed_by_its_id(tmp_path: Path) -> None:
    kept = rules(tmp_path)
    assert kept.load() == ()
    other = KEPT.replace(grant_id="grant_2", path="README.md")
    again = KEPT.replace(grant_id="grant_3", at=5.0)
    for rule in (KEPT, other, again):
        kept.add(rule)
    assert kept.load() == (other, again)
    assert rules(tmp_path).load() == (other, again)
    kept.remove("grant_gone")
    kept.remove(other.grant_id)
    assert kept.load() == (again,)


def test_a_rule_of_a_key_is_one_of_the_project_from_then_on(tmp_path: Path) -> None:
    kept = rules(tmp_path)
    kept.add(KEPT.replace(source="key", step_id="step_1"))
    assert kept.load() == (KEPT,)
    assert "source" not in json.loads(Path(kept.path).read_text())["rules"][0]


@pytest.mark.parametrize("identity", [(1, 3), (3, 2)])
def test_rules_of_another_folder_of_that_path_do_not_count_and_go_with_the_next_one(
    tmp_path: Path, identity: tuple[int, int]
) -> None:
    rules(tmp_path).add(KEPT)
    another = rules(tmp_path, identity)
    assert another.load() == ()
    another.add(KEPT.replace(path="new.md"))
    assert [rule.path for rule in another.load()] == ["new.md"]
    assert rules(tmp_path).load() == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        "[]",
        json.dumps(PROJECT),
        json.dumps({**PROJECT, "rules": {"0": RULE}}),
        json.dumps({**PROJECT, "workspace": "/work/other", "rules": [RULE]}),
    ],
)
def test_what_is_no_file_of_rules_has_none(tmp_path: Path, text: str) -> None:
    kept = rules(tmp_path)
    put(kept, text)
    assert kept.load() == ()


def test_what_is_no_rule_is_left_out(tmp_path: Path) -> None:
    kept = rules(tmp_path)
    empty = [{**RULE, name: ""} for name in ("grant_id", "operation", "path")]
    strange = [7, {}, {**RULE, "source": "nowhere"}, *empty, RULE, {**RULE, "step_id": "s"}]
    put(kept, json.dumps({**PROJECT, "rules": strange}))
    rule = Grant(grant_id="g", operation="shell.run", path="make", gate_id="x", source="project")
    assert kept.load() == (rule, rule)
