"""The user's layout of the main screen, stored between starts."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel

from duckflow_tui.places import write_private

FILE_NAME: Final = "side.json"
SHARE: Final = 40  # percent of the screen's width for the column while a pane in it is open

#: How much of the width the panes beside the chat have.
Column = Literal["side", "wide", "hidden"]


class Arrangement(BaseModel, frozen=True, extra="ignore"):
    """Layout of the main screen; stored as ``side.json`` in the program's data folder."""

    share: int = 0  # percent of the width for the column in its place "side"; 0: not moved
    column: Column = "side"
    split: bool = False  # diffs show two versions side by side
    wrap: bool = True  # diffs break long lines

    @classmethod
    def read(cls, folder: Path | None) -> Arrangement:
        """Load the layout from a folder; the default where there is none or it cannot be read."""
        try:
            return cls.model_validate_json((folder / FILE_NAME).read_bytes()) if folder else cls()
        except (OSError, ValueError):
            return cls()

    def write(self, folder: Path) -> str:
        """Store the layout in a folder, which is created if missing. Returns the reason of a
        failure, empty on success.
        """
        try:
            write_private(folder / FILE_NAME, self.model_dump_json().encode())
        except OSError as error:
            return f"{FILE_NAME}: {error.strerror or error}"
        return ""
