"""`make screenshots`: pictures of the running demo for the README, taken as a person would see it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from playwright.sync_api import Error, Page, sync_playwright

from config.data_folders import ROOT, places

FOLDER: Final = ROOT / "docs" / "screenshots"
WIDTH, HEIGHT = 1440, 900
PAGES: Final = {
    "overview": "/",
    "tenant": "/tenants/delta-shuttle",
    "matrix": "/matrix",
    "endpoint": "/endpoints/rider:quote",
    "recommendations": "/recommendations",
    "simulator": "/simulator",
    "changes": "/changes?q=free-everywhere",
    "settings": "/settings",
}
DARK: Final = ("overview", "tenant")


def main() -> int:
    url = f"http://127.0.0.1:{os.environ.get('PORT', '8000')}"
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        return fail("there is no Chromium on this machine; install it (Debian: chromium)")
    password = places().owner_password
    if not password.exists():
        return fail(f"there is no {password}; start the demo with `make up` first")
    try:
        for path in take(url, chromium, password.read_text()):
            sys.stdout.write(f"{path.relative_to(ROOT)} {path.stat().st_size // 1024} KB\n")
    except Error as error:
        return fail(f"the demo at {url} could not be photographed: {str(error).splitlines()[0]}")
    return 0


def take(url: str, chromium: str, password: str) -> list[Path]:
    FOLDER.mkdir(exist_ok=True)
    made = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for scheme, names in (("light", tuple(PAGES)), ("dark", DARK)):
            context = browser.new_context(
                viewport={"width": WIDTH, "height": HEIGHT},
                color_scheme="dark" if scheme == "dark" else "light",
                reduced_motion="reduce",
            )
            page = context.new_page()
            sign_in(page, url, password)
            made += [picture(page, url, name, scheme) for name in names]
        browser.close()
    return made


def sign_in(page: Page, url: str, password: str) -> None:
    page.goto(f"{url}/login")
    page.fill("input[name=username]", "owner")
    page.fill("input[name=password]", password)
    page.locator("input[name=password]").press("Enter")
    page.wait_for_url(f"{url}/")


def picture(page: Page, url: str, name: str, scheme: str) -> Path:
    answer = page.goto(url + PAGES[name])
    if answer is None or not answer.ok:
        raise Error(f"{PAGES[name]} answers {answer.status if answer else 'nothing'}")
    page.wait_for_load_state("load")
    # Charts are drawn in the frame after their module ran.
    page.wait_for_timeout(500)
    path = FOLDER / (f"{name}.png" if scheme == "light" else f"{name}-dark.png")
    page.screenshot(path=path)
    return path


def fail(reason: str) -> int:
    sys.stderr.write(f"headroom: {reason}.\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
