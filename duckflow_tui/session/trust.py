"""Trust in the files of a folder that steer the work, ``AGENTS.md`` and settings: each is used only
with the content that the user trusted (R10).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from duckflow_tui.places import read_plain_file, write_private
from duckflow_tui.safety.paths import WorkspaceError, choose_opener
from duckflow_tui.safety.pending_questions import Desk, Unanswered
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.base import Spawn, canonical_json, hash_data
from duckflow_tui.state.gates import LOOK, TRUST, WITHOUT, Card, CardKind, FilePreview
from duckflow_tui.state.operations import Zone
from duckflow_tui.tools.diffs import compare_files
from duckflow_tui.tools.notices import Notices
from duckflow_tui.words.figures import size_text

NOTES: Final = "AGENTS.md"
SETTINGS: Final = ".duckflow/settings.toml"
NAMES: Final = (NOTES, SETTINGS)
MAX_FILE: Final = 32 * 1024  # bytes of each that are read
_CUT: Final = f"[Only the first {MAX_FILE // 1024} KB of this file are used.]"
_MAX_KEPT: Final = 1024 * 1024  # bytes of a stored answer: both texts, escaped

log = logging.getLogger("duckflow.trust")

#: Texts of the files by their names.
Texts = Mapping[str, str]


class TrustAnswer(NamedTuple):
    """The user's answer about exactly these texts."""

    trusted: bool
    texts: Texts

    def is_answer_for(self, texts: Texts) -> bool:
        """Whether each of these texts was in the answer unchanged; the answer may have had more."""
        return all(self.texts.get(name) == text for name, text in texts.items())


class TrustAnswers:
    """Stores the user's answers, one file for each folder, readable for this user only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_answer(self, root: Path) -> TrustAnswer | None:
        """Return the stored answer for this folder; None where there is none or it cannot
        be read.
        """
        try:
            kept: Any = json.loads(read_plain_file(self._answer_path(root), _MAX_KEPT))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            log.warning("the answer for %s cannot be read: %s", root, error)
            return None
        match kept:
            case {"folder": str(folder), "trusted": bool(trusted), "texts": dict()} if (
                folder == str(root)
            ):
                texts = cast("dict[str, object]", kept["texts"])
                return TrustAnswer(trusted, {n: t for n, t in texts.items() if isinstance(t, str)})
            case _:
                return None

    def save_answer(self, root: Path, answer: TrustAnswer) -> None:
        """Store the answer for this folder, replacing an earlier one. Raises OSError."""
        kept: dict[str, object] = {
            "folder": str(root), "trusted": answer.trusted, "texts": dict(answer.texts)
        }  # fmt: skip
        write_private(self._answer_path(root), json.dumps(kept).encode())

    def _answer_path(self, root: Path) -> Path:
        """Return the file of the answer for this folder, named by a hash of its path."""
        return self._folder / f"{hash_data(str(root))[:32]}.json"


class ProjectTrust:
    """Decides for one session which files of its folder are used, and asks the user about new ones.

    ``use`` is called with the texts to use whenever they change. ``by_flag``: in a run without a
    screen, whether the command line trusts the folder's files; None where the user can be asked.
    """

    def __init__(
        self,
        workspace: Workspace,
        desk: Desk,
        notices: Notices,
        spawn: Spawn,
        kept: TrustAnswers,
        use: Callable[[Texts], None],
        by_flag: bool | None = None,
    ) -> None:
        self._workspace = workspace
        self._desk = desk
        self._notices = notices
        self._spawn = spawn
        self._kept = kept
        self._use = use
        self._by_flag = by_flag
        self.given = False  # the user trusts all that lies there now
        self._said = False  # whether the user knows that files are not used without the flag
        self._used: Texts = {}
        self._answer: TrustAnswer | None = None  # of this session
        self.asked: Card | None = None  # the question that is open

    async def use_trusted(self) -> None:
        """Read the folder's files, use those with trusted content, and open a question about new or
        changed ones; without a screen, say once that a flag is needed.
        """
        texts = await asyncio.to_thread(read_texts, self._workspace)
        if self._by_flag is not None:
            self.given = self._by_flag
            self._use_texts(texts if self._by_flag else {})  # R10d
            if texts and not (self._by_flag or self._said):
                self._said = True
                self._notices.say("trust.needs_flag", names=", ".join(texts))
            return
        kept = await asyncio.to_thread(self._kept.get_answer, self._workspace.root)
        answer = self._answer or kept  # the newest may not be on disk yet
        known: Texts = answer.texts if answer is not None else {}
        trusted = answer is not None and answer.trusted
        self.given = trusted and answer is not None and answer.is_answer_for(texts)
        # R10a R10c
        self._use_texts({n: t for n, t in texts.items() if trusted and known.get(n) == t})
        if answer is None or not answer.is_answer_for(texts):
            self._open_card(texts, known)
        elif self.asked is not None and self.asked.subject != _make_subject(texts):
            self.withdraw()

    async def ask_again(self) -> bool:
        """Ask about all present files, whatever was answered before. Returns False where there are
        none.
        """
        texts = await asyncio.to_thread(read_texts, self._workspace)
        if texts:
            self._open_card(texts, {})
        return bool(texts)

    def _use_texts(self, texts: Texts) -> None:
        """Call ``use`` where the texts to use have changed."""
        if texts != self._used:
            self._used = texts
            self._use(texts)

    def _open_card(self, texts: Texts, known: Texts) -> None:
        """Open a question about these texts, in place of an open one; nothing where the same is
        open already.
        """
        subject = _make_subject(texts)
        if self.asked is not None and self.asked.subject == subject:
            return
        self.withdraw()
        if not texts:
            return
        files = tuple(
            _make_preview(n, known.get(n), t) for n, t in texts.items() if known.get(n) != t
        )
        options = (TRUST, LOOK, WITHOUT)
        card = self._desk.make_card(CardKind.TRUST, options, subject=subject, files=files)
        self.asked = card
        self._spawn(self._on_answer(card, texts), "trust")

    async def _on_answer(self, card: Card, texts: Texts) -> None:
        """Wait for the user's answer, act on it, and store it on disk."""
        if self.asked is not card:  # withdrawn before it was shown
            return
        with contextlib.suppress(Unanswered):
            answer = await self._desk.ask(card)
            trusted = self.given = answer.action == TRUST.action
            self.asked, self._answer = None, TrustAnswer(trusted, texts)
            self._use_texts(texts if trusted else {})
            try:
                await asyncio.to_thread(self._kept.save_answer, self._workspace.root, self._answer)
            except OSError as error:
                self._notices.warn("trust.not_kept", reason=error.strerror or str(error))

    def withdraw(self) -> None:
        """Withdraw the open question, if any."""
        if self.asked is not None:
            card, self.asked = self.asked, None
            self._desk.withdraw_question(card.card_id, "renewed")


