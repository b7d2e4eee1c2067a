"""What was named beforehand: exact commands and operations of servers (R04…R06)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from duckflow_tui.safety.commands import CommandLine, Part, read_command

#: An operation or a glob over operations of servers; everything else is a command line.
_OPERATION: Final = re.compile(r"mcp\.[A-Za-z0-9_.*?\[\]-]+")


class RuleRefused(ValueError):
    """A rule that would not say exactly what runs. ``code`` is one of ``read_command`` or
    ``several`` for more than one command.
    """

    def __init__(self, rule: str, code: str) -> None:
        super().__init__(f"{rule}: {code}")
        self.rule = rule
        self.code = code


@dataclass(frozen=True, slots=True)
class NamedRules:
    """Exact argument lists, and globs over operations."""

    argvs: frozenset[tuple[str, ...]] = frozenset()
    operations: tuple[str, ...] = ()

    @classmethod
    def of(cls, rules: Iterable[str]) -> NamedRules:
        """The rules as typed: a plain command each, or ``mcp.<server>.<tool>``, also as a glob.

        Raises RuleRefused for anything else (R05: no prefixes).
        """
        argvs: set[tuple[str, ...]] = set()
        operations: list[str] = []
        for rule in rules:
            if _OPERATION.fullmatch(rule.strip()):
                operations.append(rule.strip())
                continue
            line = read_command(rule)
            if line.reason:
                raise RuleRefused(rule, line.reason)
            if len(line.parts) != 1:
                raise RuleRefused(rule, "several")
            argvs.update(part.argv for part in line.parts)
        return cls(frozenset(argvs), tuple(operations))

    def __bool__(self) -> bool:
        return bool(self.argvs or self.operations)

    def names_operation(self, operation: str) -> bool:
        """Whether an operation was named; a glob speaks about servers' tools only."""
        return any(fnmatchcase(operation, glob) for glob in self.operations)

    def why_not(self, line: CommandLine, inside: Callable[[str], bool]) -> str:
        """Empty when every part of the line was named; else a code (R04, R06).

        ``inside`` says whether a ``cd`` from where the line starts stays in the workspace. Codes:
        those of ``read_command``, ``not_named``, ``cd``.
        """
        if line.reason:
            return line.reason
        if not self.argvs:
            return "not_named"
        moves = 0
        for number, part in enumerate(line.parts):
            if part.argv in self.argvs:
                continue
            if part.argv[0] != "cd":
                return "not_named"
            following = line.parts[number + 1 : number + 2]
            moves += 1
            if moves > 1 or _piped(part, following) or not _moves_inside(part, inside):
                return "cd"
        return "" if moves < len(line.parts) else "not_named"


def _piped(part: Part, following: tuple[Part, ...]) -> bool:
    return part.joiner == "|" or any(after.joiner == "|" for after in following)


def _moves_inside(part: Part, inside: Callable[[str], bool]) -> bool:
    if len(part.argv) != 2:
        return False
    target = part.argv[1]
    if not target or target.startswith("-") or ".." in target.split("/"):
        return False
    return inside(target)
