"""Who acts when: the chat loop, the turn, the dispatcher."""
