"""Rules that the user keeps for a project; stored in a file of the app, never in the project."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from duckflow_tui.places import lock_folder, write_private
from duckflow_tui.session.folders import read_private
from duckflow_tui.state.base import hash_data
from duckflow_tui.state.gates import Grant

LARGEST: Final = 256 * 1024  # bytes of the file, as of every file of settings (R18)
_NAME: Final = 40  # characters of the folder's name


class ProjectRules:
    """The rules file of one project, identified by its folder's real path, device and inode.

    Rules of another folder at the same path are ignored, and replaced by the next change. Methods
    raise OSError, also for a file that is too large.
    """

    def __init__(self, folder: Path, workspace: Path, identity: tuple[int, int]) -> None:
        """``identity``: device and inode of the workspace."""
        shown = re.sub(r"[^\w.-]+", "-", workspace.name).strip("-.")[:_NAME] or "project"
        self._path = folder / f"{shown}-{hash_data(os.fsencode(workspace))[:12]}.json"
        self._project = {
            "workspace": os.fsdecode(workspace),
            "device": identity[0],
            "inode": identity[1],
        }
        self.path = str(self._path)

    def load(self) -> tuple[Grant, ...]:
        """Return the rules, oldest first; invalid entries are left out."""
        return self._parse_rules(read_private(self._path, LARGEST))

    def add(self, rule: Grant) -> None:
        """Store a rule; it replaces one with the same pattern."""
        self._change_rules(lambda rules: (*(r for r in rules if r.pattern != rule.pattern), rule))

    def remove(self, grant_id: str) -> None:
        """Delete the rule with this id."""
        self._change_rules(lambda rules: tuple(r for r in rules if r.grant_id != grant_id))

    def _change_rules(self, change: Callable[[tuple[Grant, ...]], tuple[Grant, ...]]) -> None:
        """Rewrite the rules file under a lock. Raises OSError."""
        with lock_folder(self._path.parent):
            rules = change(self._parse_rules(read_private(self._path, LARGEST)))
            dumped = [rule.model_dump(mode="json", exclude={"source"}) for rule in rules]
            data = json.dumps({**self._project, "rules": dumped}, indent=1).encode()
            if len(data) > LARGEST:
                raise OSError(f"{self.path}: more than {LARGEST:,} bytes")
            write_private(self._path, data)

    def _parse_rules(self, raw: bytes | None) -> tuple[Grant, ...]:
        """Parse the valid rules of a file that belongs to this project; none for another project's.
        Raises OSError for a file that is too large.
        """
        if raw is not None and len(raw) > LARGEST:
            raise OSError(f"{self.path}: more than {LARGEST:,} bytes")
        try:
            read: object = json.loads(raw or b"{}")
        except (ValueError, RecursionError):
            read = {}
        table = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
        given: object = table.get("rules")
        if not isinstance(given, list) or any(
            table.get(name) != value for name, value in self._project.items()
        ):
            return ()
        found: list[Grant] = []
        for fields in cast("list[object]", given):
            try:
                rule = Grant.model_validate(fields)
            except (ValidationError, RecursionError):
                continue
            if rule.operation and rule.path and rule.grant_id:
                found.append(rule.replace(source="project", step_id=""))
        return tuple(found)
