"""The limit of open files, which each connection takes one of."""

import resource

from embedding_client.errors import ConfigurationError

__all__ = ["allow_files"]

#: Open files beside the connections.
_OTHERS = 64


def allow_files(connections: int) -> None:
    """Raise this process's limit so that so many connections can be open.

    Raises:
        ConfigurationError: The system allows fewer.
    """
    needed = connections + _OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise ConfigurationError(
            f"--connections {connections:,} needs {needed:,} open files, and this system allows "
            f"{hard:,} (ulimit -n). Allowed: up to {hard - _OTHERS:,}."
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
