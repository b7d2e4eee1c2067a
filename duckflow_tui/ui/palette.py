"""The colours of each theme, named by meaning.

Imported before the first frame: no Textual, and not even ``typing`` at run time.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


class Palette:
    """Colours as ``#RRGGBB``, named by meaning; a subclass sets them for its theme."""

    name: str
    dark: bool
    background: str
    raised: str  # cards, selected rows
    bars: str  # header and status line
    text: str
    quiet: str  # secondary text: 4.5:1 on every ground but changed words, as what follows but faint
    faint: str  # what may be overlooked, and rules: 3:1
    accent: str  # what is the user's to act on
    on_accent: str  # text upon the accent
    ai: str
    good: str
    bad: str
    added: str  # background of added lines
    removed: str  # background of removed lines
    added_word: str  # background of the changed words inside an added line
    removed_word: str
    selection: str


class _DuckDark(Palette):
    name = "duck-dark"
    dark = True
    background = "#14171C"
    raised = "#1A1E25"
    bars = "#222833"
    text = "#E6E3DA"
    quiet = "#8F949C"
    faint = "#6E7581"
    accent = "#F2B84B"
    on_accent = "#14171C"
    ai = "#7FB7BE"
    good = "#8FBF7F"
    bad = "#E07A6B"
    added = "#17301F"
    removed = "#3A1E1E"
    added_word = "#275236"
    removed_word = "#633030"
    selection = "#3A4457"


class _DuckLight(Palette):
    name = "duck-light"
    dark = False
    background = "#FBF9F4"
    raised = "#F1EDE3"
    bars = "#E7E1D3"
    text = "#22252B"
    quiet = "#5D626C"
    faint = "#7A7D84"
    accent = "#875800"
    on_accent = "#FFFFFF"
    ai = "#1D6B76"
    good = "#346C26"
    bad = "#B03929"
    added = "#DDF0DC"
    removed = "#F8DEDA"
    added_word = "#B4DDB2"
    removed_word = "#EFB6AE"
    selection = "#CFDDF2"


class _DuckContrast(Palette):
    name = "duck-contrast"
    dark = True
    background = "#000000"
    raised = "#101010"
    bars = "#1C1C1C"
    text = "#FFFFFF"
    quiet = "#D0D0D0"
    faint = "#A8A8A8"
    accent = "#FFD75F"
    on_accent = "#000000"
    ai = "#7FE5F0"
    good = "#8CFF7A"
    bad = "#FF8A80"
    added = "#003D12"
    removed = "#520000"
    added_word = "#006B20"
    removed_word = "#8A0000"
    selection = "#264F9E"


class _DuckContrastLight(Palette):
    name = "duck-contrast-light"
    dark = False
    background = "#FFFFFF"
    raised = "#F4F4F4"
    bars = "#E8E8E8"
    text = "#000000"
    quiet = "#303030"
    faint = "#505050"
    accent = "#6B4000"
    on_accent = "#FFFFFF"
    ai = "#00505C"
    good = "#0B5200"
    bad = "#8C0F00"
    added = "#DCFFDC"
    removed = "#FFE4E0"
    added_word = "#A6ECA6"
    removed_word = "#FFB8AE"
    selection = "#B8D4FF"


DUCK_DARK: Final[Palette] = _DuckDark()
DUCK_LIGHT: Final[Palette] = _DuckLight()
DUCK_CONTRAST: Final[Palette] = _DuckContrast()
PALETTES: Final[dict[str, Palette]] = {
    p.name: p for p in (DUCK_DARK, DUCK_LIGHT, DUCK_CONTRAST, _DuckContrastLight())
}


def palette_named(name: str) -> Palette:
    """Return the palette of a theme; the dark one for an unknown name."""
    return PALETTES.get(name, DUCK_DARK)
