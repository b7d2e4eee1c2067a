"""How the user has arranged the main screen, kept from one start to the next."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel

from duckflow_tui.llm.connections import write_private

FILE_NAME: Final = "side.json"
SHARE: Final = 40  # percent of the screen's width, until the user moves the border

#: How much of the width the panes beside the chat have.
Column = Literal["side", "wide", "hidden"]


class Arrangement(BaseModel, frozen=True, extra="ignore"):
    """Lies in ``side.json`` in the program's data folder."""

    share: int = SHARE  # percent of the width for the column, where that is at the side
    column: Column = "side"
    split: bool = False  # diffs show two versions side by side
    wrap: bool = True  # and break long lines

    @classmethod
    def read(cls, folder: Path | None) -> Arrangement:
        """The arrangement kept in this folder; the usual one where none can be read."""
        try:
            return cls.model_validate_json((folder / FILE_NAME).read_bytes()) if folder else cls()
        except (OSError, ValueError):
            return cls()

    def write(self, folder: Path) -> str:
        """Keep it in this folder, which is made where it lacks; returns why that fails, empty
        where it does not.
        """
        try:
            write_private(folder / FILE_NAME, self.model_dump_json().encode())
        except OSError as error:
            return f"{FILE_NAME}: {error.strerror or error}"
        return ""
