"""The memory size of an environment, measured on a temporary copy of the deployed function.

The command is `scripts/tune`. Everything but `live`, `throwaway` and `endpoint_lengths`, which call
AWS, is pure.
"""
