"""Who acts when: the inbox, the thread of a turn, its requests and its steering."""
