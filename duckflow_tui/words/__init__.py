"""What is said to a person, in English and Japanese."""
