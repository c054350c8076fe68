"""A headless Chromium that keeps what pages print and ask for, and that reaches no other machine."""

import base64
import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("headless", "no-sandbox", "disable-gpu", "enable-unsafe-swiftshader"),
    *("disable-quic", "no-first-run", "disable-sync", "disable-component-update"),
    *("disable-background-networking", "disable-dev-shm-usage"),
    "host-resolver-rules=MAP * ~NOTFOUND",
)


def start(profile: Path):
    """Returns the browser; skips the test where there is none, and fails where continuous integration runs it."""
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        what = "chromedriver" if binary else "Chromium"
        stop = pytest.fail if os.environ.get("CI") else pytest.skip
        stop(f"{what} is not installed: apt-get install chromium chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    return webdriver.Chrome(options, webdriver.ChromeService(driver))


def look(browser, width: int, dark: bool) -> None:
    """Sets the width of the window in pixels, and the colours that its user prefers."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def open_page(browser, file: Path) -> None:
    """Opens a file, and forgets what was printed and asked for before."""
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(file.as_uri())


def problems(browser, file: Path) -> list[str]:
    """Returns errors that the page printed, and addresses other than its own that it asked for."""
    printed = [
        entry["message"]
        for entry in browser.get_log("browser")
        if entry["level"] == "SEVERE"
    ]
    messages = [
        json.loads(entry["message"])["message"]
        for entry in browser.get_log("performance")
    ]
    asked = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    own = (file.as_uri(), "about:srcdoc")
    return printed + [url for url in asked if url not in own and url[:5] != "data:"]


def screenshot(browser) -> np.ndarray:
    """Returns the pixels [row, column, RGB] of the whole page."""
    sizes = browser.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
    how = {
        "format": "png",
        "captureBeyondViewport": True,
        "clip": {**sizes, "scale": 1},
    }
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", how)["data"]
    image = Image.open(io.BytesIO(base64.b64decode(shot))).convert("RGB")
    return np.asarray(image)
