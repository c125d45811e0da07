"""The memory size of an environment, measured on a throw-away function of the deployed image.

The command is `scripts/tune`. Everything but `live`, `throwaway` and `endpoint_lengths`, which call
AWS, is pure.
"""
