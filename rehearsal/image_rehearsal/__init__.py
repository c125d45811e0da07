"""Builds the image as a deploy does, runs it where Lambda would run it, and looks at every layer."""
