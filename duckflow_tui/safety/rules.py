"""The user's rules for calls: which commands and servers' tools may run unasked (``--allow``), and
which may never run (``--deny``, ``approval.deny``, ``/rules deny``).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Final

from duckflow_tui.safety.commands import (
    CommandLine,
    SimpleCommand,
    iter_pieces,
    read_command,
)

#: An operation or a glob over operations of servers; everything else is a command line.
_OPERATION: Final = re.compile(r"mcp\.[A-Za-z0-9_.*?\[\]-]+")

#: At the end of a rule: any further words may follow.
ANY_END: Final = ":*"


class RuleRefused(ValueError):
    """A rule that does not say what runs: a code of ``read_command``, or ``several``."""

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
    def parse_rules(cls, rules: Iterable[str]) -> AllowRules:
        """The rules as typed: a plain command each, with ``:*`` behind it the words it begins
        with, or ``mcp.<server>.<tool>``, also as a glob. Raises RuleRefused for anything else.
        """
        argvs: set[tuple[str, ...]] = set()
        operations: list[str] = []
        prefixes: list[tuple[str, ...]] = []
        for rule in map(str.strip, rules):
            if _OPERATION.fullmatch(rule):
                operations.append(rule)
                continue
            line = read_command(rule.removesuffix(ANY_END))
            if line.reason:
                raise RuleRefused(rule, line.reason)
            if len(line.parts) != 1:
                raise RuleRefused(rule, "several")
            argv = line.parts[0].argv
            if rule.endswith(ANY_END):
                prefixes.append(argv)
            else:
                argvs.add(argv)
        return cls(frozenset(argvs), tuple(operations), tuple(prefixes))

    def has_part(self, line: CommandLine) -> bool:
        """Whether a command of the line was named."""
        return any(self._names_words(part.argv, held=True) for part in line.parts)

    def names_exactly(self, line: CommandLine) -> bool:
        """Whether each command of the line was named word by word."""
        return all(part.argv in self.argvs for part in line.parts)

    def _names_words(self, argv: tuple[str, ...], *, held: bool) -> bool:
        if argv in self.argvs:
            return True
        return held and any(argv[: len(p)] == p for p in self.prefixes)  # R05a

    def names_operation(self, operation: str) -> bool:
        """Whether an operation was named; a glob speaks about servers' tools only."""
        return any(map(partial(fnmatchcase, operation), self.operations))

    def why_not(self, line: CommandLine, inside: Callable[[str], bool], *, held: bool) -> str:
        """Empty when every part of the line was named; else a code (R04, R06). A beginning names
        nothing unless the command is ``held`` by a full sandbox (R05).

        ``inside`` says whether a ``cd`` from where the line starts stays where the rules hold.
        Codes: those of ``read_command``, ``not_named``, ``not_held``, ``cd``.
        """
        if line.reason:
            return line.reason
        if not (self.argvs or self.prefixes):
            return "not_named"
        moves = 0
        for number, part in enumerate(line.parts):
            if self._names_words(part.argv, held=held):
                continue
            if part.argv[0] != "cd":
                return "not_held" if self._names_words(part.argv, held=True) else "not_named"
            piped = "|" in [near.joiner for near in line.parts[number : number + 2]]
            moves += 1
            if moves > 1 or piped or not _moves_inside(part, inside):  # R04g
                return "cd"
        return "" if moves < len(line.parts) else "not_named"


def _moves_inside(part: SimpleCommand, inside: Callable[[str], bool]) -> bool:
    if len(part.argv) != 2:
        return False
    target = part.argv[1]
    if not target or target.startswith("-") or ".." in target.split("/"):
        return False
    return inside(target)


def rules_for(command: str) -> tuple[str, ...]:
    """The rules that would name this command line word by word; none where no rules can."""
    line = read_command(command)
    rules = tuple(dict.fromkeys(part.text for part in line.parts))
    try:
        named = AllowRules.parse_rules(rules)
    except RuleRefused:
        return ()
    return rules if not named.why_not(line, lambda _: False, held=False) else ()


def as_flags(rules: Iterable[str]) -> str:
    """The rules as they are typed on a command line."""
    return " ".join(f"--allow {shlex.quote(rule)}" for rule in rules)


def find_denial(rules: Iterable[str], operation: str, command: str | None) -> str:
    """The first rule that forbids this call, empty for none.

    A rule is a glob over the tools of servers, or words: it forbids each line in which a command
    has these words in this order, whatever stands before, between and behind them, and each line
    that cannot be read (R06). Words inside of one word, such as the code of ``bash -c``, count as
    a command of their own.
    """
    line = None if command is None else read_command(command)
    for rule in rules:
        if _OPERATION.fullmatch(rule):
            if fnmatchcase(operation, rule):
                return rule
        elif line is not None and _forbids_line(rule, line):
            return rule
    return ""


def leaves_unsure(rules: Iterable[str], line: CommandLine) -> bool:
    """Whether a line is more than plain words, so that it may hold what a rule forbids (R06)."""
    return bool(line.reason) and any(not _OPERATION.fullmatch(rule) for rule in rules)


def _forbids_line(rule: str, line: CommandLine) -> bool:
    # R06b
    is_readable = line.readable
    # R06c
    commands = line.found
    if not is_readable:
        return True
    wanted = [_name_of(word) for word in rule.removesuffix(ANY_END).split()]
    return any(
        _has_in_order(words, wanted)
        for command in commands
        for words in (command, *(tuple(iter_pieces(word))[1:] for word in command))
    )


def _has_in_order(words: Iterable[str], wanted: list[str]) -> bool:
    """Whether the wanted words are among these, in their order."""
    names = iter(map(_name_of, words))
    return all(word in names for word in wanted)


def _name_of(word: str) -> str:
    """A word to be compared: a path's last name, without regard to case."""
    return (word.rstrip("/").rpartition("/")[2] or word).casefold()
