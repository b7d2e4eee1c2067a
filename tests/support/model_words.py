"""The English texts for the model, as the app renders them."""

from __future__ import annotations

from typing import Final

from duckflow_tui.places import find_assets
from duckflow_tui.prompting.templates import notice_words

WORDS: Final = notice_words(find_assets("prompts"), "en")
