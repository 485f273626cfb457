"""Tiers, tenants, API keys, memberships, tokens and the keyring. Written only by the functions in `quotas`."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from headroom_edge.plan.priority import PRIORITIES
from tenants.constraints import json_is, named, one_of
from tenants.history import tracked

TENANT_NAME = "[a-z0-9][a-z0-9-]{0,62}"
WORD = "[a-z0-9][a-z0-9_.-]{0,62}"
# A tenant's number is written in five digits of base 36 (headroom_edge.keys).
TENANT_NUMBERS = 36**5


HASH_DUE = "due"


class Role(models.TextChoices):
    VIEWER = "viewer", "looks at everything"
    OPERATOR = "operator", "changes limits too"
    APPROVER = "approver", "approves changes of others too"
    OWNER = "owner", "decides who may do what, too"
    TENANT = "tenant", "looks at one tenant only"


@tracked()
class Tier(models.Model):
    """The plan that a tenant is on. Keys and totals contain its number, so it is retired, not deleted."""

    number = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=63, unique=True)
    label = models.CharField(max_length=200, blank=True, default="", db_default="", help_text="the name people use")
    description = models.CharField(max_length=500, blank=True, default="", db_default="", help_text="whom it is for")
    priority = models.CharField(
        max_length=9, blank=True, default="", db_default="", help_text="its highest; empty: the endpoint's"
    )
    retired = models.BooleanField(default=False, db_default=False, help_text="no tenant is on it")
    created = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [named(WORD, "tier_name"), one_of("priority", ("", *PRIORITIES), "tier_priority")]

    def __str__(self) -> str:
        return self.name


@tracked()
class Tenant(models.Model):
    """A customer with quotas. Its number is part of Redis keys and is never reused."""

    number = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=63, unique=True)
    label = models.CharField(max_length=200, blank=True, default="", help_text="the name people use")
    tier = models.ForeignKey(Tier, on_delete=models.PROTECT, related_name="tenants")
    timezone = models.CharField(max_length=64, default="UTC")
    tags = ArrayField(models.CharField(max_length=40), blank=True, default=list, db_default=[])
    contacts = ArrayField(
        models.CharField(max_length=254), blank=True, default=list, db_default=[], help_text="mail addresses"
    )
    priority = models.CharField(
        max_length=9, blank=True, default="", db_default="", help_text="its highest; empty: the endpoint's"
    )
    suspended = models.BooleanField(default=False)
    suspended_reason = models.CharField(max_length=500, blank=True, default="")
    # Limits whose source changed for this tenant only; written by quotas.policies.limit_codec.
    handovers = models.JSONField(default=list, blank=True)
    # It has left: refused like a suspended one, and no longer listed. Its name and number stay taken.
    archived_at = models.DateTimeField(null=True, blank=True)
    created = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["name"]
        indexes = [
            models.Index(fields=["tier"], condition=~Q(handovers=[]), name="tenant_handed_over"),
            GinIndex(fields=["tags"], name="tenant_tags"),
            models.Index(fields=["tier", "name"], name="tenant_by_tier"),
            models.Index(fields=["name"], condition=Q(suspended=True), name="tenant_suspended"),
            models.Index(fields=["name"], condition=Q(archived_at__isnull=False), name="tenant_archived"),
        ]
        constraints = [
            named(TENANT_NAME, "tenant_name"),
            models.CheckConstraint(condition=Q(number__gt=0, number__lt=TENANT_NUMBERS), name="tenant_number"),
            models.CheckConstraint(
                condition=Q(suspended=True) & ~Q(suspended_reason="") | Q(suspended=False, suspended_reason=""),
                name="tenant_suspended_with_reason",
            ),
            models.CheckConstraint(condition=~Q(timezone=""), name="tenant_timezone"),
            json_is("handovers", "array", "tenant_handovers"),
            one_of("priority", ("", *PRIORITIES), "tenant_priority"),
        ]

    def __str__(self) -> str:
        return self.name


@tracked(exclude=["secret_hash", "secret_version", "next_hash"])
class ApiKey(models.Model):
    """A tenant's API key. The id is public; only an HMAC of the secret is stored."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="api_keys")
    key_id = models.CharField(max_length=32, unique=True)
    secret_hash = models.CharField(max_length=64, help_text="HMAC-SHA-256, hexadecimal")
    secret_version = models.IntegerField(db_default=1, help_text="of the key of that HMAC")
    # Under the newest version. Empty: there is no newer one. `due`: there is; hashed when the secret is next seen.
    next_hash = models.CharField(max_length=64, blank=True, db_default="")
    label = models.CharField(max_length=200, blank=True, default="")
    scopes = ArrayField(models.CharField(max_length=32))
    # The first key of its line of rotations, which limits per key count it as. Empty: it is the first itself.
    lineage = models.CharField(max_length=32, blank=True, default="", db_default="")
    successor = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="+", help_text="the key that replaces it"
    )
    created = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="it stops working then; empty: never")
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created"]
        constraints = [
            named("[a-z0-9]{8,32}", "api_key_id", "key_id"),
            named("([a-z0-9]{8,32})?", "api_key_lineage", "lineage"),
            # A replaced key ends by itself; otherwise a rotation would only add a key.
            models.CheckConstraint(
                condition=Q(successor=None) | Q(expires_at__isnull=False), name="api_key_replaced_ends"
            ),
            models.CheckConstraint(
                condition=Q(expires_at=None) | Q(expires_at__gte=F("created")), name="api_key_expires_after_created"
            ),
            named("[0-9a-f]{64}", "api_key_secret_hash", "secret_hash"),
            named("([0-9a-f]{64}|due)?", "api_key_next_hash", "next_hash"),
            models.CheckConstraint(condition=Q(scopes__len__gt=0), name="api_key_scopes"),
            models.CheckConstraint(
                condition=Q(revoked_at=None) | Q(revoked_at__gte=F("created")), name="api_key_revoked_after_created"
            ),
        ]

    def __str__(self) -> str:
        return self.key_id

    @property
    def counted_as(self) -> str:
        return self.lineage or self.key_id


