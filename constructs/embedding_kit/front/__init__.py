"""The API in front of the function's URL, by the kind of `[front]`."""
