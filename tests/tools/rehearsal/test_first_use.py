"""The first uses of the pages, command for command, in the emulated AWS."""

import json
import os
import re
import shutil

import pytest

from tests.docs.pages import BLOCK, ROOT, SKILL, blocks
from tools.rehearsal.deploy.checks import CALLER

from . import test_build_once
from .test_build_once import MODEL

pytestmark = pytest.mark.slow

run = test_build_once.run
TERRAFORM = (ROOT / "docs" / "constructs.md").read_text("utf-8").partition("## From Terraform")[2]
TERRAFORM = TERRAFORM.partition("## Batch jobs")[0]
#: The hosts of Function URLs have no address: requests to them go to the emulated AWS.
TO_EMULATOR = """
import contextlib, os

with contextlib.suppress(ImportError):  # another Python builds the zip
    import httpx2

    send = httpx2.HTTPTransport.handle_request

    def handle_request(self, request):
        if request.url.host.endswith(".on.aws"):
            url = os.environ["AWS_ENDPOINT_URL"] + request.url.raw_path.decode()
            body, headers = request.read(), request.headers
            request = httpx2.Request(request.method, url, headers=headers, content=body)
        return send(self, request)

    httpx2.HTTPTransport.handle_request = handle_request
"""


@pytest.fixture(scope="module", autouse=True)
def caller(run):
    """Return the ARN of the role that the pages' example names."""
    return run.aws.make_role(CALLER)


@pytest.mark.skipif(not shutil.which("aws"), reason="the AWS CLI is not installed")
def test_the_skill_deploys_an_endpoint_that_finds_a_document(run, caller, tmp_path):
    """Its commands run as they are written, with the doctor's checks and the caller's role."""
    (tmp_path / "sitecustomize.py").write_text(TO_EMULATOR)
    (block,) = (one for one in blocks(SKILL.read_text("utf-8"), "bash") if "deploy faq" in one)
    script = block.replace("arn:aws:iam::111122223333:role/search", caller)
    path = os.pathsep.join([str(tmp_path), run.variables["PYTHONPATH"]])
    printed = run.succeeds("env", f"PYTHONPATH={path}", "bash", "-euo", "pipefail", "-c", script)
    assert "Descale the kettle every two months" in printed.splitlines()[-1]


def test_the_published_template_makes_a_stack(run):
    """With the arguments of the page's Terraform, and without the CDK, from `create_stack` on."""
    publish, hcl = (one["code"] for one in BLOCK.finditer(TERRAFORM))
    root = run.checkout.root
    app = root / "docs" / "examples" / "app" / "app.py"
    app.write_text(app.read_text().replace("BAAI/bge-small-en-v1.5", MODEL))
    cdk = "scripts/node_modules/.bin/cdk"
    command = publish.replace("npx aws-cdk@2", cdk).split()
    run.succeeds(*command, "--app", f"python {app}")
    arguments = dict(re.findall(r"^  (\w+) += (.+)$", hcl.partition("}")[0], re.MULTILINE))
    (template,) = re.findall(r'file\("(.+)"\)', arguments["template_body"])
    body = json.dumps(json.loads((root / template).read_text()), separators=(",", ":"))
    assert len(body) < 51_200
    cloudformation = run.aws.client("cloudformation")
    name = json.loads(arguments["name"])
    cloudformation.create_stack(
        StackName=name, TemplateBody=body, Capabilities=json.loads(arguments["capabilities"])
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    (output,) = re.findall(r'outputs\["(\w+)"\]', hcl)
    answer = run.aws.post(run.aws.outputs(name)[output], {"text": "hello"}, who=run.aws.root)
    assert len(answer.json()["embedding"]) == 384
