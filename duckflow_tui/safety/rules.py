"""The user's rules for calls: which commands and server tools may run without a question
(``--allow``), and which may never run (``--deny``, ``approval.deny``, ``/rules deny``).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Final

from duckflow_tui.safety.command_parsing import (
    CommandLine,
    SimpleCommand,
    iter_pieces,
    read_command,
)
from duckflow_tui.safety.safe_text import make_visible
from duckflow_tui.state.base import LocalizedText, one_line

#: A tool of a server or a glob over such; any other rule is a command line.
_TOOLS: Final = re.compile(r"mcp\.(?=[^.]*[.*])[A-Za-z0-9_.*?\[\]-]+")
#: A word that is evidently the name of an operation, about which there are no rules.
_OPERATION: Final = re.compile(
    r"(?i)(?:mcp|mcp_tools|file_ops|shell|memory|plan_tool|task_tool|task_loop)\.\S*"
)

#: At the end of a rule: any further words may follow.
ANY_END: Final = ":*"


class RuleRefused(ValueError):
    """A rule names neither one plain command nor a server tool. ``code``: a reason of
    ``read_command``, ``several`` or ``operation``.
    """

    def __init__(self, rule: str, code: str) -> None:
        super().__init__(f"{rule}: {code}")
        self.rule = rule
        self.code = code


def parse_rule(rule: str) -> tuple[str, ...]:
    """Return the words of the command that a rule names, without ``:*`` at its end; an empty tuple
    for a tool of a server or a glob over such. Raises RuleRefused for anything else, which could
    never match a call.
    """
    if _TOOLS.fullmatch(rule):
        return ()
    line = read_command(rule.removesuffix(ANY_END))
    if line.reason:
        raise RuleRefused(rule, line.reason)
    if len(line.parts) != 1:
        raise RuleRefused(rule, "several")
    argv = line.parts[0].argv
    if len(argv) == 1 and _OPERATION.fullmatch(argv[0]):
        raise RuleRefused(rule, "operation")
    return argv


def find_rule_fault(rule: str) -> LocalizedText | None:
    """Return why a rule could never match a call, as a text below ``settings.why``; None for a
    valid rule.
    """
    try:
        parse_rule(rule.strip())
    except RuleRefused as no:
        shown = make_visible(one_line(rule, 100))
        return LocalizedText(key=f"rule.{no.code}", params={"rule": shown})
    return None


@dataclass(frozen=True, slots=True)
class AllowRules:
    """Parsed ``--allow`` rules: exact argument lists, prefixes of argument lists, and globs over
    operations of servers.
    """

    argvs: frozenset[tuple[str, ...]] = frozenset()
    operations: tuple[str, ...] = ()
    prefixes: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def parse_rules(cls, rules: Iterable[str]) -> AllowRules:
        """Parse rules as typed: a plain command, a prefix of one with ``:*`` at the end, or
        ``mcp.<server>.<tool>``, which may be a glob. Raises RuleRefused for anything else.
        """
        argvs: set[tuple[str, ...]] = set()
        operations: list[str] = []
        prefixes: list[tuple[str, ...]] = []
        for rule in map(str.strip, rules):
            argv = parse_rule(rule)
            if not argv:
                operations.append(rule)
            elif rule.endswith(ANY_END):
                prefixes.append(argv)
            else:
                argvs.add(argv)
        return cls(frozenset(argvs), tuple(operations), tuple(prefixes))

    def has_part(self, line: CommandLine) -> bool:
        """Whether at least one command of the line matches a rule, exactly or by a prefix."""
        return any(self._names_words(part.argv, held=True) for part in line.parts)

    def names_exactly(self, line: CommandLine) -> bool:
        """Whether every command of the line matches an exact rule. Also true for a line without
        parts.
        """
        return all(part.argv in self.argvs for part in line.parts)

    def _names_words(self, argv: tuple[str, ...], *, held: bool) -> bool:
        """Whether a command matches an exact rule, or with ``held`` a prefix."""
        if argv in self.argvs:
            return True
        return held and any(argv[: len(p)] == p for p in self.prefixes)  # R05a

    def names_operation(self, operation: str) -> bool:
        """Whether an operation of a server matches a rule or glob."""
        return any(map(partial(fnmatchcase, operation), self.operations))

    def find_objection(
        self, line: CommandLine, inside: Callable[[str], bool], *, held: bool
    ) -> str:
        """Return a code for why the rules do not allow the line; empty when they allow every
        command of it (R04, R06). Prefix rules count only if the command is ``held`` by a full
        sandbox (R05).

        ``inside`` tells whether the target of a ``cd`` lies in the workspace; one such ``cd`` needs
        no rule. Codes: the reasons of ``read_command``, ``not_named``, ``not_held``, ``cd``.
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
    """Whether a ``cd`` has one plain target, without ``..`` and options, that lies inside."""
    if len(part.argv) != 2:
        return False
    target = part.argv[1]
    if not target or target.startswith("-") or ".." in target.split("/"):
        return False
    return inside(target)


def rules_for(command: str) -> tuple[str, ...]:
    """Return the exact ``--allow`` rules that allow this command line; none where no rules can."""
    line = read_command(command)
    rules = tuple(dict.fromkeys(part.text for part in line.parts))
    try:
        named = AllowRules.parse_rules(rules)
    except RuleRefused:
        return ()
    return rules if not named.find_objection(line, lambda _: False, held=False) else ()


def format_flags(rules: Iterable[str]) -> str:
    """Return the rules as ``--allow`` options, quoted for a shell."""
    return " ".join(f"--allow {shlex.quote(rule)}" for rule in rules)


def find_denying_rule(rules: Iterable[str], operation: str, command: str | None) -> str:
    """Return the first rule that forbids this call, empty for none.

    A rule about tools is a glob over operations of servers. A rule about commands forbids each line
    in which one command has the rule's words in this order, with any words before, between and
    behind them, and each line that cannot be parsed (R06). The words inside one word, such as the
    code of ``bash -c``, count as a command too.
    """
    line = None if command is None else read_command(command)
    for rule in rules:
        if _TOOLS.fullmatch(rule):
            if fnmatchcase(operation, rule):
                return rule
        elif line is not None and _forbids_line(rule, line):
            return rule
    return ""


def can_hide_denied(rules: Iterable[str], line: CommandLine) -> bool:
    """Whether a line is not plain while there are rules about commands, so that it may run a
    command that they deny (R06).
    """
    return bool(line.reason) and any(not _TOOLS.fullmatch(rule) for rule in rules)


def _forbids_line(rule: str, line: CommandLine) -> bool:
    """Whether a rule about commands forbids a line. True for a line that cannot be parsed, and for
    a rule that is no longer valid.
    """
    # R06b
    is_readable = line.readable
    # R06c
    commands = line.found
    if not is_readable:
        return True
    try:
        argv = parse_rule(rule)
    except RuleRefused:  # of an older session, no longer valid: fail closed
        return True
    wanted = list(map(_name_of, argv))
    return any(
        _has_in_order(words, wanted)
        for command in commands
        for words in (command, *(tuple(iter_pieces(word))[1:] for word in command))
    )


def _has_in_order(words: Iterable[str], wanted: list[str]) -> bool:
    """Whether all ``wanted`` words occur among the words, in this order."""
    names = iter(map(_name_of, words))
    return all(word in names for word in wanted)


def _name_of(word: str) -> str:
    """Return the last component of a word that is a path, in lower case, for comparison."""
    return (word.rstrip("/").rpartition("/")[2] or word).casefold()
