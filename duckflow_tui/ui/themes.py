"""The palettes as Textual themes, with a CSS variable for each colour."""

from __future__ import annotations

from textual.theme import Theme

from duckflow_tui.ui.palette import PALETTES, Palette


def themes() -> list[Theme]:
    """Return all themes of the app."""
    return [_theme(palette) for palette in PALETTES.values()]


def _theme(palette: Palette) -> Theme:
    return Theme(
        name=palette.name,
        dark=palette.dark,
        primary=palette.accent,
        secondary=palette.ai,
        accent=palette.accent,
        warning=palette.accent,
        error=palette.bad,
        success=palette.good,
        foreground=palette.text,
        background=palette.background,
        surface=palette.raised,
        panel=palette.bars,
        variables={
            "raised": palette.raised,
            "bars": palette.bars,
            "quiet": palette.quiet,
            "faint": palette.faint,
            "on-accent": palette.on_accent,
            "ai": palette.ai,
            "good": palette.good,
            "bad": palette.bad,
            "added": palette.added,
            "removed": palette.removed,
            "added-word": palette.added_word,
            "removed-word": palette.removed_word,
            "selection": palette.selection,
            "border": palette.accent,
            "border-blurred": palette.faint,
            "input-cursor-background": palette.text,
            "input-cursor-foreground": palette.background,
            "input-selection-background": palette.selection,
            "input-selection-foreground": palette.text,
            "screen-selection-background": palette.selection,
            "screen-selection-foreground": palette.text,
            "block-cursor-background": palette.bars,
            "block-cursor-foreground": palette.text,
            "block-cursor-text-style": "none",
            "scrollbar": palette.bars,
            "scrollbar-hover": palette.faint,
            "scrollbar-active": palette.quiet,
            "scrollbar-background": palette.background,
            "scrollbar-background-hover": palette.background,
            "scrollbar-background-active": palette.background,
            "scrollbar-corner-color": palette.background,
        },
    )
