"""Results: bounded by line and as a whole, and what is left out is counted and kept."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from duckflow_tui.session.blobs import MemoryBlobs
from duckflow_tui.tools.results import MAX_LINE, MAX_RESULT, bound_result

LINES = st.lists(
    st.tuples(st.sampled_from("x語\x85\u2028😀"), st.integers(0, 3 * MAX_LINE)), max_size=20
)


@settings(max_examples=60, deadline=None)
@given(LINES, st.booleans())
async def test_no_result_is_larger_and_all_that_is_left_out_is_counted(
    lines: list[tuple[str, int]], ended: bool
) -> None:
    text = "\n".join(sign * size for sign, size in lines) + "\n" * ended
    blobs = MemoryBlobs()
    shown, cut, blob = await bound_result(text, blobs)
    assert len(shown.encode()) <= MAX_RESULT
    assert max(map(len, shown.split("\n"))) <= MAX_LINE + 40
    if not cut:
        assert (shown, blob) == (text, "")
        return
    assert (await blobs.get(blob)).decode() == text
    assert f"result:{blob}" in shown
    counted = [int(found.replace(",", "")) for found in re.findall(r"\[… ([\d,]+) more", shown)]
    between = re.search(r"^\[… ([\d,]+) characters left out", shown, re.M)
    if between is None:
        assert sum(counted) == cut
        kept = re.sub(
            r" \[… [\d,]+ more characters\]|\n\[[\d,]+ characters of long .*\]", "", shown
        )
        assert len(kept.rstrip("\n")) == len(text.rstrip("\n")) - cut
