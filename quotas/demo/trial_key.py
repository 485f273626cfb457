"""The API key in the command that `make up` prints to try the demo. Its file is readable by the owner alone."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from django.utils import timezone

from quotas.api_keys import api_key_issue, live_keys
from quotas.private_files import write_private
from tenants.models import Tenant
from tenants.secrets import KeyText

TENANT: Final = "blue-line"
ENDPOINT: Final = "rider:track"


def keep_trial_key(path: Path) -> None:
    """Sees to it that the file holds a key that works, or that there is none if this is not the demo."""
    if path.exists() and _works(path.read_text()):
        return
    path.unlink(missing_ok=True)
    if Tenant.objects.filter(name=TENANT, suspended=False, archived_at=None).exists():
        issued = api_key_issue(tenant=TENANT, label="make up", author="pipeline", reason="to try the demo with curl")
        write_private(path, str(issued.text))


def _works(text: str) -> bool:
    key = KeyText.parse(text)
    return key is not None and live_keys(timezone.now()).filter(key_id=key.key_id, tenant__name=TENANT).exists()
