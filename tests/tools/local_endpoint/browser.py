"""Chromium, or Chrome, without a window, driven by the DevTools protocol over two pipes.

https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from tests.fixtures.waiting import PATIENCE

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
#: Windows' codes of keys that do not write a character, which the protocol wants.
_KEYS = {"Tab": 9, "Enter": 13, " ": 32, "ArrowDown": 40}


class Page:
    """A tab."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests, self._answers = requests, answers
        self._number, self._session = 0, ""
        #: What the browser reports as an error, violations of the content security policy included.
        self.problems: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Load an address."""
        self._call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def show(self, *, width: int, scheme: str = "light", height: int = 900) -> None:
        """Set the window's width, and the color scheme that the reader prefers."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        preferred = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in preferred.items()]
        self._call("Emulation.setEmulatedMedia", features=features)

    def value(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        done = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + PATIENCE
        while not self.value(expression):
            assert time.monotonic() < deadline, (expression, self.value("document.body.innerText"))
            time.sleep(0.05)

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            known = {"key": key, "windowsVirtualKeyCode": _KEYS.get(key, 0)}
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            self._call("Input.dispatchKeyEvent", type="keyDown", text=text, **known)
            self._call("Input.dispatchKeyEvent", type="keyUp", **known)

    def write(self, text: str) -> None:
        """Write a text where the focus is."""
        self._call("Input.insertText", text=text)

    def picture(self, file: Path) -> None:
        """Write what the window shows, as PNG."""
        file.write_bytes(base64.b64decode(self._call("Page.captureScreenshot")["data"]))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._requests.write(json.dumps(message).encode() + b"\0")
        while (answer := self._answer()).get("id") != self._number:
            if answer.get("method") == "Runtime.exceptionThrown":
                self.problems.append(str(answer["params"]))
            if answer.get("method") == "Log.entryAdded":
                self.problems.append(str(answer["params"]["entry"]["text"]))
        assert "error" not in answer, answer["error"]
        result: dict[str, Any] = answer["result"]
        return result

    def _answer(self) -> dict[str, Any]:
        received = bytearray()
        while (byte := self._answers.read(1)) not in (b"\0", b""):
            received += byte
        assert received, "the browser has ended"
        answer: dict[str, Any] = json.loads(received)
        return answer


@contextmanager
def browser() -> Iterator[Page]:
    """Start the browser, and close it in the end."""
    assert CHROMIUM is not None
    from_test, to_browser = os.pipe()
    from_browser, to_test = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = (
            f"--headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir={profile}"
        )
        command = f'exec "$0" {options} --remote-debugging-pipe 3<&{from_test} 4>&{to_test}'
        with subprocess.Popen(
            ["bash", "-c", command, CHROMIUM],
            pass_fds=(from_test, to_test),
            stderr=subprocess.DEVNULL,
        ) as process:
            os.close(from_test)
            os.close(to_test)
            with (
                os.fdopen(to_browser, "wb", buffering=0) as requests,
                os.fdopen(from_browser, "rb") as answers,
            ):
                try:
                    yield Page(requests, answers)
                finally:
                    process.terminate()
                    process.wait()
