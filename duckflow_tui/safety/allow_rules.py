"""The rules of ``--allow``: which commands and servers' tools the user named beforehand; and what
a key at the gate allows of a command for longer than once.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Final

from duckflow_tui.safety.command_risk import (
    CODE_OPTIONS,
    ESCAPES,
    EVALUATES,
    MODULE,
    RUNS_AFTER,
    RUNS_TESTS,
    RUNS_WORDS,
    WRAPPERS,
    known_use,
    program_inside,
    without_python,
)
from duckflow_tui.safety.commands import (
    SHELLS,
    CommandLine,
    SimpleCommand,
    program_of,
    read_command,
)
from duckflow_tui.safety.names import words_of

#: An operation or a glob over operations of servers; everything else is a command line.
_OPERATION: Final = re.compile(r"mcp\.[A-Za-z0-9_.*?\[\]-]+")


#: Behind a rule: whatever words follow may follow.
ANY_END: Final = ":*"

#: What only shows the end or the size of all that is written to it.
_SHOWS: Final = frozenset(["tail", "wc", "cat"])
_SHOWN: Final = re.compile(r"-[A-Za-z0-9]+|--(?:lines|bytes)=\d+|\d+")

#: Beginnings of the names of files that run where their folder is named.
_OF_ITS_FOLDER: Final = ("__main__.", "index.")

#: Of these, what stands behind ``--`` is for the script or the test that was named.
_SCRIPTS: Final = frozenset(["npm", "pnpm", "yarn", "cargo"])


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
    def parse_rules(cls, rules: Iterable[str]) -> AllowRules:
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
            line = read_command(rule.strip().removesuffix(ANY_END))
            if line.reason:
                raise RuleRefused(rule, line.reason)
            if len(line.parts) != 1:
                raise RuleRefused(rule, "several")
            argv = line.parts[0].argv
            if not rule.strip().endswith(ANY_END):
                argvs.add(argv)
            elif _runs_anything(argv):  # R05a
                raise RuleRefused(rule, "any")
            else:
                prefixes.append(argv)
        return cls(frozenset(argvs), tuple(operations), tuple(prefixes))

    def __bool__(self) -> bool:
        return bool(self.argvs or self.operations or self.prefixes)

    def has_part(self, line: CommandLine) -> bool:
        """Whether a command of the line was named."""
        return any(self._names_words(part.argv) for part in line.parts)

    def _names_words(self, argv: tuple[str, ...]) -> bool:
        """Whether these words were named; ``python -m pytest`` is ``pytest`` too."""
        if argv in self.argvs:
            return True
        return any(
            form[: len(p)] == p and not _has_escaping_option(form, len(p))  # R05b
            for form in (argv, without_python(argv))
            for p in self.prefixes
        )

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
        moves = 0
        for number, part in enumerate(line.parts):
            if self._names_words(part.argv) or only_shows(part):
                continue
            if part.argv[0] != "cd":
                return "not_named"
            piped = "|" in [near.joiner for near in line.parts[number : number + 2]]
            moves += 1
            if moves > 1 or piped or not _moves_inside(part, inside):  # R04g
                return "cd"
        return "" if moves < len(line.parts) else "not_named"


def rules_for(command: str) -> tuple[str, ...]:
    """The rules that would name this command line word by word; none where no rules can."""
    line = read_command(command)
    named = [part.argv for part in line.parts if not only_shows(part)]
    rules = tuple(dict.fromkeys(shlex.join(argv) for argv in named))
    try:
        covers = not AllowRules.parse_rules(rules).why_not(line, lambda _: False)
    except RuleRefused:
        return ()
    return rules if covers else ()


def rules_like(rule: str) -> tuple[str, ...]:
    """Rules much like one that was refused, which can be used."""
    plain = rule.strip().removesuffix(ANY_END)
    if found := rules_for(plain) if plain == rule.strip() else ():
        return found
    argv = plain.split()
    program = program_of(tuple(argv)) if argv else ""
    if MODULE.fullmatch(program):
        return (f"{argv[0]} -m unittest -q", f"{argv[0]} -m unittest{ANY_END}")
    return ("git diff:*",) if program == "git" else ("make test", "pytest:*")


def as_flags(rules: Iterable[str]) -> str:
    """The rules as they are typed on a command line."""
    return " ".join(f"--allow {shlex.quote(rule)}" for rule in rules)


def granted_as(line: CommandLine, root: Path | None) -> tuple[str, ...]:
    """The rules a key would grant for longer than once, one per command of a line: its program,
    with the subcommand, and ``…`` where every option is one that only reads or tests (R05), else
    exactly its words, as of what only has a reader's name and lies in ``root``. Empty for a line
    that is more than plain commands (R04).

    What only shows what another one writes counts for nothing, and a ``cd`` to ``root`` neither.
    """
    found: list[str] = []
    for part in line.parts:
        if only_shows(part) or part.argv == ("cd", str(root)):
            continue
        use = known_use(part.argv)
        if use not in RUNS_TESTS and root and program_inside(part.argv, root):
            use = ""
        found.append(f"{use} …" if use else shlex.join(part.argv))
    return () if any(text.split()[0] == "cd" for text in found) else tuple(found)


def only_shows(part: SimpleCommand) -> bool:
    """Whether a command only shows the end or the size of what the one before it writes."""
    program, *rest = part.argv
    return part.joiner == "|" and program in _SHOWS and all(map(_SHOWN.fullmatch, rest))


def names_file(argv: tuple[str, ...], names: list[str], root: Path, cwd: str) -> bool:
    """Whether the words of a command in ``cwd`` name the file of these names below ``root``: by its
    path, through links too, as a module, or, for an interpreter, by the package or the folder that
    it runs this file of. Blocking.
    """
    module = ".".join(names).removesuffix(".py")
    package, _, own = module.rpartition(".")
    programs = [program_of((word,)) for word in argv]
    interprets = any(name in CODE_OPTIONS or MODULE.fullmatch(name) for name in programs)
    within = any(f"{word}.".startswith(f"{package}.") for word in argv)
    if own == "__init__" and interprets and within:
        return True
    texts = [word.rpartition("=")[2].partition("::")[0] for word in argv]
    paths = {os.path.normpath(root / cwd / text) for text in texts}
    paths |= set(map(os.path.realpath, paths))
    files = {str(root.joinpath(*names)), os.path.realpath(root.joinpath(*names))}
    if interprets and names[-1].startswith(_OF_ITS_FOLDER):
        files |= set(map(os.path.dirname, files))
    modules = {module, module.removesuffix(".__main__")}
    return not (modules.isdisjoint(argv) and files.isdisjoint(paths))


def _runs_anything(argv: tuple[str, ...]) -> bool:
    """Whether the words that follow these may be code, or another command."""
    program = program_of(argv)
    if program in WRAPPERS | EVALUATES | SHELLS | RUNS_WORDS:
        return True
    if program in RUNS_AFTER and (len(argv) < 2 or argv[1].startswith("-")):
        return True
    if program in RUNS_AFTER and len(argv) == 2:
        return argv[1] in RUNS_AFTER[program]
    if program not in CODE_OPTIONS and not MODULE.fullmatch(program):
        return False
    is_script = len(argv) > 1 and not argv[1].startswith("-")
    return not is_script and (len(argv) < 3 or argv[1] != "-m")


def _has_escaping_option(argv: tuple[str, ...], named: int) -> bool:
    """Whether a word behind the first ``named`` ones is an option that writes or runs something
    else (R05), also shortened or among other letters, or is what leads to one.
    """
    programs = [program_of((word,)) for word in argv[:named]]
    program = next((name for name in reversed(programs) if name in ESCAPES), "")
    letters, options = _split_options(program)
    for place, word in enumerate(argv[named:], start=named + 1):
        name = word.lstrip("-").partition("=")[0]
        if word == "--" and program in _SCRIPTS:
            return False  # what follows is for the script that the user named
        if word.startswith("ext::") or (word[:1] == "@" and program in ("pytest", "gcc", "cc")):
            return True
        if not word.startswith("-") or not name:
            if program == "make" and "=" in word:
                return True
        elif word == "-p" and program == "pytest" and argv[place:] and argv[place][:3] == "no:":
            pass
        elif word.startswith("--") or len(name) > 1:
            if any(option.startswith(name) for option in options):
                return True
            if not (word.startswith("--") or letters.isdisjoint(name)):
                return True
        elif name in letters:
            return True
    return False


@cache
def _split_options(program: str) -> tuple[frozenset[str], frozenset[str]]:
    """The letters and the names among the options of ``ESCAPES``."""
    words = words_of(ESCAPES.get(program, ""))
    letters = frozenset(word for word in words if len(word) == 1)
    return letters, words - letters


def _moves_inside(part: SimpleCommand, inside: Callable[[str], bool]) -> bool:
    if len(part.argv) != 2:
        return False
    target = part.argv[1]
    if not target or target.startswith("-") or ".." in target.split("/"):
        return False
    return inside(target)
