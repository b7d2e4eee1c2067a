"""duckflow-tui: a pair programmer in the terminal whose thinking can be watched and steered.

This module stays empty of imports: the first paint of the screen waits for it.
"""

__version__ = "0.1.0"
