"""The environments and the AWS session of the stacks' tests."""

from tests.stacks.conftest import SESSION, environments, session, synthesized

__all__ = ["SESSION", "environments", "session", "synthesized"]
