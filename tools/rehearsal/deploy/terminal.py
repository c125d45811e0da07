"""Run a command in a pseudo-terminal and type an answer when it asks a question.

Without a terminal the CDK CLI does not ask: it fails.
"""

import os
import pty
import sys

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Run `answer command ...`; return the command's exit status."""
    answer, *command = arguments
    asked = bytearray()
    typed = False

    def read(terminal: int) -> bytes:
        nonlocal typed
        data = os.read(terminal, 4096)
        asked.extend(data)
        if not typed and any(words in asked for words in (b"(y/n)", b"[y/N]")):
            typed = True
            os.write(terminal, f"{answer}\n".encode())
        return data

    return os.waitstatus_to_exitcode(pty.spawn(command, read))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
