"""Every budget of speed that exists so far, measured: one JSON line each, or a table.

    python tests/benchmarks [--table] [--only NAME] [--quick]
    python tests/benchmarks --base-url URL --model NAME [--api-key-env VARIABLE] [--table]
    python tests/benchmarks --stories [--protocol tools|json]

``--only`` takes a group's name or a part of it: start, keys, stream, session, sessions, diff, plan,
idle, prompt, files. Times are of this machine as it is now: medians, beside a bare Textual app in
the same run where the budget is a ratio. It fails for no budget; it says which is missed, and why.

With ``--base-url`` ten requests go to a model instead, and what each took is told. ``--stories``
plays fixed stories with a model and a judge that make no mistake, and says what they cost.
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
    bench_recorded,
    bench_requests,
    bench_session,
    bench_start,
    bench_stories,
    bench_stream,
)
from benchmarks.rows import Row, explained, table

from duckflow_tui.choice import Unusable

Measure = Callable[[bool], list[Row]]

GROUPS: dict[str, Measure] = {
    "start": lambda quick: bench_start.measure(quick=quick),
    "keys": lambda quick: bench_keys.measure(quick=quick),
    "stream": lambda quick: bench_stream.measure(quick=quick),
    "session": lambda quick: bench_session.measure(quick=quick),
    "sessions": lambda quick: bench_recorded.measure(quick=quick),
    "diff": lambda quick: bench_diff.measure(quick=quick),
    "plan": lambda quick: bench_plan.measure(quick=quick),
    "idle": lambda quick: bench_idle.measure(quick=quick),
    "prompt": lambda quick: bench_prompt.measure(),
    "files": lambda quick: bench_files.measure(quick=quick),
}


def main() -> int:
    """Measure and print; 0 whatever the budgets say, 2 for a name or an endpoint that is none."""
    parser = argparse.ArgumentParser(description="Measure the budgets of speed.")
    parser.add_argument("--table", action="store_true", help="a table instead of JSON lines")
    parser.add_argument(
        "--only", metavar="NAME", default="", help="that group, or all with this in their name"
    )
    parser.add_argument("--quick", action="store_true", help="fewer samples, smaller sizes")
    parser.add_argument("--base-url", metavar="URL", help="a real endpoint for the ten requests")
    parser.add_argument("--model", metavar="NAME", help="its model")
    parser.add_argument("--api-key-env", metavar="VARIABLE", help="the variable with its key")
    parser.add_argument("--stories", action="store_true", help="what fixed stories cost")
    parser.add_argument("--protocol", default="auto", help="of the stories: tools or json")
    args = parser.parse_args()
    if args.stories:
        print(bench_stories.table(bench_stories.measure(args.protocol)))
        return 0
    if args.base_url or args.model or args.api_key_env:
        if not (args.base_url and args.model):
            parser.error("--base-url and --model belong together")
        model = bench_requests.Model(args.base_url, args.model, args.api_key_env)
        try:
            rows = bench_requests.measure(model, None if args.table else _print_line)
        except Unusable as unusable:
            parser.error(str(unusable))
        if args.table:
            print(bench_requests.table(rows))
        return 0
    named = GROUPS.get(args.only)
    chosen = (
        [named] if named else [measure for name, measure in GROUPS.items() if args.only in name]
    )
    if not chosen:
        parser.error(f"no group has {args.only!r} in its name: {', '.join(GROUPS)}")
    lines: list[Row] = []
    for measure in chosen:
        for line in map(explained, measure(args.quick)):
            lines.append(line)
            if not args.table:
                _print_line(line)
    if args.table:
        print(table(lines))
    return 0


def _print_line(line: Row) -> None:
    print(json.dumps(line, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    sys.exit(main())
