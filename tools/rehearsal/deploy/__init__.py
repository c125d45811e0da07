"""Deploy an environment to an emulated AWS with the pinned CDK CLI, and check the result."""
