"""What callers reach instead of the function's URL, by the kind of `[front]`."""
