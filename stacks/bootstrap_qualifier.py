"""The qualifier of `cdk bootstrap`, a part of the names of its roles and buckets.

It is read from the context in cdk.json, where the CDK's command and the stacks read it too.
https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-customizing.html
"""

import json
from pathlib import Path

__all__ = ["bootstrap_qualifier"]

_FILE = Path(__file__).parents[1] / "cdk.json"
_KEY = "@aws-cdk/core:bootstrapQualifier"
#: `DefaultStackSynthesizer.DEFAULT_QUALIFIER`, without the import of the CDK, which takes seconds.
_DEFAULT = "hnb659fds"


def bootstrap_qualifier() -> str:
    """Return the qualifier that cdk.json sets, or the CDK's own."""
    context = json.loads(_FILE.read_text(encoding="utf-8")).get("context", {})
    return str(context.get(_KEY) or _DEFAULT)
