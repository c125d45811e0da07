"""Measurements of speed and memory, each as a ratio to peers measured in the same run."""
