"""Breaks statements of the program by chance, and tells which of them no test notices."""

from __future__ import annotations

import argparse
import hashlib
import json
import secrets
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any, Final, TypedDict

from mutation.areas import AREAS, Area, all_tests, sources_of
from mutation.mutants import Mutant, broken, mutants_of, some_of
from mutation.rules import RULES, switch_off
from mutation.tree import ROOT, Copy, copied

CAUGHT_FROM: Final = 0.95  # of all mutations

_CACHE: Final = ROOT / ".pytest_cache" / "mutation-3.json"  # what the tests of a file enter
_AS_THEY_ARE: Final = 3600.0  # seconds for all tests
_FIRST: Final = 12  # tests that are tried alone, since most mutations fail the first ones
_ENOUGH: Final = 300.0  # seconds of tests for one mutation, the quickest first
_START: Final = 120.0  # seconds that a run may take besides its tests
_SLOWER: Final = 6.0  # times as long as a test takes by itself

Tests = dict[str, dict[str, Any]]  # what each enters, how long it takes, whether it passes


class _Looked(TypedDict):
    """What the tests of one file come by, and the sources that there were to come by."""

    sources: list[str]
    tests: Tests


_NEVER: Final = _Looked(sources=[], tests={})


def main() -> int:
    """The command line; 1 where too many mutations survived."""
    options = _options()
    signal.signal(signal.SIGTERM, _stopped)
    if options.rules is not None:
        return switch_off(options.rules)
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    areas = [area for area in AREAS if not options.only or area.name in options.only]
    if options.list:
        for area, mutant in _chosen(areas, ROOT, Random(seed), options.count, options.at):
            print(f"{area.name:8} {mutant}")
        return 0
    caught: defaultdict[str, list[bool]] = defaultdict(list)
    with copied() as copy:
        chosen = _chosen(areas, copy.root, Random(seed), options.count, options.at)
        print(f"{len(chosen)} mutations, seed {seed}", flush=True)
        known = _tests(copy)
        for area, mutant in chosen:
            since = time.monotonic()
            by = _caught_by(mutant, copy, known)
            caught[area.name].append(bool(by))
            said = f"caught by {by}" if by else "SURVIVED"
            print(f"{area.name:8} {mutant}  {said}  ({time.monotonic() - since:.0f} s)", flush=True)
    return _sum(caught)


def _stopped(number: int, frame: object) -> None:
    """End as after Ctrl+C: the copy is taken away."""
    sys.exit(128 + number)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/mutation", description=__doc__)
    names = [area.name for area in AREAS]
    parser.add_argument("--seed", type=int, help="makes the same choice again; else by chance")
    parser.add_argument("--count", type=int, default=60, help="mutations in all (default: 60)")
    parser.add_argument("--only", action="append", choices=names, help="an area; may be repeated")
    parser.add_argument("--at", help="every mutation of one line: path:line")
    rules = "switch each safety rule off, or those named, instead of breaking statements"
    parser.add_argument("--rules", nargs="*", choices=RULES, metavar="R01", help=rules)
    parser.add_argument("--list", action="store_true", help="name the mutations, run nothing")
    return parser.parse_args()


def _chosen(
    areas: Sequence[Area], root: Path, random: Random, count: int, at: str | None
) -> list[tuple[Area, Mutant]]:
    """As many of each area, one statement each; or all of the line ``at``."""
    chosen: list[tuple[Area, Mutant]] = []
    for number, area in enumerate(areas):
        found = [m for path in sources_of(area, root) for m in mutants_of(path, _text(root / path))]
        if at is not None:
            chosen += [(area, m) for m in found if f"{m.path}:{m.line}" == at]
            continue
        share = count // len(areas) + (number < count % len(areas))
        chosen += [(area, mutant) for mutant in some_of(found, share, random)]
    return chosen


def _caught_by(mutant: Mutant, copy: Copy, tests: Tests) -> str:
    """The test that fails with it; empty where all that come by this place pass."""
    near = _near(mutant, tests)
    source = broken(mutant, _text(copy.root / mutant.path))
    with copy.changed(mutant.path, source):
        for some in _rounds(near):
            within = _START + _SLOWER * sum(near[test] for test in some)
            if by := copy.run(some, within).caught:
                return by
    return ""


def _near(mutant: Mutant, tests: Tests) -> dict[str, float]:
    """The tests that come by the place, and their seconds.

    What stands outside of functions, or comes from one that is called there, may be used anywhere:
    by all that enter the module, and by the tests of values, which are quick. A function that
    nobody entered may be a new one.
    """
    module = f"{mutant.path.as_posix()}::"
    good = {test: told for test, told in tests.items() if told["passed"]}
    place = module + mutant.function
    found = [test for test, told in good.items() if place in told["entered"]]
    loaded = [test for test, told in good.items() if place in told["loaded"]]
    found += loaded
    if loaded or not mutant.function:
        found += [test for test in good if test.startswith("tests/unit/")]
    # Where a result is kept, of one process only the first test comes by.
    if not found or loaded or mutant.kept or not mutant.function:
        found += [test for test, told in good.items() if _enters(told, module)]
    return {test: good[test]["seconds"] for test in found}


def _enters(told: dict[str, Any], module: str) -> bool:
    return any(name.startswith(module) for name in told["entered"])


def _rounds(near: dict[str, float]) -> list[list[str]]:
    """The quickest tests alone, then the others as long as there is time for them."""
    quickest = sorted(near, key=near.__getitem__)
    whole = accumulate(near[test] for test in quickest)
    quickest = [test for test, spent in zip(quickest, whole, strict=True) if spent <= _ENOUGH]
    return [some for some in (quickest[:_FIRST], quickest[_FIRST:]) if some]


def _tests(copy: Copy) -> Tests:
    """All tests. Those of a file that is as it was are not run again, unless there is a source that
    was not there then.
    """
    root = copy.root
    sources = [path.as_posix() for area in AREAS for path in sources_of(area, root)]
    marks = {path: _digest(_text(root / path)) for path in all_tests(root)}
    kept: dict[str, _Looked] = {}
    if _CACHE.exists():
        kept = json.loads(_CACHE.read_text(encoding="utf-8"))
    new = [p for p, mark in marks.items() if set(sources) - set(kept.get(mark, _NEVER)["sources"])]
    if new:
        print(f"looking what the tests of {len(new)} files come by", flush=True)
        found = copy.entered_by(new, _AS_THEY_ARE)
        for told in found.values():
            for way in ("entered", "loaded"):
                told[way] = [name for name in told[way] if name.partition("::")[0] in sources]
        for path in new:
            prefix = f"{path.as_posix()}::"
            tests = {test: told for test, told in found.items() if test.startswith(prefix)}
            kept[marks[path]] = {"sources": sources, "tests": tests}
        _CACHE.parent.mkdir(exist_ok=True)
        _CACHE.write_text(json.dumps(kept), encoding="utf-8")
    tests = {test: told for mark in marks.values() for test, told in kept[mark]["tests"].items()}
    for test, told in tests.items():
        if not told["passed"]:
            print(f"fails as things are, left out: {test}", flush=True)
    return tests


def _sum(caught: dict[str, list[bool]]) -> int:
    all_of = [one for found in caught.values() for one in found]
    areas = ", ".join(f"{name} {sum(found)}/{len(found)}" for name, found in caught.items())
    print(f"{sum(all_of)} of {len(all_of)} caught ({areas})")
    return 0 if sum(all_of) >= CAUGHT_FROM * len(all_of) else 1


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
