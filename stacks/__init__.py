"""The stacks of one environment. A stack only composes: children, grants between them, outputs."""
