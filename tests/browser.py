# SPDX-License-Identifier: Apache-2.0
"""Runs a headless Chromium without a network port. Its DevTools protocol goes over two pipes, and no package other than
Python's own is needed."""
import json
import os
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium", "google-chrome")


def find():
    """Returns the path of a Chromium, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """A tab of a browser. `errors` lists (page, text) of each error that a page wrote to its console. `patience` is the
    most seconds to wait for an answer."""

    def __init__(self, program, patience=30):
        self.patience, self.number, self.errors, self.answers, self.rest = patience, 0, [], {}, b""
        self.loaded, self.page = False, ""
        self.room = tempfile.TemporaryDirectory()
        to_child, self.out = os.pipe()
        self.inp, from_child = os.pipe()
        # The protocol's pipes are descriptors 3 and 4.
        arrange = f"exec 3<&{to_child} 4>&{from_child}; exec \"$@\""
        self.process = subprocess.Popen(
            ["bash", "-c", arrange, "browser", program, "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={self.room.name}", "about:blank"],
            pass_fds=(to_child, from_child), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.session = None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        """Ends the browser and removes its folder."""
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.inp)
        time.sleep(0.1)  # time for the browser's child processes to stop writing to the folder
        shutil.rmtree(self.room.name, ignore_errors=True)

    def receive(self):
        """Returns the next message of the protocol."""
        while b"\0" not in self.rest:
            data = os.read(self.inp, 1 << 20)
            if not data:
                raise EOFError("the browser has ended")
            self.rest += data
        text, _, self.rest = self.rest.partition(b"\0")
        message = json.loads(text)
        if "id" in message:
            self.answers[message["id"]] = message
        else:
            self.note(message.get("method"), message.get("params", {}))

    def note(self, event, params):
        """Takes a message of the protocol that is no answer: it may report that a page has loaded, or an error."""
        if event == "Page.loadEventFired":
            self.loaded = True
        elif event == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            text = details.get("exception", {}).get("description") or details["text"]
            self.errors.append(f"{self.page}: {text}")
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            words = (str(a.get("value", a.get("description"))) for a in params["args"])
            self.errors.append(f"{self.page}: {' '.join(words)}")
        elif event == "Log.entryAdded" and params["entry"]["level"] == "error":
            entry = params["entry"]
            self.errors.append(f"{self.page}: {entry['text']} {entry.get('url', '')}")
        elif event == "Network.loadingFailed" and not params.get("canceled"):
            self.errors.append(f"{self.page}: a resource failed: {params['errorText']}")

    def call(self, method, **params):
        """Calls a method of the protocol and returns its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + self.patience
        while self.number not in self.answers:
            if time.monotonic() > end:
                raise TimeoutError(method)
            self.receive()
        answer = self.answers.pop(self.number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def open(self, url):
        """Opens a page and returns when it has loaded. An error of the navigation is appended to `errors`."""
        self.loaded, self.page = False, url
        answer = self.call("Page.navigate", url=url)
        if answer.get("errorText"):
            self.errors.append(f"{url}: {answer['errorText']}")
            return
        if answer.get("loaderId"):  # without a loaderId the page stays and the browser goes to a place in it
            while not self.loaded:
                self.receive()

    def run(self, script):
        """Returns the value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{self.page}: {script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def resize(self, width, height, dark=False):
        """Sets the size of the tab in pixels; below a width of 600 the browser acts as a phone does. `dark`: True if the
        system's colours are dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def screenshot(self, path, whole=False):
        """Writes a picture of the tab to the file `path`, as PNG. `whole`: True for the whole page, False for the
        visible part."""
        import base64
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(answer["data"]))
