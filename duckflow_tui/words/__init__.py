"""Words for people, in English and Japanese."""
