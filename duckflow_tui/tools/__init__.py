"""The operations of the model: the registry, the router and the operations."""
