"""Settings in a project's folder: they may only tighten the user's settings (R10)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, Final, cast

from pydantic import BaseModel, ValidationError

from duckflow_tui.settings import SettingProblem, Settings, describe_fault, find_line, sift_denials
from duckflow_tui.state.operations import ApprovalMode

#: Approval modes from the strictest on.
_MODES: Final = tuple(ApprovalMode)

#: Limits that a project may lower. True: 0 means no limit.
_LOWERED: Final = {
    ("limits", "max_cost"): True,
    ("limits", "max_tokens"): True,
    ("execution", "max_model_calls"): False,
    ("files", "max_write_bytes"): False,
    ("shell", "timeout_s"): False,
    ("shell", "max_timeout_s"): False,
    ("shell", "max_output_bytes"): False,
}


def tighten_settings(
    settings: Settings, text: str, source: str
) -> tuple[Settings, tuple[SettingProblem, ...]]:
    """Return the user's settings with the stricter values in ``text``: approval mode, limits, and
    denials, which are added. Every other entry of ``text``, which is the file ``source``,
    becomes a problem and changes nothing.
    """
    made = settings.model_copy(deep=True)
    problems: list[SettingProblem] = []

    def refuse(key: tuple[str, ...], code: str, params: Mapping[str, str] | None = None) -> None:
        """Add a problem for this key."""
        line = find_line(text, key)
        problems.append(SettingProblem(source, line, ".".join(key), code, params or {}))

    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        refuse((), "not_toml", {"detail": str(error)})
        return made, tuple(problems)
    for name, fields in table.items():
        if not isinstance(fields, dict):
            refuse((name,), "project_key")
            continue
        for key, value in cast("dict[str, Any]", fields).items():
            is_mode, no_limit = (name, key) == ("approval", "mode"), _LOWERED.get((name, key))
            is_denial = (name, key) == ("approval", "deny")
            if not (is_mode or is_denial) and no_limit is None:
                refuse((name, key), "project_key")
                continue
            if is_denial:
                value = sift_denials(
                    value, lambda fault: refuse(("approval", "deny"), fault.key, fault.params)
                )
            before: BaseModel = getattr(made, name)
            try:
                after = type(before).model_validate({**before.model_dump(), key: value})
            except ValidationError as error:
                refuse((name, key), *describe_fault(error, type(before)))
                continue
            old, new = getattr(before, key), getattr(after, key)
            if is_denial:  # the folder's denials are added
                made.approval.deny = (*old, *new)
                continue
            if is_mode:
                stricter = _MODES.index(new) < _MODES.index(old)
            elif no_limit and not (old and new):
                stricter = bool(new)
            else:
                stricter = new < old
            if stricter:  # R10b
                setattr(made, name, after)
            elif new != old:
                refuse((name, key), "project_looser")
    return made, tuple(problems)
