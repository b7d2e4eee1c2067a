"""How a command line is read: ``argparse``, with the app's own words for what it says itself."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from duckflow_tui.words.catalogue import Catalogue

#: What ``argparse`` says of a mistake, and the entry that says it here; the rest stays as it is.
_MISTAKES: Final = {
    r"unrecognized arguments: (?P<given>.*)": "unknown",
    r"the following arguments are required: (?P<names>.*)": "required",
    r"argument (?P<name>.*?): expected (?:one|at least one) argument": "one_expected",
    r"argument (?P<name>.*?): invalid choice: (?P<given>.*) \(choose from (?P<choices>.*)\)": (
        "choice"
    ),
    r"argument (?P<name>.*?): ignored explicit argument (?P<given>.*)": "none_expected",
}


def folder_named(given: str) -> Path:
    """Return a folder that the command line names as an absolute path. Raises FileNotFoundError
    without a name where it is relative to a working folder that was deleted.
    """
    return Path(os.path.expanduser(given)).absolute()


class CommandParser(argparse.ArgumentParser):
    """Knows no abbreviations; its help and what it says of a mistake are in one language."""

    def __init__(
        self, prog: str, description: str, language: str, help_words: Callable[[str], str]
    ) -> None:
        """``help_words`` gives the sentences of the help; those of mistakes are looked up when
        there is one, so that a start without one does not wait for them.
        """
        self._language = language
        self._help_words = help_words
        super().__init__(
            prog=prog,
            description=help_words(description),
            add_help=False,
            allow_abbrev=False,
            formatter_class=partial(_Help, language),
        )
        self.add_argument("-h", "--help", action="help", help=help_words("cli.help.help"))

    def add_argument_group(self, title: str | None = None, *args: Any, **kwargs: Any) -> Any:
        """A part of the help; the two that every command line has get the app's own titles."""
        own = {"positional arguments": "cli.parts.positional", "options": "cli.parts.options"}
        if title in own:
            title = self._help_words(own[title])
        return super().add_argument_group(title, *args, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, below the usage, and end with status 2."""
        say = Catalogue(self._language)
        for pattern, key in _MISTAKES.items():
            if found := re.fullmatch(pattern, message, re.S):
                message = say(f"cli.mistake.{key}", **found.groupdict())
                break
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {say('cli.mistake.is')}: {message}\n")


class _Help(argparse.HelpFormatter):
    def __init__(self, language: str, prog: str) -> None:
        super().__init__(prog)
        self._usage_of = Catalogue(language)

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[Any],
        prefix: str | None = None,
    ) -> None:
        """Add the usage line, with its heading in the user's language."""
        if prefix is None:
            prefix = f"{self._usage_of('cli.parts.usage')}: "
        super().add_usage(usage, actions, groups, prefix)
