"""What the fields of state and events say where nobody filled them in."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from support.golden import assert_golden

import duckflow_tui.state
from duckflow_tui.state.base import Frozen


def classes(base: type[Frozen]) -> Iterator[type[Frozen]]:
    for cls in base.__subclasses__():
        yield cls
        yield from classes(cls)


def test_what_a_journal_does_not_say_is_read_as_this() -> None:
    """A journal of an earlier program lacks later fields: another default changes its meaning.
    All that are not listed are nothing: none, zero, no, empty.
    """
    for module in pkgutil.iter_modules(duckflow_tui.state.__path__, "duckflow_tui.state."):
        importlib.import_module(module.name)
    said: set[str] = set()
    for cls in classes(Frozen):
        if not cls.__module__.startswith("duckflow_tui.state."):
            continue
        for name, field in cls.model_fields.items():
            value = None if field.is_required() else field.get_default(call_default_factory=True)
            if value and name != "kind":
                said.add(f"{cls.__name__}.{name} = {value!r}")
    assert_golden("state_defaults", "\n".join(sorted(said)))
