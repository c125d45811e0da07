"""The APIs over HTTP, the same on Lambda and on the server."""
