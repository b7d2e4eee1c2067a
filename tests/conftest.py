"""What holds for every test: no clock in property tests, screens that start soon, and the text of
a screen beside its picture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import textual.css.stylesheet as sheets
from hypothesis import HealthCheck, settings
from support.pictures import ScreenText, text_of
from textual.app import App
from textual.css.model import RuleSet
from textual.css.parse import parse
from textual.css.tokenizer import Token
from textual.css.types import CSSLocation

settings.register_profile("duckflow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("duckflow")

_parsed: dict[object, list[RuleSet]] = {}


def _parse_once(
    scope: str,
    css: str,
    read_from: CSSLocation,
    *,
    variable_tokens: dict[str, list[Token]],
    is_default_rules: bool,
    tie_breaker: int,
) -> list[RuleSet]:
    """The rules of a sheet, for all apps of this process: an eighth of what a start costs."""
    values = tuple(
        tuple(token.value for token in variable_tokens[name]) for name in variable_tokens
    )
    key = (scope, css, read_from, is_default_rules, tie_breaker, tuple(variable_tokens), values)
    if key not in _parsed:
        _parsed[key] = list(
            parse(
                scope,
                css,
                read_from,
                variable_tokens=variable_tokens,
                is_default_rules=is_default_rules,
                tie_breaker=tie_breaker,
            )
        )
    return _parsed[key]


setattr(sheets, "parse", _parse_once)  # noqa: B010  # the name is Textual's own


@pytest.fixture
def snap_compare(snap_compare: Callable[..., bool], snapshot: Any) -> Callable[..., bool]:
    """Whether the screen of an app looks as it did; its text is compared too, to be read."""

    def compare(app: App[Any], **how: Any) -> bool:
        same = snap_compare(app, **how)
        assert text_of(str(app.return_value)) == snapshot.use_extension(ScreenText)
        return same

    return compare
