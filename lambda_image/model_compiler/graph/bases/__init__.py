"""Bases of the families in `architectures/`: of their encoders, configurations and settings."""
