"""What takes how much of a request, by kind; and for how long the window lasts at this pace."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from duckflow_tui.prompting.budget import Fitted, Layer
from duckflow_tui.prompting.window import FULL, View
from duckflow_tui.state.context import PromptFigures, PromptParts
from duckflow_tui.state.messages import OperationMessage
from duckflow_tui.state.operations import Effect, OperationSpec
from duckflow_tui.state.prompt import LayerUse

_PINNED: Final = (
    *("goal", "constraints", "requirements", "gates"),
    *("plan", "plan_brief", "plan_name", "plan_goal", "step", "criteria"),
)
_FILES: Final = "file_ops."
_TURNS: Final = 5  # newest ones whose growth counts


def parts_of(
    view: View,
    base: int,
    uses: Sequence[LayerUse],
    layers: Sequence[Layer],
    fitted: Sequence[Fitted],
    operations: Sequence[OperationSpec],
    count: Callable[[str], int],
    factor: float,
) -> PromptParts:
    """The parts of a request; ``base`` and the sizes of ``view`` are before the factor."""
    sizes = {use.layer: use.tokens for use in uses}
    base = math.ceil(base * factor)
    changing = sum(fit.use.tokens for fit in fitted) - base
    pinned = min(math.ceil(sum(count(text) for text in _pinned(layers)) * factor), changing)
    reads = {o.name for o in operations if o.effect is Effect.READ and o.name.startswith(_FILES)}
    files = results = 0
    for message, size in zip(view.history, view.sizes, strict=True):
        if isinstance(message, OperationMessage):
            if message.operation in reads:
                files += size
            else:
                results += size
    files, results = math.ceil(files * factor), math.ceil(results * factor)
    return PromptParts(
        base=base,
        operations=sizes["operations"] + sizes["format"],
        project=sizes["project"],
        pinned=pinned,
        files=files,
        results=results,
        chat=max(math.ceil(view.tokens * factor) - files - results, 0),
        tail=max(changing - pinned, 0),
    )


def _pinned(layers: Sequence[Layer]) -> list[str]:
    found: list[str] = []
    for layer in layers:
        for name in _PINNED:
            if name in layer.cuttable:
                found.extend(layer.cuttable[name].items)
            else:
                found.append(layer.values.get(name, ""))
    return [text for text in found if text]


def turns_left(requests: Sequence[PromptFigures], room: int) -> int | None:
    """About how many turns more until the conversation is compacted, at the growth of the newest
    ones; None while it does not grow or nothing is known.

    ``room``: tokens that a request may have, the reply's share taken off.
    """
    last: dict[str, PromptFigures] = {}
    for request in requests:
        if request.purpose == "main" and not request.aside and request.turn_id:
            last.pop(request.turn_id, None)
            last[request.turn_id] = request
    newest = list(last.values())[-_TURNS - 1 :]
    sizes = [request.parts.conversation for request in newest]
    grown = [after - before for before, after in pairwise(sizes)]
    grown = [step for step in grown if step > 0]  # a compaction is no growth
    if not grown:
        return None
    now = newest[-1].parts
    fixed = now.total - now.conversation
    left = FULL * (room - fixed) - now.conversation
    return max(int(left // (sum(grown) / len(grown))), 0)
