"""What the user asked for and how far it is met: requirements, checks, review, pace."""
