"""Resources that a message of the user names, read before the model answers it."""

from __future__ import annotations

from duckflow_tui.state.base import IdSource
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import UserMessage
from duckflow_tui.state.decision import Action
from duckflow_tui.state.store import Store
from duckflow_tui.tools.mcp.offers import find_mentions
from duckflow_tui.tools.mcp.servers import READ_RESOURCE
from duckflow_tui.tools.router import ToolRouter


async def read_mentions(store: Store, router: ToolRouter, ids: IdSource) -> None:
    """Read each resource that the newest message of the user names as ``@server:uri``, unless that
    was done before; the results stand behind the message. It is a call of the user's own where
    they wrote the message; where it may quote somebody else, it is judged like one of the model.
    """
    state = store.state
    read: set[tuple[str, str]] = set()
    for message in reversed(state.messages):
        if isinstance(message, OperationMessage) and message.operation == READ_RESOURCE:
            read.add((str(message.args.get("server")), str(message.args.get("uri"))))
        if isinstance(message, UserMessage) and not message.aside:
            wanted, by_user = find_mentions(message.text, state.servers), not message.quoted
            break
    else:
        return
    for mention in wanted:
        if mention not in read:
            action = Action(
                call_id=ids("call"), operation=READ_RESOURCE, args=mention._asdict(), reasoning=""
            )
            await router.call(action, by_user=by_user)
