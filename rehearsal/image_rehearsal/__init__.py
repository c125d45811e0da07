"""Builds the image as a deploy does, runs it as Lambda would, and looks at every layer."""
