"""The record each stay in a journal begins with: who writes, and in which version."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from duckflow_tui import __version__
from duckflow_tui.session.migrations import SCHEMA
from duckflow_tui.session.payload import Redact, Unreadable, as_bytes
from duckflow_tui.state.base import Frozen


class JournalHeader(Frozen):
    """Says how the records after it are to be read, and whose session it is.

    ``device`` and ``inode`` tell a workspace from another one at the same path; 0: not known.
    """

    schema_version: int = SCHEMA
    app: str = __version__
    session_id: str
    workspace: str  # absolute path
    device: int = 0
    inode: int = 0
    created_at: float  # of the session, seconds since the epoch
    opened_at: float  # of this stay in it

    def as_body(self, redact: Redact | None) -> bytes:
        """The JSON of its record."""
        fields = self.model_dump()
        if redact is not None:
            fields["workspace"] = redact(self.workspace)
        return as_bytes({"journal": fields})


def header_of(fields: dict[str, Any], known: int = SCHEMA) -> JournalHeader | int:
    """The header, or the version of one of a later program; raises Unreadable."""
    inner: Any = fields.get("journal")
    if not isinstance(inner, dict):
        raise Unreadable("no_header")
    version: Any = inner.get("schema_version")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # JSON
    if isinstance(version, int) and version > known:
        return version
    try:
        return JournalHeader.model_validate(inner)
    except ValidationError:
        raise Unreadable("no_header") from None
