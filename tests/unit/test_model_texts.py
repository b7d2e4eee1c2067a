"""Each text for the model that code names is in the prompt files, with the values it gets there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import duckflow_tui
from duckflow_tui.places import find_assets
from duckflow_tui.prompting.lines import SPOKEN
from duckflow_tui.prompting.templates import load_texts, notice_words
from duckflow_tui.state.base import ModelText
from duckflow_tui.tools.memory import FaultCode
from duckflow_tui.tools.operation import ToolFault

#: What takes a name of a text as its first argument, and which of its keywords are no values.
_NAMING = {"ToolFault": {"outcome", "summary", "transient", "output"}, "ModelText": set[str]()}
#: What puts a prefix before the name that it is given first.
_PREFIXES = {
    "EditRefused": "edit.",
    "FileFailed": "path.cannot_",
    "NotStrict": "json.",
    "PathRefused": "path.",
    "PlanProblem": "plan.problem.",
    "_add_problem": "reply.",
    "_make_fault": "plan.",
    "_make_text": "log.",
    "_translate_os_errors": "path.cannot_",
    "translate_os_error": "path.cannot_",
}
#: Folders in which ``words`` are always those for models.
_FOR_MODELS = ("tools", "mcp", "work")
TEXTS = load_texts(find_assets("prompts"), "en")


def iter_named() -> Iterator[tuple[str, str, set[str] | None]]:
    """Where a text is named, its name, and its values; None where they are made elsewhere."""
    for path in sorted(Path(duckflow_tui.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and node.args):
                continue
            name = node.args[0]
            if not isinstance(name, ast.Constant):
                continue
            if prefix := _PREFIXES.get(ast.unparse(node.func).rpartition(".")[2]):
                yield f"{path.name}:{node.lineno}", f"{prefix}{name.value}", None
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in ("words", "_words") and path.parent.name in _FOR_MODELS:
                given = {word.arg for word in node.keywords}
                named = {word for word in given if word is not None}
                yield (
                    f"{path.name}:{node.lineno}",
                    str(name.value),
                    named if named == given else None,
                )
            if not isinstance(node.func, ast.Name) or node.func.id not in _NAMING:
                continue
            values: set[str] | None = {
                word.arg for word in node.keywords if word.arg is not None
            } - _NAMING[node.func.id]
            if node.func.id == "ModelText":
                given = node.args[1]
                values = None
                if isinstance(given, ast.Dict):
                    keys = [key.value for key in given.keys if isinstance(key, ast.Constant)]
                    values = set(map(str, keys))
            yield f"{path.name}:{node.lineno}", str(name.value), values


def test_each_text_that_a_fault_names_is_in_the_prompt_files_with_its_values() -> None:
    named = list(iter_named())
    assert len(named) > 60
    wrong = [
        (where, name)
        for where, name, values in named
        if name not in TEXTS
        or (values is not None and values != set(TEXTS[name].fields - SPOKEN.keys()))
    ]
    assert wrong == []


@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_text_may_hold_others_and_lists_of_them(language: str) -> None:
    """Values stay as they are, in either language; a list has a line for each."""
    words = notice_words(find_assets("prompts"), language)
    inner = ModelText("argument.missing", {"where": "{path}"})
    fault = ToolFault("call.wrong_arguments", operation="o", problems=(inner, "as it is"))
    head, first, second = words(fault.told).split("\n")
    assert head.startswith("The arguments of o") or "引数" in head
    assert first.startswith("{path}: ")
    assert second == "as it is"


def test_a_line_without_a_value_is_left_out_with_the_line_that_announces_it() -> None:
    words = notice_words(find_assets("prompts"), "en")
    plain = ToolFault("call.rejected", remarks=())
    assert words(plain.told).startswith("rejected by the user\nNothing was executed.")


def test_each_way_to_fail_at_a_note_has_its_text() -> None:
    from typing import get_args

    assert {f"note.{code}" for code in get_args(FaultCode)} <= TEXTS.keys()
