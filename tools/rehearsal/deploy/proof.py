"""`scripts/prove` on the emulated AWS: killed while it measures, then started again.

The requests to the Function URL, which has no address in DNS, are sent to the emulated AWS.
"""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from tools.rehearsal.deploy.cdk import Cdk, copy_checkout
from tools.rehearsal.deploy.leftovers import list_resources

_PROGRAM = """
import sys
from tools.prove.__main__ import main
from tools.rehearsal.deploy.doctor import ToEmulator
options = ["--starts", "2", "--pause", "0", "--no-doctor", "--yes"]
sys.exit(main([sys.argv[1], *options], transport=ToEmulator(int(sys.argv[2]))))
"""
_SECONDS = 600


def check_proof(cdk: Cdk, *, root: Path, folder: Path) -> None:
    """Measure an environment in two runs, of which the first is killed after its first step.

    Args:
        cdk: Runs the commands for a deployed environment, which must stay as it is.
        root: The repository.
        folder: A folder for the copy of the repository, to which the results are written.
    """
    name = cdk.checkout.environment
    checkout = copy_checkout(root, folder / "proof-checkout", name)
    checkout.file.write_text(cdk.checkout.file.read_text())
    of_copy, before = replace(cdk, checkout=checkout), list_resources(cdk.aws)
    command = [sys.executable, "-c", _PROGRAM, name, str(cdk.aws.port)]
    state = checkout.root / ".cache" / "prove" / f"{name}.json"
    with cdk.report.step("scripts/prove, killed after its first measurement"):
        first = subprocess.Popen(
            command,
            cwd=checkout.root,
            env=of_copy.variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        end = time.monotonic() + _SECONDS
        while first.poll() is None and time.monotonic() < end:
            if state.exists() and "memory 1769" in state.read_text():
                break
            time.sleep(0.1)
        first.kill()
        killed = first.wait() < 0
    cdk.report.need("it is killed while it measures", killed, first.returncode)
    done = of_copy.run(command, "scripts/prove, started again")
    of_copy.succeeded(done)
    check = "it continues with the next step"
    steps = [line.split(": ")[1] for line in done.output.splitlines() if "-prove: " in line]
    cdk.report.check(check, steps[-2:] == ["memory 3538 ...", "callers ..."], steps)
    found = json.loads((checkout.root / "docs" / "measured-on-aws.json").read_text())[name]
    counts = [len(found[f"memory {size}"]["init_ms"]) for size in (1769, 3538)]
    lengths = [len(found[step]["requests"]) for step in ("memory 1769", "callers")]
    check = "it has measured two starts of each size, and requests of each length"
    cdk.report.check(check, counts == [2, 2] and lengths == [4, 4], (counts, lengths))
    left = [checkout.file.with_name(f"{name}-prove.toml"), state]
    gone = list_resources(cdk.aws) == before and not any(file.exists() for file in left)
    cdk.report.check("the environment is as before, and of the copy nothing is left", gone)
