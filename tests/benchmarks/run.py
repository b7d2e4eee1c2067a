"""Every budget of speed that exists so far, measured: one JSON line each, or a table.

    python tests/benchmarks [--table] [--only NAME] [--quick]

``--only`` takes a part of a group's name: start, keys, stream, session, diff, plan, idle, prompt,
files, chat. Times are of this machine as it is now: medians, beside a bare Textual app in the
same run where the budget is a ratio. It fails for no budget; it says which is missed, and why.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import (
    bench_diff,
    bench_files,
    bench_idle,
    bench_keys,
    bench_plan,
    bench_prompt,
    bench_session,
    bench_start,
    bench_stream,
    bench_transcript,
)
from benchmarks.rows import Row, explained, table

Measure = Callable[[bool], list[Row]]

GROUPS: dict[str, Measure] = {
    "start": lambda quick: bench_start.measure(quick=quick),
    "keys": lambda quick: bench_keys.measure(quick=quick),
    "stream": lambda quick: bench_stream.measure(quick=quick),
    "session": lambda quick: bench_session.measure(quick=quick),
    "diff": lambda quick: bench_diff.measure(quick=quick),
    "plan": lambda quick: bench_plan.measure(quick=quick),
    "idle": lambda quick: bench_idle.measure(quick=quick),
    "prompt": lambda quick: bench_prompt.measure(),
    "files": lambda quick: bench_files.measure(quick=quick),
    "chat": lambda quick: bench_transcript.measure(),
}


def main() -> int:
    """Measure and print; 0 whatever the budgets say, 2 for a name that is none."""
    parser = argparse.ArgumentParser(description="Measure the budgets of speed.")
    parser.add_argument("--table", action="store_true", help="a table instead of JSON lines")
    parser.add_argument("--only", metavar="NAME", default="", help="groups with this in their name")
    parser.add_argument("--quick", action="store_true", help="fewer samples, smaller sizes")
    args = parser.parse_args()
    chosen = [measure for name, measure in GROUPS.items() if args.only in name]
    if not chosen:
        parser.error(f"no group has {args.only!r} in its name: {', '.join(GROUPS)}")
    lines: list[Row] = []
    for measure in chosen:
        for line in map(explained, measure(args.quick)):
            lines.append(line)
            if not args.table:
                print(json.dumps(line, ensure_ascii=False), flush=True)
    if args.table:
        print(table(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
