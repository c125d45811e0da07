"""Writes the artifact's folder, its manifest and the name of its vector space."""
