"""What does not count in a source of settings, and the words for it in the user's language."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, get_args

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core.core_schema import ErrorType

Say = Callable[..., str]

#: What a value has to be, by the beginning of pydantic's name for the mistake.
_KINDS: Final = (
    ("string_too_short", "empty"),
    ("int_", "whole"),
    ("float_", "number"),
    ("finite_", "number"),
    ("bool_", "truth"),
    ("string_", "text"),
    ("dict_", "table"),
    ("mapping_", "table"),
    ("list_", "list"),
    ("tuple_", "list"),
)
_BOUNDS: Final = ("greater_than", "less_than")
_CHOICES: Final = ("literal_error", "enum")


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """Something in a settings source that does not count. ``line`` is 0 where there is none."""

    source: str  # a path, or the name of an environment variable
    line: int
    key: str  # empty where the whole source does not count
    code: str  # entry of the catalogue under ``settings.why``
    params: Mapping[str, str] = field(default_factory=dict[str, str])

    def words(self, say: Say) -> str:
        """Where it stands, what is wrong, and that the default holds."""
        where = f"{self.source}:{self.line}" if self.line else self.source
        why = say(f"settings.why.{self.code}", **self.params)
        if self.key:
            return say("settings.wrong", where=where, key=self.key, why=why)
        return say("settings.unread", where=where, why=why)


def fault_of(error: ValidationError, model: type[BaseModel]) -> tuple[str, dict[str, str]]:
    """The code of the first mistake and what its words are filled with."""
    first = error.errors(include_url=False, include_input=False)[0]
    kind, place = first["type"], first["loc"]
    about = model.model_fields.get(str(place[0])) if place else None
    if kind not in get_args(ErrorType):
        return kind, {}  # of a validator of our own
    if kind in _CHOICES and about is not None:
        return "choices", {"choices": ", ".join(choices_of(about))}
    if kind.startswith(_BOUNDS) and about is not None:
        return _bounds(about)
    code = next((code for begin, code in _KINDS if kind.startswith(begin)), "kind")
    return code, {}


def choices_of(about: FieldInfo) -> list[str]:
    """What a setting can be, where it is one of a few words; else nothing."""
    kind: Any = about.annotation
    if inspect.isclass(kind) and issubclass(kind, StrEnum):
        return [choice.value for choice in kind]
    return [choice for choice in get_args(kind) if isinstance(choice, str)]


def _bounds(about: FieldInfo) -> tuple[str, dict[str, str]]:
    low = next((mark.ge for mark in about.metadata if isinstance(mark, Ge)), None)
    above = next((mark.gt for mark in about.metadata if isinstance(mark, Gt)), None)
    high = next((mark.le for mark in about.metadata if isinstance(mark, Le)), None)
    if low is not None and high is not None:
        return "range", {"low": f"{low:,}", "high": f"{high:,}"}
    if above is not None:
        return "above", {"low": f"{above:,}"}
    return "least", {"low": f"{low:,}"}
