"""The server beside infinity and beside itself without batching, under load."""
