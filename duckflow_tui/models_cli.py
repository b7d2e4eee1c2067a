"""``duckflow-tui models``: prints the known facts about the models in use. Their endpoints are
asked only with ``--refresh``.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, get_args

from duckflow_tui.choice import Flags, SessionChoice, choose_session
from duckflow_tui.command_line import CommandParser
from duckflow_tui.llm.discovery import LIST_S, list_server
from duckflow_tui.llm.endpoints import Endpoint, resolve_key
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.llm.known_models import KnownModels, Price, load_packaged
from duckflow_tui.places import Places
from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.startup_facts import LANGUAGES
from duckflow_tui.state.usage import Role
from duckflow_tui.words.catalogue import Catalogue

DONE: Final = 0
FAILED: Final = 1  # an endpoint gave no list, or its facts could not be stored


def run_models(arguments: Sequence[str], places: Places, language: str) -> int:
    """Run the command ``models`` and return its exit status."""
    say = Catalogue(language)
    args = make_parser(say).parse_args(arguments)
    flags = Flags(
        workspace=Path(os.sep),  # any folder will do
        base_url=args.base_url,
        model=args.model,
        api_key_env=args.api_key_env,
    )
    choice = choose_session(flags, places, language)
    known, status = KnownModels.load(choice.connections), DONE
    if args.refresh:
        for endpoint in {e.origin: e for e in choice.settings.endpoints.values()}.values():
            if not _refresh_endpoint(known, endpoint, choice, say):
                status = FAILED
    print(say("models.packaged", date=load_packaged().date))
    for origin, asked in known.refreshed.items():
        print(say("models.refreshed", origin=origin, count=len(asked.models), date=asked.date))
    _print_used(known, choice, say)
    return status


def make_parser(say: Catalogue) -> CommandParser:
    """Build the parser of ``models``."""
    made = CommandParser("duckflow-tui models", "models.description", say.language, say)
    add = made.add_argument
    add("--refresh", action="store_true", help=say("models.refresh"))
    add("--base-url", metavar="U", help=say("cli.help.base_url"))
    add("--model", metavar="N", help=say("cli.help.model"))
    add("--api-key-env", metavar="V", help=say("cli.help.api_key_env"))
    add("--lang", choices=LANGUAGES, help=say("cli.help.lang"))
    return made


def _refresh_endpoint(
    known: KnownModels, endpoint: Endpoint, choice: SessionChoice, say: Catalogue
) -> bool:
    """Ask an endpoint for its models and store the facts; on an error print it and return False."""
    key = resolve_key(endpoint, choice.environ) or ""
    try:
        found = asyncio.run(list_server(endpoint, key, LIST_S))
        known.keep_lines(endpoint.origin, found.models, time.strftime("%Y-%m-%d", time.gmtime()))
    except LlmError as error:
        print(say(f"llm.error.{error.code}", **error.params), file=sys.stderr)
        return False
    except OSError as error:
        reason = error.strerror or str(error)
        print(say("models.not_kept", host=endpoint.host, reason=reason), file=sys.stderr)
        return False
    return True


def _print_used(known: KnownModels, choice: SessionChoice, say: Catalogue) -> None:
    """Print window, prices and abilities of each model that has a role."""
    roles = choice.settings.roles
    for ref in dict.fromkeys(map(roles.model_of, get_args(Role))):
        endpoint = choice.settings.endpoints.get(ref.endpoint) if ref is not None else None
        if ref is None or endpoint is None:
            continue
        facts = known.facts_at(endpoint, ref.model)
        prices = facts.prices
        window = f"{facts.context:,}" if facts.context else say("models.unknown")
        abilities = ", ".join(facts.abilities) or say("models.unknown")
        print(visible_line(str(ref)))
        print("  " + say("models.window", tokens=window))
        print(
            "  "
            + say(
                "models.prices",
                full=_format_price(prices.prompt, say),
                cached=_format_price(prices.cached, say),
                write=_format_price(prices.write, say),
                reply=_format_price(prices.reply, say),
            )
        )
        if prices.long_above:
            long = {"prompt": f"{prices.long_prompt:g}", "reply": f"{prices.long_reply:g}"}
            print("  " + say("models.long", tokens=f"{prices.long_above:,}", **long))
        print("  " + say("models.abilities", names=abilities))


def _format_price(price: Price, say: Catalogue) -> str:
    """Return a price in dollars for a million tokens; "unknown" for None."""
    return say("models.unknown") if price is None else f"${price:g}"
