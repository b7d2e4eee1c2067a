"""The scripted endpoint and the sample workspace."""
