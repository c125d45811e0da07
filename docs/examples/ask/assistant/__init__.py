"""A function that answers questions from your documents."""