def _make_subject(texts: Texts) -> str:
    """Return a hash of the texts, by which equal questions are recognized."""
    return hash_data(canonical_json(dict[str, Any](texts)))


def read_texts(workspace: Workspace) -> dict[str, str]:
    """Return the texts of the folder's notes and settings by file name. Blocking.

    Left out are files that are missing, blank, not regular, or outside the workspace, and settings
    over 32 KB. Longer notes are cut, with a remark.
    """
    found: dict[str, str] = {}
    for name in NAMES:
        try:
            if not workspace.is_intact():
                break
            data = _read_plain(workspace, name)
        except FileNotFoundError:
            continue
        except (OSError, WorkspaceError) as error:
            log.info("%s is not used: %s", name, error)
            continue
        text = data[:MAX_FILE].decode("utf-8-sig", "replace")
        if len(data) > MAX_FILE:
            text = f"{text}\n{_CUT}\n"
        if text.strip():
            found[name] = text
    return found


def _read_plain(workspace: Workspace, name: str) -> bytes:
    """Read the first 32 KB, and one byte more, of a regular file in the workspace. A link to notes
    is followed to a file inside that is neither secret nor protected; on the path to settings no
    link is followed. Raises OSError, WorkspaceError.
    """
    path = name
    if name == NOTES:
        place = workspace.locate_path(name)
        if place.zone is not Zone.INSIDE:
            raise OSError(f"it is {place.zone}")
        path = place.resolved
    folder = os.open(workspace.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        handle = choose_opener()(folder, path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, 0)
    finally:
        os.close(folder)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("it is no plain file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(MAX_FILE + 1)
    finally:
        os.close(handle)
    if len(data) > MAX_FILE and name == SETTINGS:
        raise OSError(f"it is over {MAX_FILE // 1024} KB")
    return data


def _make_preview(name: str, before: str | None, after: str) -> FilePreview:
    """Return the changes of a file since it was trusted; all of its content where it never was."""
    data = after.encode("utf-8", "replace")
    found = compare_files(None if before is None else before.encode("utf-8", "replace"), data)
    return FilePreview(
        path=name,
        kind="create" if before is None else "modify",
        before_hash="" if before is None else hash_data(before),
        after_hash=hash_data(after),
        hunks=found.hunks,
        added=found.added,
        removed=found.removed,
        note=size_text(len(data)),
    )
