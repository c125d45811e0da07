"""Deploys an environment by the pinned CDK CLI to an emulated AWS, and checks what then stands."""
