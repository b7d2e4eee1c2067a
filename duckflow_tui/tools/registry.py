"""The one list of operations: names, arguments, effects, weight and help (S2-25)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.operations import OperationSpec
from duckflow_tui.tools.operation import AnyOperation, Operation, argument_problems, references


class DuplicateOperation(ValueError):
    """Two operations want one name."""


class Registry:
    """Operations by name, in the order in which they were added."""

    def __init__(self, operations: Iterable[Operation[Any]] = ()) -> None:
        self._operations: dict[str, AnyOperation] = {}
        self._specs: tuple[OperationSpec, ...] | None = None
        for operation in operations:
            self.add(operation)

    def add(self, operation: Operation[Any]) -> None:
        """Take an operation in; raises DuplicateOperation when the name is taken."""
        if operation.name in self._operations:
            raise DuplicateOperation(f"{operation.name} is in the registry already")
        self._operations[operation.name] = operation
        self._specs = None

    def replace(self, prefix: str, operations: Iterable[Operation[Any]]) -> None:
        """Put these behind all others, in place of those whose names begin with ``prefix``;
        raises DuplicateOperation and changes nothing when a name is taken.
        """
        kept = {n: op for n, op in self._operations.items() if not n.startswith(prefix)}
        for operation in operations:
            if operation.name in kept:
                raise DuplicateOperation(f"{operation.name} is in the registry already")
            kept[operation.name] = operation
        self._operations = kept
        self._specs = None

    def get(self, name: str) -> AnyOperation | None:
        """The operation of exactly that name."""
        return self._operations.get(name)

    def specs(self) -> tuple[OperationSpec, ...]:
        """Every operation as prompts and native calls name it, in the order of adding."""
        if self._specs is None:
            self._specs = tuple(op.spec for op in self._operations.values())
        return self._specs

    def argument_problem(self, name: str, args: JsonObject) -> str:
        """What is wrong with the arguments of an operation, as a sentence; empty for nothing."""
        operation = self._operations.get(name)
        if operation is None:
            return f"There is no operation {name!r}."
        if found := references(args, operation.content):
            return f"Arguments must hold the values themselves: {'; '.join(found)}."
        try:
            operation.arguments.model_validate(args)
        except ValidationError as error:
            return f"The arguments of {name} are wrong: {argument_problems(error)}."
        return ""

    def nearest(self, name: str) -> tuple[str, ...]:
        """At most three names that someone who wrote ``name`` may have meant."""
        names = list(self._operations)
        tail = name.rsplit(".", 1)[-1]
        by_tail = [n for n in names if n.rsplit(".", 1)[-1] == tail]
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        return tuple(dict.fromkeys([*by_tail, *close]))[:3]


def default_registry() -> Registry:
    """The file operations."""
    from duckflow_tui.tools import files, listing, reading, search

    return Registry(
        (
            reading.READ_FILE,
            listing.LIST_DIR,
            listing.FIND_FILES,
            search.SEARCH_TEXT,
            files.WRITE_FILE,
            files.EDIT_FILE,
            files.MOVE_FILE,
            files.DELETE_FILE,
        )
    )
