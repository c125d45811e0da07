"""The demo's list of stacks. Continuous integration runs the complete demo."""

from tools.local_endpoint.demo import _in_order, _one_line, _resources


def test_stacks_are_listed_in_deployment_order():
    """Each stack follows its dependencies."""
    stack = "aws:cdk:stack"
    manifest = {
        "artifacts": {
            "App-A": {"type": stack.replace("cdk", "cloudformation"), "dependencies": ["App-B"]},
            "App-B": {"type": "aws:cloudformation:stack", "dependencies": ["App-B.assets"]},
            "App-B.assets": {"type": "cdk:asset-manifest"},
        }
    }
    assert _in_order(manifest) == ["App-B", "App-A"]


def test_resources_are_counted_by_type():
    """Known types have a name. The others are one number."""
    kinds = ["AWS::IAM::Role", "AWS::IAM::Role", "AWS::Lambda::Url", "AWS::Other::Thing"]
    template = {"Resources": {str(number): {"Type": kind} for number, kind in enumerate(kinds)}}
    assert _resources(template) == "2 roles, 1 Function URL, and 1 more"


def test_long_entries_are_cut_to_the_width_of_the_terminal(monkeypatch):
    """Each entry takes one line."""
    monkeypatch.setenv("COLUMNS", "40")
    assert _one_line("short\n  entry") == "short entry"
    assert _one_line("word " * 50) == "word word word word word wo..."
