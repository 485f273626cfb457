from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand
from django.db.models import Q

from quotas.private_files import write_private
from tenants.models import Role

NAME = "owner"
PASSWORD_BYTES = 12


class Command(BaseCommand):
    help = "Create an owner with a random password, stored in a file beside the data, if there is no owner yet."
    requires_system_checks = ()  # they would load all routes, which is slow

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = settings.HEADROOM_OWNER_PASSWORD
        owners = User.objects.filter(Q(is_superuser=True) | Q(membership__role=Role.OWNER), is_active=True)
        if not owners.exists():
            User.objects.create_superuser(NAME, password=_keep(path))
            self.stdout.write(f"created the account {NAME}; its password is in {path}")
            return
        if path.exists() and not _opens(path):
            # The password was changed, so the file is obsolete.
            path.unlink()
        if path.exists():
            self.stdout.write(f"there is an owner already, {NAME}; its password is in {path}")
        else:
            name = owners.order_by("pk")[0].username
            self.stdout.write(
                f"there is an owner already, {name}; `manage.py changepassword {name}` sets a new password"
            )


def _keep(path: Path) -> str:
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    write_private(path, password)
    return password


def _opens(path: Path) -> bool:
    user = User.objects.filter(username=NAME, is_active=True).first()
    return user is not None and user.check_password(path.read_text())
