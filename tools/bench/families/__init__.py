"""Replicas of the families' shapes with random weights, and their measurements."""
