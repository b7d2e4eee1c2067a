"""The app's own messages in the conversation."""

from __future__ import annotations

import logging
from collections.abc import Callable

from duckflow_tui.places import find_log_file
from duckflow_tui.state.base import IdSource, describe_error
from duckflow_tui.state.conversation import Level, NoticeAdded, NoticeMessage
from duckflow_tui.state.store import Store

log = logging.getLogger("duckflow.faults")


def _no_words(name: str, **_values: str) -> str:
    return name


class Notices:
    """Adds notices; keys are entries of the catalogue, params are untrusted text."""

    def __init__(
        self,
        store: Store,
        ids: IdSource,
        redact: Callable[[str], str] = lambda text: text,
        words: Callable[..., str] = _no_words,
    ) -> None:
        """``redact`` takes secrets out of what an error says; ``words`` gives, by its name, what
        the model is told, filled with the values.
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
        """Show a notice, and tell the model what has the same name in the words for models."""
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
        """Show a notice; ``for_model`` is also told to the model: in the conversation,
        in the thread of a step, or to the one who answers beside the work.
        """
        message = self.make_message(key, for_model, level, **params)
        self._store.dispatch(NoticeAdded(message=message.replace(step_id=step_id, aside=aside)))

    def make_message(
        self, key: str, /, for_model: str = "", level: Level = Level.INFO, **params: str
    ) -> NoticeMessage:
        """A notice that is shown by another event."""
        return NoticeMessage(
            message_id=self._ids("msg"),
            level=level,
            key=key,
            params=params,
            for_model=for_model,
            at=self._store.clock.now(),
        )

    def warn(self, key: str, /, *, for_model: str = "", step_id: str = "", **params: str) -> None:
        """A notice that something did not go as asked."""
        self.say(key, Level.WARNING, for_model=for_model, step_id=step_id, aside=False, **params)

    def error(self, key: str, /, *, for_model: str = "", step_id: str = "", **params: str) -> None:
        """A notice that something failed."""
        self.say(key, Level.ERROR, for_model=for_model, step_id=step_id, aside=False, **params)

    def report_fault(self, error: Exception, *, for_model: str = "") -> str:
        """Log an error that nothing else handles and say it in the conversation, with the file
        that has the record; returns the error in words.
        """
        log.error("unexpected", exc_info=error)
        what, path = self._redact(describe_error(error)), find_log_file()
        if path:
            self.error("engine.fault", for_model=for_model, error=what, log=path)
        else:
            self.error("engine.fault_unlogged", for_model=for_model, error=what)
        return what
