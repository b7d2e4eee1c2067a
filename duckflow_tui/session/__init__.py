"""Storage of sessions."""
