"""The switches of safety rules find their lines, whatever else is reworded around them."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from pathlib import Path

import pytest
from mutation.rules import RULES, SWITCHES, Switch, switched_sources

import duckflow_tui

PACKAGE = Path(duckflow_tui.__file__).parent
#: Names, and attributes but for members of enumerations.
WORD = re.compile(r"(?<!\.)\b[A-Za-z_]\w*|(?<=\.)[a-z_]\w*")


def test_each_rule_has_a_switch() -> None:
    assert {switch.rule for switch in SWITCHES} == set(RULES)


def test_each_rule_names_tests_that_are_there() -> None:
    tests = Path(__file__).parents[1]
    for path, _, name in (test.partition("::") for one in SWITCHES for test in one.tests):
        text = (tests / path).read_text(encoding="utf-8")
        assert f"def {name.partition('[')[0]}(" in text or not name, (path, name)


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda switch: "-".join(switch.lines))
def test_a_switched_source_is_a_program_with_the_names_of_the_old_one(switch: Switch) -> None:
    """A name that is gone would fail every test, and the rule would seem to be held."""
    for path, text in switched_sources(PACKAGE, switch).items():
        ast.parse(text)
        old = (PACKAGE / path).read_text(encoding="utf-8")
        known = set(WORD.findall(old)) | set(dir(builtins)) | set(keyword.kwlist)
        replaced = [set(WORD.findall(_code(line))) for line in switch.lines.values()]
        assert set().union(*replaced) <= known


def _code(line: str) -> str:
    """The line without its texts in quotes."""
    return re.sub(r"\"[^\"]*\"|'[^']*'", "", line)
