"""Django's admin shows what is enforced and changes none of it, whoever asks."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.contrib import admin
from django.db import models
from django.test import Client
from django.urls import reverse

from tests.quotas.models.rows import make_rows

REGISTERED = [model for model in apps.get_models() if admin.site.is_registered(model)]
OURS = [model for model in REGISTERED if model._meta.app_label in ("tenants", "quotas")]


def page(model: type[models.Model], name: str, *args: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{name}", args=args)


@pytest.mark.parametrize("model", OURS, ids=lambda model: model.__name__)
def test_its_pages_show_and_do_not_write(model: type[models.Model], admin_client: Client) -> None:
    row = make_rows()[model.__name__.lower()]
    assert admin_client.get(page(model, "changelist")).status_code == 200
    assert admin_client.get(page(model, "change", row.pk)).status_code == 200
    for url in (page(model, "add"), page(model, "change", row.pk), page(model, "delete", row.pk)):
        assert admin_client.post(url, {}).status_code == 403
    admin_client.post(page(model, "changelist"), {"action": "delete_selected", "_selected_action": [row.pk]})
    assert model._default_manager.filter(pk=row.pk).exists()


def test_the_hash_of_a_secret_is_not_shown(admin_client: Client) -> None:
    key = make_rows()["apikey"]
    assert "0" * 64 not in admin_client.get(page(type(key), "change", key.pk)).content.decode()
