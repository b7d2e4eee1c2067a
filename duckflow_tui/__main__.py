"""Run the program as ``python -m duckflow_tui``."""

from duckflow_tui.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
