"""Find ``styles/`` and ``prompts/``: beside the package in a checkout, inside it when installed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

AssetFolder = Literal["styles", "prompts"]

_PACKAGE = Path(__file__).resolve().parent


def asset_folder(name: AssetFolder) -> Path:
    """The folder of that name; the checkout's comes first, so that edits act at once.

    Raises FileNotFoundError, naming both places, when the installation is incomplete.
    """
    checkout = _PACKAGE.parent / name
    if (_PACKAGE.parent / "pyproject.toml").is_file() and checkout.is_dir():
        return checkout
    packaged = _PACKAGE / name
    if packaged.is_dir():
        return packaged
    raise FileNotFoundError(f"{name}/ is neither in {checkout} nor in {packaged}")
