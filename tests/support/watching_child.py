"""An app that shows a replay over itself at once, and ends with its status and forty more."""

from __future__ import annotations

import sys
from pathlib import Path

from support.app_states import FakeEngine, FakeSessions, store_with

from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.session_host import AppOptions
from duckflow_tui.ui.watching import watch_again


class Watching(DuckflowApp, inherit_bindings=False):
    """Begins with the replay of what is named on the command line."""

    async def on_workbench_stands(self) -> None:
        await super().on_workbench_stands()
        self.run_worker(self._watch(), exit_on_error=False)

    async def _watch(self) -> None:
        status = await watch_again(self, Path(sys.argv[1]))
        self.say("shell.too_long_to_copy", count=status)
        self.set_timer(1.0, lambda: self.exit(status + 40, status + 40))


if __name__ == "__main__":
    engine = FakeEngine(store_with())
    sys.exit(Watching(FakeSessions(engine), AppOptions(animation=False)).run_to_end())
