"""The tests. ``python3 -m unittest`` runs them from the project's folder; nothing is installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))
sys.dont_write_bytecode = True
