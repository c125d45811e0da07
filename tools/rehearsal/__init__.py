"""Deploys to an emulated AWS, and the checks of what `docker build` makes."""
