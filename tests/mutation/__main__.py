"""``python tests/mutation --rules [R01 …]``: switch safety rules off, and tell which of them no
test notices. Exits with 1 where there is one.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mutation.rules import RULES, switch_off

parser = argparse.ArgumentParser(prog="python tests/mutation", description=__doc__)
parser.add_argument(
    "--rules", nargs="*", choices=RULES, default=[], metavar="R01", help="only these"
)
signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # remove the copy first
sys.exit(switch_off(parser.parse_args().rules))
