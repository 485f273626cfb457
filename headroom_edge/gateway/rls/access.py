"""Where the service listens, and whom it answers there.

On a loopback address it answers everybody: whoever is on this machine. On any other it needs certificates on both
sides (mTLS), or a token in each call.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

NEEDED: Final = (
    "use 127.0.0.1, or add --certificate, --key and --client-ca (mTLS), or --tokens, so that callers send a token"
)


@dataclass(frozen=True, slots=True)
class Access:
    """Raises ValueError with one sentence if strangers could ask."""

    host: str
    port: int
    certificate: str = ""  # files in PEM format
    key: str = ""
    client_ca: str = ""
    tokens: bool = False  # every call needs a token with the scope `check`

    def __post_init__(self) -> None:
        if bool(self.certificate) != bool(self.key):
            raise ValueError("--certificate and --key belong together; give both, or none.")
        if self.client_ca and not self.certificate:
            raise ValueError("--client-ca needs --certificate and --key; give all three.")
        if not (is_loopback(self.host) or self.client_ca or self.tokens):
            raise ValueError(f"{self.host} can be reached from other machines; {NEEDED}.")

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def read(self, file: str) -> bytes:
        try:
            return Path(file).read_bytes()
        except OSError as error:
            raise ValueError(f"The file {file} cannot be read: {error.strerror}.") from None


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