@tracked()
class Membership(models.Model):
    """A person's role. A superuser without a membership is an owner; others without one may do nothing."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="membership")
    role = models.CharField(max_length=8, choices=Role.choices)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, null=True, blank=True, related_name="memberships")

    class Meta:
        ordering = ["user"]
        constraints = [
            one_of("role", Role.values, "membership_role"),
            models.CheckConstraint(
                condition=Q(role=Role.TENANT, tenant__isnull=False) | ~Q(role=Role.TENANT) & Q(tenant=None),
                name="membership_of_one_tenant",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user}: {self.role}"


@tracked(exclude=["secret_hash", "secret_version", "next_hash"])
class ApiToken(models.Model):
    """A machine's token, with a role and scopes. Only an HMAC of the secret is stored."""

    key_id = models.CharField(max_length=32, unique=True)
    secret_hash = models.CharField(max_length=64, help_text="HMAC-SHA-256, hexadecimal")
    secret_version = models.IntegerField(db_default=1, help_text="of the key of that HMAC")
    # Under the newest version. Empty: there is no newer one. `due`: there is; hashed when the secret is next seen.
    next_hash = models.CharField(max_length=64, blank=True, db_default="")
    label = models.CharField(max_length=200)
    role = models.CharField(max_length=8, choices=Role.choices)
    scopes = ArrayField(models.CharField(max_length=32))
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, null=True, blank=True, related_name="api_tokens")
    author = models.CharField(max_length=150)
    issuer = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        help_text="who answers for what it does; empty: nobody is known to",
    )
    may_approve = models.BooleanField(db_default=False, default=False, help_text="an owner lets this machine approve")
    created = models.DateTimeField(db_default=Now(), editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created"]
        constraints = [
            named("[a-z0-9]{8,32}", "api_token_id", "key_id"),
            named("[0-9a-f]{64}", "api_token_secret_hash", "secret_hash"),
            named("([0-9a-f]{64}|due)?", "api_token_next_hash", "next_hash"),
            one_of("role", Role.values, "api_token_role"),
            models.CheckConstraint(condition=~Q(label="") & ~Q(author=""), name="api_token_label_and_author"),
            models.CheckConstraint(condition=Q(scopes__len__gt=0), name="api_token_scopes"),
            models.CheckConstraint(
                condition=Q(may_approve=False) | Q(issuer__isnull=False), name="api_token_approves_for_somebody"
            ),
            models.CheckConstraint(
                condition=Q(role=Role.TENANT, tenant__isnull=False) | ~Q(role=Role.TENANT) & Q(tenant=None),
                name="api_token_of_one_tenant",
            ),
            models.CheckConstraint(
                condition=Q(revoked_at=None) | Q(revoked_at__gte=F("created")), name="api_token_revoked_after_created"
            ),
        ]

    def __str__(self) -> str:
        return self.key_id


class KeyPurpose(models.TextChoices):
    API_KEYS = "api_keys", "hashes the secrets of API keys and tokens; published to enforcers"
    SEALING = "sealing", "encrypts webhooks' secrets and the subjects of calendar quotas"
    SUBJECTS = "subjects", "hashes the subjects of denials"


class KeyVersion(models.Model):
    """One version of a key of this installation, encrypted under SECRET_KEY (tenants.keyring)."""

    purpose = models.CharField(max_length=16, choices=KeyPurpose.choices)
    version = models.IntegerField()
    wrapped = models.BinaryField()
    created = models.DateTimeField(db_default=Now(), editable=False)
    retired_at = models.DateTimeField(null=True, blank=True, help_text="nothing needs it any more; deleted soon after")

    class Meta:
        ordering = ["purpose", "version"]
        constraints = [
            models.UniqueConstraint(fields=["purpose", "version"], name="key_version_once"),
            one_of("purpose", KeyPurpose.values, "key_version_purpose"),
            models.CheckConstraint(condition=Q(version__gt=0), name="key_version_number"),
        ]

    def __str__(self) -> str:
        return f"{self.purpose} {self.version}"


@tracked(exclude=["password", "last_login"], app="tenants")
class Account(User):
    """Django's user, as a proxy so that changes of its rights are recorded too."""

    class Meta:
        proxy = True
