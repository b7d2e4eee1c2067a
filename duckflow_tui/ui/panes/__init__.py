"""The panes of the main screen and the widgets they are made of."""
