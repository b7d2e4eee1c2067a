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
        if self.engine is None or not self.engine.store.state.queue:
            self.say("shell.queue_empty")
            return
        self.push_screen(WaitingBoard(self.words, self.engine.store))

    def take_back(self, message_id: str) -> None:
        """A waiting message comes back into the composer."""
        if self.engine is None:
            return
        text = self.engine.take_back(message_id)
        if text is not None:
            self.bench.composer.add(text)

    def on_waiting_board_take_back(self, event: WaitingBoard.TakeBack) -> None:
        self.take_back(event.message_id)

    def on_waiting_board_edit_wanted(self, event: WaitingBoard.EditWanted) -> None:
        message = event.message
        screen = EditMessage(self.words, event.number, message.text)
        self.push_screen(screen, lambda text: self._changed(message, text))

    def on_waiting_board_swapped(self, event: WaitingBoard.Swapped) -> None:
        if self.engine is None:
            return
        waiting = {message.message_id for message in self.engine.store.state.queue}
        if {event.one.message_id, event.other.message_id} <= waiting:
            self.engine.change_queued(event.one.message_id, event.other.text)
            self.engine.change_queued(event.other.message_id, event.one.text)

    def _changed(self, message: QueuedMessage, text: str | None) -> None:
        if self.engine is None or text is None or text == message.text:
            return
        if not text.strip():
            self.engine.take_back(message.message_id)
        elif not self.engine.change_queued(message.message_id, text.strip()):
            self.bench.composer.add(text)
            self.say("waiting.gone")

    # commands

    def stop_own_command(self) -> bool:
        """End what the user runs with ``!``; False when nothing of theirs runs."""
        engine = self.engine
        if engine is None or not any(r.by_user for r in engine.store.state.running):
            return False
        engine.stop()
        return True

    def action_processes(self) -> None:
        if self.engine is not None:
            self.push_screen(ProcessBoard(self.words, self.engine.store))

    def on_process_board_end_wanted(self, event: ProcessBoard.EndWanted) -> None:
        self.spawn(self._end_process(event.process_id), "process")

    async def _end_process(self, process_id: str) -> None:
        if self.engine is not None and not await self.engine.end_process(process_id):
            self.say("ps.over")

    # servers of tools

    def action_servers(self) -> None:
        engine = self.engine
        if engine is not None:
            self.push_screen(ServerBoard(self.words, engine.store, engine.server_log))

    def on_server_board_wanted(self, event: ServerBoard.Wanted) -> None:
        self.spawn(self._to_server(event.name, event.wish), "server")

    async def _to_server(self, name: str, wish: Wish) -> None:
        if self.engine is None:
            return
        match wish:
            case "start":
                await self.engine.start_server(name)
            case "stop":
                await self.engine.stop_server(name)
            case "restart":
                await self.engine.restart_server(name)
