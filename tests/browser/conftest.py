"""The whole product, once, and one Chromium that all of these tests share.

Playwright keeps an event loop running as long as it is open, which Django and the tests that are asynchronous refuse:
so everything ends with the last test of this folder, not with the session.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from config.data_folders import ROOT, Places
from tests.browser.person import WIDE, Person
from tests.config.running import Up

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PICTURES = ROOT / ".headroom" / "browser"
HERE = Path(__file__).parent


# Before pytest-xdist reads the groups, also where this folder is named on the command line.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In one process of several, because one product is enough; and the first of them waits for it to start."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("browser"))
            item.add_marker(pytest.mark.timeout(900))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.failed:
        for name, person in getattr(item, "funcargs", {}).items():
            if isinstance(person, Person):
                report.sections.append(("picture", _picture(item.name, name, person)))
    return report


def _picture(test: str, name: str, person: Person) -> str:
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / f"{test.replace('/', '_')}-{name}.png"
    person.page.screenshot(path=path, full_page=True)
    return f"{person.page.url} looked like {path}"


@pytest.fixture(scope="package")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("there is no Chromium here: install it (Debian: apt-get install chromium) to test the pages")
    return found


@pytest.fixture(scope="package")
def home(chromium: str) -> Iterator[Places]:
    with tempfile.TemporaryDirectory(prefix="hr-") as folder:
        environment = {**os.environ, "HEADROOM_HOME": folder, "HEADROOM_HTTPS": "0"}
        subprocess.run([sys.executable, "-m", "tests.browser.world"], cwd=ROOT, env=environment, check=True)
        yield Places(Path(folder))


@pytest.fixture(scope="package")
def product(home: Places) -> Iterator[Up]:
    # The cores are shared with the browser: a budget that only a fault can exceed, so that no check is refused for it.
    up = Up(home.home, HEADROOM_DEMO="1", HEADROOM_BUDGET_MS="60000")
    try:
        up.wait_until_ready()
        yield up
    finally:
        if up.process.poll() is None:
            up.end(signal.SIGTERM)


@pytest.fixture(scope="package")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def address(product: Up) -> str:
    return f"http://127.0.0.1:{product.port}"


@pytest.fixture(scope="package")
def signed_in(browser: Browser, address: str) -> Iterator[BrowserContext]:
    """The owner's window; every test opens a page of its own in it."""
    context = browser.new_context(viewport=WIDE)
    person = Person.at(context, address)
    person.signs_in("ada")
    person.page.close()
    yield context
    context.close()


@pytest.fixture
def ada(signed_in: BrowserContext, address: str) -> Iterator[Person]:
    """An owner."""
    person = Person.at(signed_in, address)
    yield person
    person.page.close()


@pytest.fixture
def tess(browser: Browser, address: str) -> Iterator[Person]:
    """Somebody who works for the throttled tenant."""
    context = browser.new_context(viewport=WIDE)
    person = Person.at(context, address)
    person.signs_in("tess")
    yield person
    context.close()


@pytest.fixture
def stranger(browser: Browser, address: str) -> Iterator[Person]:
    """Somebody who has not signed in."""
    context = browser.new_context(viewport=WIDE)
    yield Person.at(context, address)
    context.close()
