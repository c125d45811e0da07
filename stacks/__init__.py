"""The stacks of one environment. A stack only composes constructs, grants and outputs."""
