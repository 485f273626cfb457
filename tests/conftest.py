"""Real servers for every test: one PostgreSQL and one Valkey per test process, both thrown away at the end."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import connection
from django.test import TransactionTestCase, override_settings
from hypothesis import settings as hypothesis_settings
from pytest_django.plugin import DjangoDbBlocker
from whitenoise.middleware import WhiteNoiseMiddleware  # type: ignore[import-untyped]

from access.throttle import floor
from config.data_folders import APPLICATION, OWNER, Places, places
from config.embedded import ServerProcess, start_postgres
from tenants import privileges
from tenants.keyring import API_KEYS, read_keys
from tests import database
from tests.clusters import SpareCluster, SpareSentinels
from tests.faults.proxy import Proxy
from tests.figures import figures, pytest_terminal_summary
from tests.sweeps import EVERY
from tests.valkeys import SpareValkey

__all__ = ["figures", "pytest_terminal_summary"]

# The cores are shared with the servers under test, so the time of one example says nothing.
# And `make test` tells of the change, not of luck: chance has its turn in `make faults`.
hypothesis_settings.register_profile("headroom", deadline=None, derandomize=True, max_examples=25)
hypothesis_settings.register_profile("every", deadline=None, derandomize=True, max_examples=EVERY)

LONG = ("tests/config/test_up", "tests/config/test_jobs.py", "tests/api/test_fuzz.py")


def pytest_configure(config: pytest.Config) -> None:
    """`make test` tries properties on a part of their examples, whatever leaves out nothing on all."""
    hypothesis_settings.load_profile("headroom" if "not sweep" in config.option.markexpr else "every")


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """The sweep has each property again, with all of its examples."""
    is_property = getattr(getattr(item, "function", None), "is_hypothesis_test", False)
    if is_property and item.config.option.markexpr == "sweep" and item.get_closest_marker("faults_long") is None:
        item.add_marker(pytest.mark.sweep)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first, so that no process is left alone with one at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


def pytest_collection_finish() -> None:
    """What was collected stays until the end: the garbage collector need not look at it after every test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """The real hash is slow on purpose; the product that the browser tests start uses it."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture(scope="session", autouse=True)
def static_files_found_once() -> Iterator[None]:
    """Each test client makes the middleware anew, and that looks through every folder of static files."""
    found: dict[str, Any] = {}
    look = WhiteNoiseMiddleware.add_files_from_finders

    def reuse(middleware: WhiteNoiseMiddleware) -> None:
        if not found:
            look(middleware)
            found.update(middleware.files)
        middleware.files.update(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", reuse)
        yield


@pytest.fixture(autouse=True)
def no_tries_before() -> None:
    """A process counts tries to sign in by itself where the store does not; one test's are not the next one's."""
    floor.cache_clear()


@pytest.fixture(scope="session")
def home() -> Places:
    return places()


@pytest.fixture(scope="session")
def postgres_server(home: Places) -> Iterator[ServerProcess]:
    server = start_postgres(home, durable=False)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres_server: ServerProcess) -> None:
    """pytest-django makes its test database once this is done; every test process has its own server."""
    connection.settings_dict["USER"] = OWNER


@pytest.fixture(scope="session")
def django_db_setup(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, valkey_server: SpareValkey
) -> Iterator[None]:
    """Made by the owner; then every test connects as the application does, and can do no more than it.

    Whoever asks the API asks the store as well: one that is not there yet would open the breaker for the next test.
    """
    with django_db_blocker.unblock():
        privileges.grant(connection, APPLICATION)
        with connection.cursor() as cursor:
            database.install(cursor)
        connection.close()
        connection.settings_dict["USER"] = APPLICATION
        read_keys(API_KEYS)
        # Django's own way truncates all tables, and makes the rows of permissions and content types again.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _: database.empty())
            yield
        connection.close()
        connection.settings_dict["USER"] = OWNER


@pytest.fixture(scope="session")
def valkey_server(home: Places) -> Iterator[SpareValkey]:
    """The server that settings.REDIS_URL names; it listens on a free TCP port as well."""
    with SpareValkey(home.valkey, socket=home.valkey_socket) as server:
        yield server


@pytest.fixture(scope="session")
def valkey_url(valkey_server: SpareValkey) -> str:
    return valkey_server.url


@pytest.fixture
def valkey(valkey_server: SpareValkey) -> Iterator[redis.Redis]:
    """A client that gives bytes, on a server without keys; functions that a test loaded stay for the next."""
    with valkey_server.client() as client:
        client.flushall()
        yield client
        # Limits that a test published for Headroom's own API would hold for the next one that asks it.
        client.flushall()


@pytest.fixture
def spare_valkey(tmp_path: Path) -> Iterator[Callable[..., SpareValkey]]:
    """Starts throw-away servers: `server = spare_valkey()`, `spare_valkey("--maxmemory", "10mb", durable=True)`."""
    with ExitStack() as stack:

        def start(*extra: str, durable: bool = False) -> SpareValkey:
            folder = tmp_path / f"valkey-{len(list(tmp_path.iterdir()))}"
            return stack.enter_context(SpareValkey(folder, durable=durable, extra=extra))

        yield start


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpareCluster]:
    """For tests that leave every node alive and every slot where it was. Others start `spare_cluster`."""
    with SpareCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.keep_roles()
        yield cluster


@pytest.fixture
def cluster(shared_cluster: SpareCluster) -> SpareCluster:
    """Without keys and functions."""
    for node in shared_cluster.primaries():
        shared_cluster.on(node, "FLUSHALL")
        shared_cluster.on(node, "FUNCTION", "FLUSH")
    return shared_cluster


@pytest.fixture
def spare_cluster(tmp_path: Path) -> Iterator[SpareCluster]:
    with SpareCluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture
def sentinels(tmp_path: Path) -> Iterator[SpareSentinels]:
    with SpareSentinels(tmp_path) as watched:
        yield watched


@pytest.fixture
def proxy(valkey_server: SpareValkey) -> Iterator[Proxy]:
    """A faulty wire to the session's Valkey."""
    with Proxy("127.0.0.1", valkey_server.port) as wire:
        yield wire
