"""Tenants and tiers: created, edited, moved, suspended, tagged and archived, one or many in one revision."""

from quotas.tenants.archive import Archiving, archiving_of, tenant_archive, tenant_restore
from quotas.tenants.edit import (
    tenant_create,
    tenant_update,
    tenants_create,
    tier_create,
    write_tier,
    write_tiers,
)
from quotas.tenants.fields import NewTenant
from quotas.tenants.many import (
    tenant_move,
    tenant_resume,
    tenant_suspend,
    tenants_move,
    tenants_resume,
    tenants_suspend,
    tenants_tag,
)
from quotas.tenants.tiers import tier_duplicate, tier_retire, tier_update

__all__ = [
    "Archiving",
    "NewTenant",
    "archiving_of",
    "tenant_archive",
    "tenant_create",
    "tenant_move",
    "tenant_restore",
    "tenant_resume",
    "tenant_suspend",
    "tenant_update",
    "tenants_create",
    "tenants_move",
    "tenants_resume",
    "tenants_suspend",
    "tenants_tag",
    "tier_create",
    "tier_duplicate",
    "tier_retire",
    "tier_update",
    "write_tier",
    "write_tiers",
]
