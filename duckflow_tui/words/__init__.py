"""The app's texts for people, in English and Japanese."""
