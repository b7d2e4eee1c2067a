"""The argument parser of all commands: ``argparse`` with help and error messages in the user's
language.
"""

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

#: ``argparse``'s error messages, and the entries that replace them; others stay as they are.
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
    """Return a folder named on the command line as an absolute path, ``~`` expanded. Raises a
    FileNotFoundError without a file name where it is relative to a working directory that was
    deleted.
    """
    return Path(os.path.expanduser(given)).absolute()


class CommandParser(argparse.ArgumentParser):
    """An argument parser without abbreviations, with help and error messages in one language."""

    def __init__(
        self, prog: str, description: str, language: str, help_words: Callable[[str], str]
    ) -> None:
        """``help_words`` returns the text of the help for a key. The words of error messages are
        loaded only when one is printed, to keep the start fast.
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
        """Add a group of the help; the two standard groups get titles in the user's language."""
        own = {"positional arguments": "cli.parts.positional", "options": "cli.parts.options"}
        if title in own:
            title = self._help_words(own[title])
        return super().add_argument_group(title, *args, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error message on standard error and exit with status 2."""
        say = Catalogue(self._language)
        for pattern, key in _MISTAKES.items():
            if found := re.fullmatch(pattern, message, re.S):
                message = say(f"cli.mistake.{key}", **found.groupdict())
                break
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {say('cli.mistake.is')}: {message}\n")


class _Help(argparse.HelpFormatter):
    """Formats the help with the heading "usage" in the user's language."""

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
