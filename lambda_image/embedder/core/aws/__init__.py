"""Calls to AWS from the endpoint, without botocore, which takes 0.2 s of a start.

`signing` finds the keys of the function's role and signs a request with them, and `connection`
sends it over a connection that stays open. Nothing here is imported unless a setting needs it.
"""
