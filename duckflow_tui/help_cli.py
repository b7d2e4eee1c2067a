"""``duckflow-tui help``: prints a page of the manual as Markdown."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from duckflow_tui.command_line import CommandParser
from duckflow_tui.manual import INDEX, TOPICS, nearest_topic, read_page
from duckflow_tui.places import Places
from duckflow_tui.startup_facts import LANGUAGES
from duckflow_tui.words.catalogue import Catalogue

USAGE_ERROR: Final = 2


def run_help(arguments: Sequence[str], _places: Places, language: str) -> int:
    """Print the named page of the manual, by default the index; return the exit status."""
    say = Catalogue(language)
    topic = make_parser(say).parse_args(arguments).topic.lower()
    if topic not in (INDEX, *TOPICS):
        near = nearest_topic(topic)
        key = "manual.unknown_near" if near else "manual.unknown"
        message = say(key, given=topic, near=near, topics=", ".join(TOPICS))
        print(f"duckflow-tui help: {message}", file=sys.stderr)
        return USAGE_ERROR
    print(read_page(topic, say.language), end="")
    return 0


def make_parser(say: Catalogue) -> CommandParser:
    """Build the parser of ``help``."""
    made = CommandParser("duckflow-tui help", "manual.cli.description", say.language, say)
    made.add_argument(
        "topic", nargs="?", default=INDEX, metavar="TOPIC", help=say("manual.cli.topic")
    )
    made.add_argument("--lang", choices=LANGUAGES, help=say("cli.help.lang"))
    return made
