"""Small servers of tools for the demo: offline, each a program of its own.

They speak the protocol by hand: with its library each would take more than a second to start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class DemoServer:
    """A server of the demo: ``python -I -m`` and its module."""

    name: str
    schema_tool: str = ""
    query_tool: str = ""

    @property
    def args(self) -> tuple[str, ...]:
        """The arguments that start it with the Python that runs the program."""
        return "-I", "-m", f"{__name__}.{self.name}"


SERVERS: Final = (
    DemoServer("calculator"),
    DemoServer("clock"),
    DemoServer("place"),
    DemoServer("shop", schema_tool="get_table_schema", query_tool="query"),
)
