"""Variants of an environment, synthesized in one process.

Each failing release changes settings or code. Most of a synth is the startup of the CDK, so all
variants share one process: `python -m tools.rehearsal.deploy.variants` runs the app of the checkout
in the working directory once for each variant. `scripts/deploy NAME --app ASSEMBLY` deploys one.
"""

import functools
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tomlkit

from tools.rehearsal.deploy.checkout import Checkout

__all__ = ["Variant", "main", "synthesize_variants"]

_HANDLER = Path("lambda_image", "embedder", "handler.py")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """An environment with other settings or other code.

    Attributes:
        name: Its name, which is also the folder of its assembly.
        settings: The changed sections of the environment's file; None removes a section.
        code: Code appended to the handler's module.
    """

    name: str
    settings: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    code: str = ""

    def settings_in(self, written: str) -> str:
        """Return the text of an environment's file with these settings."""
        document = tomlkit.parse(written)
        for section, change in self.settings.items():
            document.pop(section, None)
            if change is not None:
                document[section] = tomlkit.item(dict(change))
        return tomlkit.dumps(document)


def synthesize_variants(
    checkout: Checkout, variants: Sequence[Variant], output: Path
) -> subprocess.Popen[bytes]:
    """Start to synthesize variants, in order. Each is complete when its `manifest.json` exists.

    Args:
        checkout: A copy of the repository that is used for nothing else.
        variants: The variants.
        output: The folder of the assemblies, one per variant, and of the log.
    """
    output.mkdir()
    wanted = output / "variants.json"
    wanted.write_text(json.dumps([asdict(variant) for variant in variants]))
    context = {"environment": checkout.environment, "aws:cdk:enable-path-metadata": True}
    variables = os.environ | {
        "PYTHONPATH": checkout.python_path,
        "CDK_CONTEXT_JSON": json.dumps(context),
    }
    with (output / "log").open("wb") as written:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                __name__,
                checkout.environment,
                str(wanted),
            ],
            cwd=checkout.root,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            start_new_session=True,
        )


def main(arguments: list[str]) -> int:
    """Synthesize the variants listed in a file, into folders next to it."""
    environment, listed = arguments[0], Path(arguments[1])
    file = Path("environments", f"{environment}.toml")
    settings, code = file.read_text(), _HANDLER.read_text()
    sys.path.insert(0, str(Path.cwd()))
    app = importlib.import_module("app")
    cdk = importlib.import_module("aws_cdk")
    for entry in json.loads(listed.read_text()):
        variant = Variant(**entry)
        file.write_text(variant.settings_in(settings))
        _HANDLER.write_text(code + variant.code)
        # The CDK caches the hashes of folders.
        cdk.AssetStaging.clear_asset_hash_cache()
        vars(app)["App"] = functools.partial(cdk.App, outdir=str(listed.parent / variant.name))
        if app.main():
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
