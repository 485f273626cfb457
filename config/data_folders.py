"""Paths and URLs of the embedded servers."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import secrets
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from config import env

ROOT = Path(__file__).resolve().parent.parent
# sockaddr_un holds 108 bytes on Linux and 104 elsewhere, including the final NUL.
SOCKET_PATH_BYTES = 103
# Roles of the embedded PostgreSQL: one owns the tables, the other reads and writes their rows.
OWNER = "headroom"
APPLICATION = "headroom_app"
LONGEST_SOCKET = "postgres/.s.PGSQL.5432.lock"


def wheel_path(package: str, pattern: str) -> Path | None:
    """A path inside an installed package, found without importing the package, which would have side effects."""
    spec = importlib.util.find_spec(package)
    folder = None if spec is None or spec.origin is None else Path(spec.origin).parent
    return next(folder.glob(pattern), None) if folder else None


@dataclass(frozen=True)
class Places:
    """Everything follows from the home folder, so that every process finds the same servers."""

    home: Path

    @property
    def sockets(self) -> Path:
        if len(os.fsencode(self.home / LONGEST_SOCKET)) <= SOCKET_PATH_BYTES:
            return self.home
        digest = hashlib.sha256(os.fsencode(self.home)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"headroom-{os.getuid()}-{digest}"

    @property
    def postgres(self) -> Path:
        return self.home / "postgres"

    @property
    def valkey(self) -> Path:
        return self.home / "valkey"

    @property
    def postgres_socket_dir(self) -> Path:
        return self.sockets / "postgres"

    @property
    def valkey_socket(self) -> Path:
        return self.sockets / "valkey" / "valkey.sock"

    @property
    def database_url(self) -> str:
        return self._database_url(APPLICATION)

    @property
    def migration_database_url(self) -> str:
        return self._database_url(OWNER)

    def _database_url(self, role: str) -> str:
        return f"postgresql://{role}@/headroom?host={quote(str(self.postgres_socket_dir), safe='')}"

    @property
    def cluster(self) -> Path:
        """The nodes that `make up CLUSTER=1` starts."""
        return self.home / "cluster"

    @property
    def valkey_url(self) -> str:
        return f"unix://{quote(str(self.valkey_socket))}?db=0"

    @property
    def redis_url(self) -> str:
        """Of the cluster or the server that `make up` uses. HEADROOM_CLUSTER tells it before it has started."""
        if env.flag("HEADROOM_CLUSTER", default=self.cluster_in_use.exists()):
            ports = self.cluster_ports()
            return "redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in ports[: len(ports) // 2])
        return self.valkey_url

    @property
    def cluster_in_use(self) -> Path:
        """Is there once the cluster was formed, until `make up` without a cluster."""
        return self.cluster / "in_use"

    @property
    def cluster_ports_file(self) -> Path:
        return self.cluster / "ports"

    def cluster_ports(self) -> list[int]:
        """One for the clients of each node, then one for each node to talk to the others."""
        try:
            return [int(word) for word in self.cluster_ports_file.read_text().split()]
        except (OSError, ValueError):
            raise env.SettingError(
                f"There is no cluster in {self.cluster}; start it with `make up CLUSTER=1`, or unset HEADROOM_CLUSTER."
            ) from None

    @property
    def owner_password(self) -> Path:
        """The password of the account that `make up` creates. The file is removed once the password is changed."""
        return self.home / "owner_password"

    @property
    def trial_key(self) -> Path:
        """An API key of the demo, for the command that `make up` prints."""
        return self.home / "trial_key"

    @property
    def demo_keys(self) -> Path:
        """The API keys that the demo's live traffic uses."""
        return self.home / "demo_keys"

    def secret(self) -> str:
        """This machine's SECRET_KEY, created on first use. A line end that an editor adds is no part of it."""
        path = self.home / "secret_key"
        try:
            if not path.exists():
                self._make_secret(path)
            return path.read_text().strip()
        except OSError as error:
            raise env.SettingError(
                f"{path} cannot be used ({error.strerror}); set HEADROOM_HOME to a writable folder."
            ) from None

    def _make_secret(self, path: Path) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        draft = self.home / f"secret_key.{os.getpid()}"
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(48))
        # link() does not replace a file, so two simultaneous first starts end up with the same key.
        with suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()


def places() -> Places:
    return Places(Path(env.text("HEADROOM_HOME", str(ROOT / ".headroom"))).expanduser().resolve())
