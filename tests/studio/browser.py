"""A real browser that looks at a page."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
]
SIZE = {"width": 620, "height": 360}
SCENE = {"x": 0, "y": 90, "width": 230, "height": 260}
"""The part of the page that is neither the panel nor the sky."""
PREPARE = """
addEventListener("DOMContentLoaded", () => {
    const style = document.head.appendChild(document.createElement("style"))
    style.textContent = ".mantine-Notifications-root {display: none}"
})
"""
"""Viser warns that there is no GPU, right over the scene."""
PATIENCE = 180.0
"""Seconds that are waited for something that should happen soon; this machine may be busy."""


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, headless=True)
        yield browser
        browser.close()


class Viewer:
    """Somebody who looks at a page.

    Attributes:
        errors: what the browser complained of.
    """

    def __init__(self, browser: Any, address: str):
        self.page = browser.new_page(viewport=SIZE)
        self.page.set_default_timeout(1000 * PATIENCE)
        self.errors: list[str] = []
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.add_init_script(PREPARE)
        self.page.goto(address)

    def text(self) -> str:
        return self.page.inner_text("body")

    def picture(self) -> bytes:
        """What the scene looks like."""
        return self.page.screenshot(clip=SCENE)

    def wait_for(self, *words: str) -> str:
        """Wait until the page says all of it; the whole text."""
        until(lambda: all(word in self.text() for word in words), f"the page to say {words}, which says", self.text)
        return self.text()

    def close(self) -> None:
        self.page.close()


def until(happens: Callable[[], Any], what: str, found: Callable[[], Any] = lambda: "") -> Any:
    """Wait for something; what it was."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if result := happens():
            return result
        time.sleep(0.1)
    raise AssertionError(f"Waited in vain for {what} {found()}")
