"""The rules of ``--allow``: which commands and servers' tools the user named beforehand; and what
a key at the gate allows of a command for longer than once.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Final

from duckflow_tui.safety.command_risk import (
    CODE_OPTIONS,
    EVALUATES,
    MODULE,
    WRAPPERS,
    known_use,
)
from duckflow_tui.safety.commands import (
    SHELLS,
    CommandLine,
    SimpleCommand,
    program_of,
    read_command,
)

#: An operation or a glob over operations of servers; everything else is a command line.
_OPERATION: Final = re.compile(r"mcp\.[A-Za-z0-9_.*?\[\]-]+")


#: Behind a rule: whatever words follow may follow.
_ANY_END: Final = ":*"

#: What only shows the end or the size of all that is written to it.
_SHOWS: Final = frozenset(["tail", "wc", "cat"])
_SHOWN: Final = re.compile(r"-[A-Za-z0-9]+|--(?:lines|bytes)=\d+|\d+")


class RuleRefused(ValueError):
    """A rule that does not say what runs: a code of ``read_command``, ``several``, or ``any``."""

    def __init__(self, rule: str, code: str) -> None:
        super().__init__(f"{rule}: {code}")
        self.rule = rule
        self.code = code


@dataclass(frozen=True, slots=True)
class AllowRules:
    """Exact argument lists, beginnings of such, and globs over operations."""

    argvs: frozenset[tuple[str, ...]] = frozenset()
    operations: tuple[str, ...] = ()
    prefixes: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, rules: Iterable[str]) -> AllowRules:
        """The rules as typed: a plain command each, with ``:*`` behind it the words it begins
        with, or ``mcp.<server>.<tool>``, also as a glob.

        Raises RuleRefused for anything else (R05), and for a beginning after which anything at
        all could run: that of a program that runs what its arguments say.
        """
        argvs: set[tuple[str, ...]] = set()
        operations: list[str] = []
        prefixes: list[tuple[str, ...]] = []
        for rule in rules:
            if _OPERATION.fullmatch(rule.strip()):
                operations.append(rule.strip())
                continue
            line = read_command(rule.strip().removesuffix(_ANY_END))
            if line.reason:
                raise RuleRefused(rule, line.reason)
            if len(line.parts) != 1:
                raise RuleRefused(rule, "several")
            argv = line.parts[0].argv
            if not rule.strip().endswith(_ANY_END):
                argvs.add(argv)
            elif _runs_anything(argv):
                raise RuleRefused(rule, "any")
            else:
                prefixes.append(argv)
        return cls(frozenset(argvs), tuple(operations), tuple(prefixes))

    def __bool__(self) -> bool:
        return bool(self.argvs or self.operations or self.prefixes)

    def has_part(self, line: CommandLine) -> bool:
        """Whether a command of the line was named."""
        return any(self._names(part.argv) for part in line.parts)

    def _names(self, argv: tuple[str, ...]) -> bool:
        """Whether these words were named; ``python -m pytest`` is ``pytest`` too."""
        if argv in self.argvs:
            return True
        forms = [argv]
        if len(argv) > 2 and argv[1] == "-m" and MODULE.fullmatch(argv[0]):
            forms.append(argv[2:])
        return any(form[: len(p)] == p for form in forms for p in self.prefixes)

    def names_operation(self, operation: str) -> bool:
        """Whether an operation was named; a glob speaks about servers' tools only."""
        return any(map(partial(fnmatchcase, operation), self.operations))

    def why_not(self, line: CommandLine, inside: Callable[[str], bool]) -> str:
        """Empty when every part of the line was named; else a code (R04, R06).

        ``inside`` says whether a ``cd`` from where the line starts stays where the rules hold.
        Codes: those of ``read_command``, ``not_named``, ``cd``.
        """
        if line.reason:
            return line.reason
        if not (self.argvs or self.prefixes):
            return "not_named"
        moves = shown = 0
        for number, part in enumerate(line.parts):
            if self._names(part.argv):
                continue
            if only_shows(part):
                shown += 1
                continue
            if part.argv[0] != "cd":
                return "not_named"
            piped = "|" in [near.joiner for near in line.parts[number : number + 2]]
            moves += 1
            if moves > 1 or piped or not _moves_inside(part, inside):
                return "cd"
        return "" if moves + shown < len(line.parts) else "not_named"


def granted_as(line: CommandLine, root: Path | None) -> tuple[str, ...]:
    """What a key would allow for longer than once, for each command of a line: its program, with
    the subcommand, and ``…`` where every option is one that only reads or tests (R05), else
    exactly its words. Empty for a line that is more than plain commands (R04).

    What only shows what another one writes counts for nothing, and a ``cd`` to ``root`` neither.
    """
    found: list[str] = []
    for part in line.parts:
        if only_shows(part) or part.argv == ("cd", str(root)):
            continue
        use = known_use(part.argv)
        found.append(f"{use} …" if use else shlex.join(part.argv))
    return () if any(text.split()[0] == "cd" for text in found) else tuple(found)


def only_shows(part: SimpleCommand) -> bool:
    """Whether a command only shows the end or the size of what the one before it writes."""
    program, *rest = part.argv
    return part.joiner == "|" and program in _SHOWS and all(map(_SHOWN.fullmatch, rest))


def _runs_anything(argv: tuple[str, ...]) -> bool:
    """Whether the words that follow these may be code, or another command."""
    program = program_of(argv)
    if program in WRAPPERS | EVALUATES | SHELLS:
        return True
    if program not in CODE_OPTIONS and not MODULE.fullmatch(program):
        return False
    is_script = len(argv) > 1 and not argv[1].startswith("-")
    return not is_script and (len(argv) < 3 or argv[1] != "-m")


def _moves_inside(part: SimpleCommand, inside: Callable[[str], bool]) -> bool:
    if len(part.argv) != 2:
        return False
    target = part.argv[1]
    if not target or target.startswith("-") or ".." in target.split("/"):
        return False
    return inside(target)
