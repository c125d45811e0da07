"""The command as a process: no model hangs it, and none ends it without a line."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from model_compiler.command import main
from model_compiler.supervision import budget
from tests.model_compiler.goldens.files import edit_json
from tests.model_compiler.test_hostile_folders import use_export

#: The command with less CPU for the step that {} names, so that the tests need less.
IMPATIENT = textwrap.dedent("""
    import sys
    from model_compiler import supervision
    budget = supervision.budget
    slow = {!r}
    supervision.budget = lambda step, *, seconds: budget(
        step, seconds=1 if step == slow else seconds
    )
    def run():
        from model_compiler.command import main
        return main()
    sys.exit(supervision.supervised(run))
""")
#: The step that encodes texts.
ENCODING = "encoding a sample of texts with tokenizer.json"
#: A program with a child process that runs its argument.
PROGRAM = textwrap.dedent("""
    import os, signal, sys
    from model_compiler.supervision import budget, supervised
    def run():
        exec(sys.argv[1])
        return 3
    sys.exit(supervised(run))
""")


def ran(*command: str | Path) -> tuple[int, str, str]:
    """Run Python. Return the exit status, and what is on standard output and on standard error."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def ended(step: str, number: signal.Signals) -> str:
    """Return the line about a step that a signal ended."""
    slow = number == signal.SIGXCPU
    reason = "too slow" if slow else "damaged, or too large for this machine"
    name = signal.strsignal(number)
    return f"error: {step} was ended by the system ({name}): the model is {reason}.\n"


def with_pattern(folder: Path, pattern: str) -> None:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
    edit_json(folder / "tokenizer.json", pre_tokenizer={**split, "invert": False})


def slow_tokenizer(folder: Path) -> None:
    with_pattern(folder, r"\w*?\w*?(?!)")


def endless_graph(folder: Path) -> None:
    """Replace the export's last node by a loop that has no end."""

    def edit(model: onnx.ModelProto) -> None:
        yes = helper.make_tensor_value_info("go_on", TensorProto.BOOL, [])
        still = helper.make_tensor_value_info("still", TensorProto.BOOL, [])
        rows = helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)
        same = helper.make_tensor_value_info("same", TensorProto.FLOAT, None)
        body = helper.make_graph(
            [
                helper.make_node("Identity", ["go_on"], ["still"]),
                helper.make_node("Identity", ["inner"], ["same"]),
            ],
            "body",
            [helper.make_tensor_value_info("step", TensorProto.INT64, []), yes, rows],
            [still, same],
        )
        true = helper.make_tensor("true", TensorProto.BOOL, [], [True])
        (last_node,) = (node for node in model.graph.node if node.output[0] == "last_hidden_state")
        loop = helper.make_node(
            "Loop", ["", "true", last_node.input[0]], last_node.output, body=body
        )
        model.graph.initializer.append(true)
        last_node.CopyFrom(loop)

    use_export(folder, edit=edit)


@pytest.mark.parametrize(
    ("make", "step"),
    [(slow_tokenizer, ENCODING), (endless_graph, "a run of the graph on two short texts")],
)
def test_what_takes_too_long_is_refused(tiny_folder, tmp_path, make, step):
    """After its seconds of CPU a step ends in one line, and the next compile works."""
    artifact, good = tmp_path / "artifact", tmp_path / "good"
    shutil.copytree(tiny_folder, good)
    artifact.mkdir()
    (artifact / "manifest.json").write_text("of the artifact before")
    make(tiny_folder)
    options = ("--output", artifact, "--quiet", "--unmeasured")
    code, output, errors = ran("-c", IMPATIENT.format(step), tiny_folder, *options)
    assert (code, output) == (2, "")
    assert errors.endswith(ended(f"{step}, which may take 1 s of CPU,", signal.SIGXCPU))
    assert [path.read_text() for path in artifact.iterdir()] == ["of the artifact before"]
    assert main([str(good), "--output", str(artifact), "--quiet"]) == 0


def test_an_inspection_has_an_end_too(tiny_folder):
    """It encodes the same sample of texts."""
    slow_tokenizer(tiny_folder)
    code, output, errors = ran("-c", IMPATIENT.format(ENCODING), "inspect", tiny_folder)
    assert (code, output) == (2, "")
    assert errors.endswith("the model is too slow.\n")


def test_a_panic_is_one_line(tiny_folder, tmp_path):
    """A library written in Rust prints its own lines; the command's error has what they say."""
    with_pattern(tiny_folder, r"(?:(?:a?){30}){30}a{30}b|(x+x+)+y")
    command = ("-P", "-m", "model_compiler", tiny_folder, "--output", tmp_path / "artifact")
    code, _, errors = ran(*command, "--quiet")
    assert code == 2
    (line,) = errors.splitlines()
    assert line.startswith("error: tokenizer.json ")


@pytest.mark.parametrize(
    ("does", "status", "line"),
    [
        ("pass", 3, ""),
        ("sys.exit(1)", 1, ""),
        ("print('said', file=sys.stderr)", 3, "said\n"),
        ("os.write(2, b'of a library')", 3, ""),
        ("os.abort()", 2, ended("the compiler", signal.SIGABRT)),
        (
            "with budget('a step', seconds=9): os.kill(os.getpid(), signal.SIGKILL)",
            2,
            ended("a step, which may take 9 s of CPU,", signal.SIGKILL),
        ),
        (
            "with budget('a step', seconds=1):\n with budget('more', seconds=9):\n  while 1: pass",
            2,
            ended("a step, which may take 1 s of CPU,", signal.SIGXCPU),
        ),
        (
            "with budget('a step', seconds=9):\n with budget('', seconds=1): pass\n os.abort()",
            2,
            ended("a step, which may take 9 s of CPU,", signal.SIGABRT),
        ),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ""),
    ],
)
def test_the_end_of_the_child_is_that_of_the_command(does, status, line):
    """The exit status is the child's; after a signal of the system itself, there is a line."""
    assert ran("-c", PROGRAM, does) == (status, "", line)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_child_ends_with_the_command(number):
    """A command that is stopped leaves no process behind, whatever that was doing."""
    if sys.platform != "linux" and number == signal.SIGKILL:
        pytest.skip("only Linux ends a process together with its parent")
    does = "print(os.getpid(), flush=True)\nwhile True: pass"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, does], stdout=subprocess.PIPE, text=True
    ) as command:
        assert command.stdout
        child = int(command.stdout.readline())
        command.send_signal(number)
        assert command.wait() == -number
        # The pipe ends when no process has it any more.
        assert command.stdout.read() == ""
    while Path(f"/proc/{child}").exists():  # until init has seen its end
        time.sleep(0.01)


def test_without_a_parent_no_step_has_an_end(capfd):
    """In a program that calls the compiler, such as this one, it changes no limit."""
    with budget("a step", seconds=0):
        os.write(2, b"still there")
    assert capfd.readouterr().err == "still there"
