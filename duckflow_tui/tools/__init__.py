"""What can be done: the registry, the router and the operations."""
