"""The lines that a call changed, as far as the user let them be changed."""

from __future__ import annotations

from duckflow_tui.state.messages import OperationMessage


def changed_lines(message: OperationMessage) -> list[tuple[str, list[str]]]:
    """Path and marked lines (``+ …``, ``- …``) of each file that the call changed; the parts that
    the user left out in the gate are not in it, and no lines of a file that was edited there.
    """
    if not message.result.changes:
        return []
    if message.answer is not None and message.answer.edited is not None:
        return []
    previews = message.gate.previews if message.gate is not None else message.previews
    left_out = message.answer.left_out if message.answer is not None else ()
    found: list[tuple[str, list[str]]] = []
    for place, preview in enumerate(previews):
        marked = [
            f"{line.mark} {line.text}"
            for number, hunk in enumerate(preview.hunks)
            if (place, number) not in left_out
            for line in hunk.lines
            if line.mark.strip()
        ]
        if marked:
            found.append((preview.target or preview.path, marked))
    return found
