"""What the demo tells of the stacks; the whole of it is run by continuous integration."""

from local_function_url.demo import _in_order, _one_line, _resources


def test_stacks_are_told_in_the_order_of_their_deploy():
    """Each after those that it depends on, whatever their names."""
    stack = "aws:cdk:stack"
    manifest = {
        "artifacts": {
            "App-A": {"type": stack.replace("cdk", "cloudformation"), "dependencies": ["App-B"]},
            "App-B": {"type": "aws:cloudformation:stack", "dependencies": ["App-B.assets"]},
            "App-B.assets": {"type": "cdk:asset-manifest"},
        }
    }
    assert _in_order(manifest) == ["App-B", "App-A"]


def test_resources_are_counted_in_words():
    """The known ones by name, the rest as a number."""
    kinds = ["AWS::IAM::Role", "AWS::IAM::Role", "AWS::Lambda::Url", "AWS::Other::Thing"]
    template = {"Resources": {str(number): {"Type": kind} for number, kind in enumerate(kinds)}}
    assert _resources(template) == "2 roles, 1 Function URL, and 1 more"


def test_long_entries_are_cut_to_the_screen(monkeypatch):
    """One line each."""
    monkeypatch.setenv("COLUMNS", "40")
    assert _one_line("short\n  entry") == "short entry"
    assert _one_line("word " * 50) == "word word word word word wo..."
