"""A picture of the page of `slipstream watch`, taken by Chromium without a screen.

slipstream watch runs/half-cheetah --worlds 256 &
python scripts/studio_screenshot.py http://127.0.0.1:8080 docs/figures/studio.png --tab Curves
"""

import argparse
import time

from playwright.sync_api import sync_playwright

FLAGS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
PATIENCE = 300.0
"""Seconds until something must be at play."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("out")
    parser.add_argument("--tab", default="Play", help="which one is open: Play, Curves, Settings")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the policy plays before")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=760)
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        page = browser.new_page(viewport={"width": options.width, "height": options.height})
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(options.address)
        page.get_by_text("at play").wait_for()
        page.get_by_role("tab", name=options.tab).click()
        time.sleep(options.seconds)
        page.add_style_tag(content=".mantine-Notifications-root {display: none}")
        page.screenshot(path=options.out)
        browser.close()


if __name__ == "__main__":
    main()
