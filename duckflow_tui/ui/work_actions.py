"""What keys do to what runs or waits beside the composer: the queue, processes, servers."""

from __future__ import annotations

from duckflow_tui.state.conversation import QueuedMessage
from duckflow_tui.ui.screens.processes import ProcessBoard
from duckflow_tui.ui.screens.servers import ServerBoard, Wish
from duckflow_tui.ui.screens.waiting import EditMessage, WaitingBoard
from duckflow_tui.ui.session_host import SessionHost


class WorkActions(SessionHost, inherit_bindings=False):
    """The boards of the app, and what they want of the engine."""

    # the queue

    def action_queue(self) -> None:
        if self.store is None or not self.store.state.queue:
            self.say("shell.queue_empty")
            return
        self.push_screen(WaitingBoard(self.words, self.store))

    def take_back(self, message_id: str) -> None:
        """A waiting message comes back into the composer."""
        engine = self.acting()
        text = engine.take_back(message_id) if engine is not None else None
        if text is not None:
            self.bench.composer.add(text)

    def on_waiting_board_take_back(self, event: WaitingBoard.TakeBack) -> None:
        self.take_back(event.message_id)

    def on_waiting_board_edit_wanted(self, event: WaitingBoard.EditWanted) -> None:
        message = event.message
        screen = EditMessage(self.words, event.number, message.text)
        self.push_screen(screen, lambda text: self._changed(message, text))

    def on_waiting_board_swapped(self, event: WaitingBoard.Swapped) -> None:
        engine = self.acting()
        if engine is None:
            return
        waiting = {message.message_id for message in engine.store.state.queue}
        if {event.one.message_id, event.other.message_id} <= waiting:
            engine.change_queued(event.one.message_id, event.other.text)
            engine.change_queued(event.other.message_id, event.one.text)

    def _changed(self, message: QueuedMessage, text: str | None) -> None:
        engine = self.acting() if text is not None and text != message.text else None
        if engine is None or text is None:
            return
        if not text.strip():
            engine.take_back(message.message_id)
        elif not engine.change_queued(message.message_id, text.strip()):
            self.bench.composer.add(text)
            self.say("waiting.gone")

    # commands

    def stop_own_command(self) -> bool:
        """End what the user runs with ``!``; False when nothing of theirs runs."""
        if self.store is None or not any(r.by_user for r in self.store.state.running):
            return False
        engine = self.acting()
        if engine is not None:
            engine.stop()
        return True

    def action_processes(self) -> None:
        if self.store is not None:
            self.push_screen(ProcessBoard(self.words, self.store))

    def on_process_board_end_wanted(self, event: ProcessBoard.EndWanted) -> None:
        self.spawn(self._end_process(event.process_id), "process")

    async def _end_process(self, process_id: str) -> None:
        engine = self.acting()
        if engine is not None and not await engine.end_process(process_id):
            self.say("ps.over")

    # servers of tools

    def action_servers(self) -> None:
        if self.store is not None:
            self.push_screen(ServerBoard(self.words, self.store, self._server_log))

    async def _server_log(self, name: str) -> str:
        return await self.engine.server_log(name) if self.engine is not None else ""

    def on_server_board_wanted(self, event: ServerBoard.Wanted) -> None:
        self.spawn(self._to_server(event.name, event.wish), "server")

    async def _to_server(self, name: str, wish: Wish) -> None:
        engine = self.acting()
        if engine is None:
            return
        match wish:
            case "start":
                await engine.start_server(name)
            case "stop":
                await engine.stop_server(name)
            case "restart":
                await engine.restart_server(name)
