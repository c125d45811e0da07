"""Finds a model and brings its files to this machine."""
