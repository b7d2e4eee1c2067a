"""Notices: the app's own messages in the conversation."""

from __future__ import annotations

import logging
from collections.abc import Callable

from duckflow_tui.places import find_log_file
from duckflow_tui.state.base import IdSource, describe_error
from duckflow_tui.state.conversation import Level, NoticeAdded, NoticeMessage
from duckflow_tui.state.store import Store

log = logging.getLogger("duckflow.faults")


def _no_words(name: str, **_values: str) -> str:
    """Return the name of a text in place of the text."""
    return name


class Notices:
    """Adds notices to the conversation. ``key`` is an entry of the catalogue of words; ``params``
    may be untrusted text.
    """

    def __init__(
        self,
        store: Store,
        ids: IdSource,
        redact: Callable[[str], str] = lambda text: text,
        words: Callable[..., str] = _no_words,
    ) -> None:
        """``redact`` removes secrets from error texts; ``words`` renders a text for the model by
        its name and values.
        """
        self._store = store
        self._ids = ids
        self._redact = redact
        self.words = words

    def tell(
        self,
        key: str,
        /,
        level: Level = Level.INFO,
        *,
        step_id: str = "",
        aside: bool = False,
        **params: str,
    ) -> None:
        """Add a notice for the user, and for the model the text of the same name."""
        told = self.words(key, **params)
        self.say(key, level, for_model=told, step_id=step_id, aside=aside, **params)

    def say(
        self,
        key: str,
        /,
        level: Level = Level.INFO,
        *,
        for_model: str = "",
        step_id: str = "",
        aside: bool = False,
        **params: str,
    ) -> None:
        """Add a notice for the user. ``for_model`` is the text for the model, in the conversation,
        the thread of a step (``step_id``) or an aside; empty: the model is not told.
        """
        message = self.make_message(key, for_model, level, **params)
        self._store.dispatch(NoticeAdded(message=message.replace(step_id=step_id, aside=aside)))

    def make_message(
        self, key: str, /, for_model: str = "", level: Level = Level.INFO, **params: str
    ) -> NoticeMessage:
        """Return a notice message for another event to carry; nothing is added here."""
        return NoticeMessage(
            message_id=self._ids("msg"),
            level=level,
            key=key,
            params=params,
            for_model=for_model,
            at=self._store.clock.now(),
        )

    def warn(self, key: str, /, *, for_model: str = "", step_id: str = "", **params: str) -> None:
        """Add a notice of level WARNING."""
        self.say(key, Level.WARNING, for_model=for_model, step_id=step_id, aside=False, **params)

    def error(self, key: str, /, *, for_model: str = "", step_id: str = "", **params: str) -> None:
        """Add a notice of level ERROR."""
        self.say(key, Level.ERROR, for_model=for_model, step_id=step_id, aside=False, **params)

    def report_fault(self, error: Exception, *, for_model: str = "") -> str:
        """Log an unexpected error and add a notice of it with the path of the log; return the error
        as redacted text.
        """
        log.error("unexpected", exc_info=error)
        what, path = self._redact(describe_error(error)), find_log_file()
        if path:
            self.error("engine.fault", for_model=for_model, error=what, log=path)
        else:
            self.error("engine.fault_unlogged", for_model=for_model, error=what)
        return what
