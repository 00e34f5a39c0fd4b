"""A real browser, driven over a pipe by the DevTools protocol: no driver program, no port, no library."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

EXECUTABLE = shutil.which("chromium") or shutil.which("google-chrome")
PATIENCE_S = 60.0
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # the tests may run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--remote-debugging-pipe",
)


class Chromium:
    """A browser, and one page that is looked at."""

    def __init__(self, profile: Path) -> None:
        assert EXECUTABLE is not None
        self.command = [EXECUTABLE, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self.last_id = 0
        self.session = ""
        self.pending = b""
        self.credentials: tuple[str, str] | None = None
        self.asked: set[str] = set()
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        theirs_in, self.to_browser = os.pipe()
        self.from_browser, theirs_out = os.pipe()
        # Chromium wants to find the two at 3 and 4.
        script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "chromium", *self.command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.to_browser)  # it ends with its pipe
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.from_browser)

    def why_not(self) -> str | None:
        """Why it cannot be used on this machine; None where it can."""
        try:
            self.call("Browser.getVersion")
        except (AssertionError, OSError) as error:
            return str(error)
        return None

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        sent = self.send(method, **parameters)
        while True:
            message = self.next_message()
            if message.get("id") == sent:
                assert "error" not in message, message
                return dict(message["result"])
            self.on_event(message)

    def send(self, method: str, **parameters: object) -> int:
        self.last_id += 1
        request: dict[str, object] = {"id": self.last_id, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.to_browser, data) :]
        return self.last_id

    def on_event(self, event: dict[str, Any]) -> None:
        """Requests go on; who is asked for a password gives it, and gives up when asked again."""
        self.events.append(event)
        parameters = event.get("params", {})
        request = parameters.get("requestId")
        if event.get("method") == "Fetch.requestPaused":
            self.send("Fetch.continueRequest", requestId=request)
        elif event.get("method") == "Fetch.authRequired":
            given = {"response": "CancelAuth"}
            if self.credentials and request not in self.asked:
                self.asked.add(request)
                name, password = self.credentials
                given = {"response": "ProvideCredentials", "username": name, "password": password}
            self.send("Fetch.continueWithAuth", requestId=request, authChallengeResponse=given)

    def next_message(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.from_browser], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser says nothing"
            data = os.read(self.from_browser, 65536)
            assert data, "the browser has ended"
            self.pending += data
        text, _, self.pending = self.pending.partition(b"\0")
        return dict(json.loads(text))

    # -- what a test does

    def login(self, name: str, password: str) -> None:
        """A window of its own, which knows nobody: a browser remembers who logged in while it runs."""
        self.session, self.credentials = "", (name, password)
        context = self.call("Target.createBrowserContext")["browserContextId"]
        made = self.call("Target.createTarget", url="about:blank", browserContextId=context)
        attached = self.call("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Fetch.enable", handleAuthRequests=True)

    def look(self, *, width: int = 1200, dark: bool = False) -> None:
        """How wide the window is, and what its user likes."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def go(self, url: str) -> None:
        self.events.clear()
        answer = self.call("Page.navigate", url=url)
        assert "errorText" not in answer, answer
        self.until_loaded()

    def until_loaded(self) -> None:
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.on_event(self.next_message())

    def status(self) -> int:
        """Of the last document."""
        return int(
            next(
                event["params"]["response"]["status"]
                for event in reversed(self.events)
                if event.get("method") == "Network.responseReceived" and event["params"]["type"] == "Document"
            )
        )

    def complaints(self) -> list[str]:
        """What the browser has to say about the page: refused by its policy, not found, no valid code."""
        return [
            event["params"]["entry"]["text"]
            for event in self.events
            if event.get("method") == "Log.entryAdded"
        ]

    def run(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, expression: str) -> None:
        """Until it is true on the page."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.run(expression):
            assert time.monotonic() < deadline, f"{expression}: {self.run('document.body.innerText')}"
            time.sleep(0.05)

    def press(self, key: str, text: str = "") -> None:
        codes = {"Tab": 9, "Enter": 13}
        code = codes.get(key, 0)
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **{**common, "text": ""})

    def names(self, role: str) -> list[str]:
        """What a screen reader would call the things of this role."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            str(node.get("name", {}).get("value", ""))
            for node in nodes
            if not node["ignored"] and node["role"]["value"] == role
        ]

    def picture(self, file: Path) -> None:
        height = self.run("document.documentElement.scrollHeight")
        width = self.run("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(shot["data"]))
