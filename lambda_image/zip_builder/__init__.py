"""Builds a function's code as a zip for Lambda's Python on ARM64, without Docker.

The content is that of the image: the packages of requirements.txt as wheels, the compiled model and
the code, with byte code. Each part is kept by the digest of its sources, so that a change
of code downloads and compiles nothing again.
"""


class ZipError(Exception):
    """The zip cannot be built; the message says why and what to do."""
