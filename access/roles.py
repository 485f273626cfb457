"""Who may do what: every route by its URL name and method. A route that is not listed here is denied to everybody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tenants.models import Role
from tenants.scope import APPROVE, METRICS, READ, WRITE, Principal

NOBODY: Final[frozenset[str]] = frozenset()
OWNERS: Final = frozenset({Role.OWNER.value})
APPROVERS: Final = OWNERS | {Role.APPROVER.value}
OPERATORS: Final = APPROVERS | {Role.OPERATOR.value}
STAFF: Final = OPERATORS | {Role.VIEWER.value}
TENANTS: Final = frozenset({Role.TENANT.value})
EVERYBODY: Final = STAFF | TENANTS


@dataclass(frozen=True, slots=True)
class RoleRule:
    roles: frozenset[str]
    scope: str  # required of a machine's token, in addition to the role
    is_open: bool = False  # no login required

    def admits(self, principal: Principal) -> bool:
        return principal.role in self.roles and self.scope in principal.scopes


RouteRules = Mapping[str, RoleRule]  # by method

OPEN: Final = RoleRule(EVERYBODY, READ, is_open=True)


def reads(roles: frozenset[str]) -> RoleRule:
    return RoleRule(roles, READ)


def writes(roles: frozenset[str]) -> RoleRule:
    return RoleRule(roles, WRITE)


def approves(roles: frozenset[str]) -> RoleRule:
    return RoleRule(roles, APPROVE)


TABLE: Final[Mapping[str, RouteRules]] = {
    # Operations. /metrics also checks the caller's address (config.metrics).
    "healthz": {"GET": OPEN},
    "favicon": {"GET": OPEN},
    "metrics": {"GET": RoleRule(STAFF, METRICS, is_open=True)},
    # Pages.
    "dashboards:login": {"GET": OPEN, "POST": OPEN},
    "dashboards:logout": {"POST": reads(EVERYBODY)},
    "dashboards:overview": {"GET": reads(STAFF)},
    "dashboards:decisions": {"GET": reads(STAFF)},
    "dashboards:decisions-new": {"GET": reads(STAFF)},
    "dashboards:tester": {"GET": reads(STAFF), "POST": reads(STAFF)},
    "dashboards:endpoints": {"GET": reads(STAFF)},
    "dashboards:endpoints-csv": {"GET": reads(STAFF)},
    "dashboards:endpoint-new": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:endpoint-match": {"POST": reads(OPERATORS)},
    "dashboards:endpoints-import": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:endpoint": {"GET": reads(STAFF)},
    "dashboards:endpoint-edit": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:endpoint-retire": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:endpoint-impact": {"GET": reads(STAFF)},
    "dashboards:endpoint-draft": {"POST": writes(OPERATORS)},
    "dashboards:limit-pin": {"POST": writes(OPERATORS)},
    "dashboards:recommendations": {"GET": reads(STAFF)},
    "dashboards:chart-notes": {"GET": reads(STAFF), "POST": writes(OPERATORS)},
    "dashboards:chart-note-remove": {"POST": writes(OPERATORS)},
    "dashboards:recommendations-run": {"POST": writes(OPERATORS)},
    "dashboards:recommendations-bulk": {"POST": approves(APPROVERS)},
    "dashboards:recommendation": {"GET": reads(STAFF)},
    "dashboards:recommendation-decide": {"POST": approves(APPROVERS)},
    "dashboards:simulator": {"GET": reads(STAFF), "POST": reads(STAFF)},
    "dashboards:simulator-sharing": {"GET": reads(STAFF), "POST": reads(STAFF)},
    "dashboards:what-if": {"GET": reads(STAFF), "POST": writes(OPERATORS)},
    "dashboards:what-if-run": {"GET": reads(STAFF)},
    "dashboards:what-if-draft": {"POST": writes(OPERATORS)},
    "dashboards:settings": {"GET": reads(STAFF)},
    "dashboards:settings-recommender": {"POST": writes(OPERATORS)},
    "dashboards:token-permit": {"POST": writes(OWNERS)},
    "dashboards:freeze": {"POST": approves(APPROVERS)},
    "dashboards:freeze-lift": {"POST": approves(APPROVERS)},
    "dashboards:alert-rule": {"POST": writes(OPERATORS)},
    "dashboards:alert-target-add": {"POST": writes(OPERATORS)},
    "dashboards:alert-target": {"POST": writes(OPERATORS)},
    "dashboards:matrix": {"GET": reads(STAFF)},
    "dashboards:matrix-csv": {"GET": reads(STAFF)},
    "dashboards:matrix-cell": {"GET": reads(STAFF)},
    "dashboards:matrix-plan": {"POST": reads(STAFF)},
    "dashboards:matrix-publish": {"POST": writes(OPERATORS)},
    "dashboards:matrix-published": {"GET": reads(STAFF)},
    "dashboards:matrix-import": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:policies": {"GET": reads(STAFF)},
    "dashboards:policy-new": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:policy": {"GET": reads(STAFF)},
    "dashboards:policy-yaml": {"GET": reads(STAFF)},
    "dashboards:policy-rename": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:policy-delete": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:policy-limit-rename": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:pools": {"GET": reads(STAFF)},
    "dashboards:pool-new": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:pool": {"GET": reads(STAFF)},
    "dashboards:pool-edit": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:pool-member-new": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:pool-demand": {"GET": reads(STAFF), "POST": writes(OPERATORS)},
    "dashboards:pool-plan": {"POST": reads(OPERATORS)},
    "dashboards:pool-shares": {"POST": writes(OPERATORS)},
    "dashboards:tiers": {"GET": reads(STAFF)},
    "dashboards:tiers-csv": {"GET": reads(STAFF)},
    "dashboards:tier-new": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:tier": {"GET": reads(STAFF)},
    "dashboards:tier-edit": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:tier-move": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:tier-retire": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:tenants": {"GET": reads(STAFF)},
    "dashboards:tenants-csv": {"GET": reads(STAFF), "POST": reads(STAFF)},
    "dashboards:tenant": {"GET": reads(STAFF)},
    "dashboards:tenant-new": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:tenants-import": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:tenants-import-run": {"GET": reads(OPERATORS)},
    "dashboards:tenants-bulk": {"POST": writes(OPERATORS)},
    "dashboards:tenant-settings": {"GET": reads(STAFF), "POST": writes(OPERATORS)},
    "dashboards:tenant-move-preview": {"GET": reads(STAFF)},
    "dashboards:tenant-archive": {"POST": writes(OPERATORS)},
    "dashboards:tenant-restore": {"POST": writes(OPERATORS)},
    "dashboards:overrides": {"GET": reads(STAFF)},
    "dashboards:overrides-csv": {"GET": reads(STAFF), "POST": reads(STAFF)},
    "dashboards:overrides-new": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:overrides-preview": {"POST": writes(OPERATORS)},
    "dashboards:overrides-give": {"POST": writes(OPERATORS)},
    "dashboards:overrides-extend": {"POST": writes(OPERATORS)},
    "dashboards:overrides-end": {"POST": writes(OPERATORS)},
    "dashboards:override-edit": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:override-new": {"GET": reads(OPERATORS)},
    "dashboards:override-preview": {"POST": writes(OPERATORS)},
    "dashboards:override-give": {"POST": writes(OPERATORS)},
    "dashboards:override-end": {"POST": writes(OPERATORS)},
    "dashboards:tenant-suspend": {"POST": writes(OPERATORS)},
    "dashboards:tenant-resume": {"POST": writes(OPERATORS)},
    "dashboards:key-issue": {"POST": writes(OPERATORS)},
    "dashboards:key-rotate": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:key-label": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:key-revoke": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:changes": {"GET": reads(STAFF)},
    "dashboards:undo": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:change": {"GET": reads(STAFF)},
    "dashboards:change-csv": {"GET": reads(STAFF)},
    "dashboards:change-trial": {"POST": writes(OPERATORS)},
    "dashboards:change-approve": {"POST": approves(APPROVERS)},
    "dashboards:change-start": {"POST": writes(OPERATORS)},
    "dashboards:change-promote": {"GET": reads(OPERATORS), "POST": writes(OPERATORS)},
    "dashboards:change-drop": {"POST": writes(OPERATORS)},
    "dashboards:bypass": {"POST": writes(OPERATORS)},
    "dashboards:bypass-end": {"POST": writes(OPERATORS)},
    "dashboards:emergency-review": {"POST": writes(OPERATORS)},
    "dashboards:first-run": {"GET": reads(STAFF), "POST": writes(OPERATORS)},
    "dashboards:request-answer": {"POST": approves(APPROVERS)},
    "dashboards:portal": {"GET": reads(EVERYBODY)},
    "dashboards:portal-ask": {"POST": writes(TENANTS)},
    "dashboards:runbook": {"GET": reads(STAFF)},
    "dashboards:inbox": {"GET": reads(STAFF)},
    # Everybody on the staff saves views of their own; sharing one needs more (quotas.saved_views).
    "dashboards:view-save": {"POST": reads(STAFF)},
    "dashboards:view-update": {"POST": reads(STAFF)},
    "dashboards:view-delete": {"POST": reads(STAFF)},
    "dashboards:palette": {"GET": reads(STAFF)},
    "dashboards:live": {"GET": reads(STAFF)},
    # Django's admin also requires `is_staff`. Its own login page is closed, because it is not throttled.
    "admin:login": {},
    "admin:*": {"GET": reads(OWNERS), "POST": writes(OWNERS)},
    # The REST API.
    "v1:schema": {"GET": reads(EVERYBODY)},
    "v1:docs": {"GET": reads(EVERYBODY)},
    "v1:pools": {"GET": reads(STAFF), "POST": writes(OPERATORS)},
    "v1:pool": {"GET": reads(STAFF), "PATCH": writes(OPERATORS)},
    "v1:pool-use": {"GET": reads(STAFF)},
    "v1:pool-members": {"GET": reads(STAFF), "POST": writes(OPERATORS), "PATCH": writes(OPERATORS)},
    "v1:tiers": {"GET": reads(STAFF), "POST": writes(OPERATORS)},
    "v1:tier": {"GET": reads(STAFF), "PATCH": writes(OPERATORS), "DELETE": writes(OPERATORS)},
    "v1:tier-duplicate": {"POST": writes(OPERATORS)},
    "v1:tier-retire": {"POST": writes(OPERATORS)},
    "v1:tenants": {"GET": reads(EVERYBODY), "POST": writes(OPERATORS)},
    "v1:tenants-csv": {"GET": reads(EVERYBODY)},
    "v1:tenant": {"GET": reads(EVERYBODY), "PATCH": writes(OPERATORS)},
    "v1:tenant-move": {"POST": writes(OPERATORS)},
    "v1:tenant-suspend": {"POST": writes(OPERATORS)},
    "v1:tenant-resume": {"POST": writes(OPERATORS)},
    "v1:tenant-archive": {"POST": writes(OPERATORS)},
    "v1:tenant-restore": {"POST": writes(OPERATORS)},
    "v1:tenants-move": {"POST": writes(OPERATORS)},
    "v1:tenants-suspend": {"POST": writes(OPERATORS)},
    "v1:tenants-resume": {"POST": writes(OPERATORS)},
    "v1:tenants-tag": {"POST": writes(OPERATORS)},
    "v1:tenants-import": {"POST": writes(OPERATORS)},
    "v1:tenant-limits": {"GET": reads(EVERYBODY)},
    "v1:tenant-reset": {"POST": writes(OPERATORS)},
    "v1:api-keys": {"GET": reads(EVERYBODY), "POST": writes(OPERATORS)},
    "v1:api-key": {"GET": reads(EVERYBODY), "PATCH": writes(OPERATORS)},
    "v1:api-key-rotate": {"POST": writes(OPERATORS)},
    "v1:api-key-revoke": {"POST": writes(OPERATORS)},
    "v1:endpoints": {"GET": reads(EVERYBODY), "POST": writes(OPERATORS)},
    "v1:endpoints-import": {"POST": writes(OPERATORS)},
    "v1:endpoint": {"GET": reads(EVERYBODY), "PATCH": writes(OPERATORS), "DELETE": writes(OPERATORS)},
    "v1:policies": {"GET": reads(STAFF), "POST": writes(OPERATORS)},
    "v1:policy": {"GET": reads(STAFF), "PUT": writes(OPERATORS), "DELETE": writes(OPERATORS)},
    "v1:policy-rename": {"POST": writes(OPERATORS)},
    "v1:policy-limit": {"PUT": writes(OPERATORS), "DELETE": writes(OPERATORS)},
    "v1:policy-limit-rename": {"POST": writes(OPERATORS)},
    "v1:policy-limit-pin": {"POST": writes(OPERATORS)},
    "v1:policy-limit-unpin": {"POST": writes(OPERATORS)},
    "v1:adaptive": {"GET": reads(STAFF)},
    "v1:adaptive-timeline": {"GET": reads(STAFF)},
    "v1:overrides": {"GET": reads(EVERYBODY), "POST": writes(OPERATORS)},
    "v1:overrides-csv": {"GET": reads(EVERYBODY)},
    "v1:overrides-give": {"POST": writes(OPERATORS)},
    "v1:overrides-extend": {"POST": writes(OPERATORS)},
    "v1:overrides-cancel": {"POST": writes(OPERATORS)},
    "v1:override": {"GET": reads(EVERYBODY), "PATCH": writes(OPERATORS)},
    "v1:override-extend": {"POST": writes(OPERATORS)},
    "v1:override-cancel": {"POST": writes(OPERATORS)},
    "v1:revisions": {"GET": reads(STAFF)},
    "v1:revision": {"GET": reads(STAFF)},
    "v1:revision-diff": {"GET": reads(STAFF)},
    "v1:revision-rollback": {"POST": writes(OPERATORS)},
    "v1:revision-revert": {"POST": writes(OPERATORS)},
    "v1:explain": {"POST": reads(EVERYBODY)},
    "v1:bypasses": {"GET": reads(STAFF), "POST": writes(OPERATORS)},
    "v1:bypass": {"DELETE": writes(OPERATORS)},
    "v1:changes": {"GET": reads(STAFF)},
    "v1:change": {"GET": reads(STAFF)},
    "v1:change-start": {"POST": writes(OPERATORS)},
    "v1:change-promote": {"POST": writes(OPERATORS)},
    "v1:change-drop": {"POST": writes(OPERATORS)},
    "v1:change-trial": {"GET": reads(STAFF), "PATCH": writes(OPERATORS)},
    "v1:change-approve": {"POST": approves(APPROVERS)},
    "v1:emergencies": {"GET": reads(STAFF)},
    "v1:emergency": {"GET": reads(STAFF)},
    "v1:emergency-review": {"POST": writes(OPERATORS)},
    "v1:chart-notes": {"GET": reads(STAFF), "POST": writes(OPERATORS)},
    "v1:chart-note": {"GET": reads(STAFF), "DELETE": writes(OPERATORS)},
    "v1:freezes": {"GET": reads(STAFF), "POST": approves(APPROVERS)},
    "v1:freeze": {"GET": reads(STAFF)},
    "v1:freeze-lift": {"POST": approves(APPROVERS)},
    "v1:tokens": {"GET": reads(OPERATORS)},
    "v1:token": {"GET": reads(OPERATORS), "PATCH": writes(OWNERS)},
    "v1:usage": {"GET": reads(EVERYBODY)},
    "v1:denials": {"GET": reads(EVERYBODY)},
    "v1:recommendations": {"GET": reads(STAFF)},
    "v1:recommendation": {"GET": reads(STAFF)},
    "v1:recommendation-simulate": {"POST": writes(OPERATORS)},
    "v1:recommendation-measure": {"POST": writes(OPERATORS)},
    "v1:recommendation-edit": {"POST": writes(OPERATORS)},
    "v1:recommendation-approve": {"POST": approves(APPROVERS)},
    "v1:recommendation-enforce": {"POST": approves(APPROVERS)},
    "v1:recommendation-dismiss": {"POST": writes(OPERATORS)},
    "v1:recommendation-roll-back": {"POST": writes(OPERATORS)},
    "v1:recommendations-approve": {"GET": reads(STAFF), "POST": approves(APPROVERS)},
    "v1:whatifs": {"GET": reads(STAFF), "POST": writes(OPERATORS)},
    "v1:whatif": {"GET": reads(STAFF)},
    "v1:calibrations": {"POST": writes(OPERATORS)},
    "v1:calibration": {"GET": reads(STAFF)},
    "v1:calibration-settings": {"GET": reads(STAFF), "PATCH": writes(OPERATORS)},
    "v1:audit": {"GET": reads(STAFF)},
    "v1:enforcers": {"GET": reads(STAFF)},
    "v1:alerts": {"GET": reads(STAFF)},
    "v1:alert-rules": {"GET": reads(STAFF)},
    "v1:alert-rule": {"GET": reads(STAFF), "PATCH": writes(OPERATORS)},
    "v1:alert-targets": {"GET": reads(STAFF), "POST": writes(OPERATORS)},
    "v1:alert-target": {"DELETE": writes(OPERATORS)},
    "v1:alert-target-test": {"POST": writes(OPERATORS)},
    "v1:document": {"GET": reads(STAFF)},
    "v1:document-schema": {"GET": reads(EVERYBODY)},
    "v1:document-validate": {"POST": reads(STAFF)},
    "v1:document-plan": {"POST": reads(STAFF)},
    "v1:document-apply": {"POST": writes(OPERATORS)},
    # Everybody sees and cancels their own tasks only.
    "v1:document-task": {"GET": reads(STAFF)},
    "v1:document-task-cancel": {"POST": reads(STAFF)},
}


def rules_of(view_name: str) -> RouteRules | None:
    """None if the route is not listed."""
    if view_name in TABLE:
        return TABLE[view_name]
    namespace, colon, _ = view_name.rpartition(":")
    return TABLE.get(f"{namespace}:*") if colon else None


def rule_of(rules: RouteRules, method: str) -> RoleRule | None:
    """HEAD follows GET's rule. OPTIONS is allowed to every role that may use any of the route's methods."""
    if method == "OPTIONS" and rules:
        return RoleRule(_union(rule.roles for rule in rules.values()), READ, any(r.is_open for r in rules.values()))
    return rules.get("GET" if method == "HEAD" else method)


def may(principal: Principal, view_name: str, method: str) -> bool:
    return TABLE[view_name][method].admits(principal)


def words_of(roles: frozenset[str]) -> str:
    """`operators, approvers and owners`, from the least to the most powerful."""
    named = [f"{role.value}s" for role in Role if role.value in roles]
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named) or "nobody"


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return NOBODY.union(*sets)
