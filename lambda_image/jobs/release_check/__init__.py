"""The function that checks a new version before the alias moves to it."""
