"""The screen. Only the modules of this package import Textual; this one imports nothing."""
