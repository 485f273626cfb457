"""The database itself refuses what must not be, whoever writes: every case here is plain SQL."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from django.apps import apps
from django.db import DatabaseError, connection, models, transaction

from tests.quotas.models.rows import make_rows


class Bad(NamedTuple):
    row: str  # of make_rows
    change: str  # SET …


VIOLATIONS: dict[str, list[Bad]] = {
    "tier_name": [Bad("tier", "name = 'Pro'"), Bad("tier", "name = ''"), Bad("tier", "name = E'pro\\n'")],
    "tenants_tier_name_key": [Bad("tier", "name = 'free'")],
    "tenant_name": [
        Bad("tenant", "name = '-acme'"),
        Bad("tenant", "name = 'ac_me'"),
        Bad("tenant", "name = E'acme\\n'"),
        Bad("tenant", "name = 'ä'"),
    ],
    "tenants_tenant_name_key": [Bad("tenant", "name = 'bolt'")],
    "tenant_number": [Bad("tenant", "number = 0"), Bad("tenant", "number = 60466176")],
    "tenant_suspended_with_reason": [
        Bad("tenant", "suspended = true"),
        Bad("tenant", "suspended_reason = 'left over'"),
    ],
    "tenant_priority": [Bad("tenant", "priority = 'urgent'")],
    "tier_priority": [Bad("tier", "priority = 'urgent'")],
    "tenant_timezone": [Bad("tenant", "timezone = ''")],
    "tenant_handovers": [Bad("tenant", "handovers = '{}'")],
    "tenants_apikey_key_id_key": [Bad("apikey", "key_id = 'bbbbbbbbbbbbbbbb'")],
    "api_key_id": [Bad("apikey", "key_id = 'short'"), Bad("apikey", "key_id = 'AAAAAAAAAAAAAAAA'")],
    "api_key_secret_hash": [Bad("apikey", "secret_hash = 'the secret itself'")],
    "api_key_next_hash": [Bad("apikey", "next_hash = 'the secret itself'")],
    "api_key_lineage": [Bad("apikey", "lineage = 'short'")],
    "api_key_replaced_ends": [Bad("apikey", "successor_id = id")],
    "api_key_expires_after_created": [Bad("apikey", "expires_at = created - interval '1 second'")],
    "api_key_scopes": [Bad("apikey", "scopes = '{}'")],
    "api_key_revoked_after_created": [Bad("apikey", "revoked_at = created - interval '1 second'")],
    "tenants_apitoken_key_id_key": [Bad("apitoken", "key_id = 'dddddddddddddddd'")],
    "api_token_id": [Bad("apitoken", "key_id = 'short'")],
    "api_token_secret_hash": [Bad("apitoken", "secret_hash = 'the secret itself'")],
    "api_token_next_hash": [Bad("apitoken", "next_hash = 'the secret itself'")],
    "key_version_once": [Bad("keyversion", "version = 92")],
    "key_version_purpose": [Bad("keyversion", "purpose = 'x'")],
    "key_version_number": [Bad("keyversion", "version = 0")],
    "api_token_role": [Bad("apitoken", "role = 'root'")],
    "api_token_label_and_author": [Bad("apitoken", "label = ''"), Bad("apitoken", "author = ''")],
    "api_token_scopes": [Bad("apitoken", "scopes = '{}'")],
    "api_token_of_one_tenant": [
        Bad("apitoken", "role = 'tenant'"),
        Bad("apitoken", "tenant_id = (SELECT max(number) FROM tenants_tenant)"),
    ],
    "api_token_revoked_after_created": [Bad("apitoken", "revoked_at = created - interval '1 second'")],
    "api_token_approves_for_somebody": [Bad("apitoken", "may_approve = true")],
    "emergency_author_and_reason": [Bad("emergency", "author = ''"), Bad("emergency", "reason = ''")],
    "emergency_reviewed_by_somebody": [
        Bad("emergency", "reviewed_at = now()"),
        Bad("emergency", "reviewer = 'bob'"),
    ],
    "freeze_ends_after_start": [Bad("freeze", '"end" = start')],
    "freeze_author_and_reason": [Bad("freeze", "author = ''"), Bad("freeze", "reason = ''")],
    "freeze_lifted_with_reason": [
        Bad("freeze", "lifted_at = now()"),
        Bad("freeze", "lifted_at = now(), lifted_author = 'ann'"),
    ],
    "tenants_membership_user_id_key": [
        Bad("membership", "user_id = (SELECT id FROM auth_user WHERE username = 'bob')")
    ],
    "membership_role": [Bad("membership", "role = 'root'")],
    "membership_of_one_tenant": [
        Bad("membership", "role = 'tenant'"),
        Bad("membership", "tenant_id = (SELECT max(number) FROM tenants_tenant)"),
    ],
    "endpoint_name": [Bad("endpoint", "name = 'rides'"), Bad("endpoint", "name = 'rides:*'")],
    "quotas_endpoint_name_key": [Bad("endpoint", "name = 'rides:list'")],
    "endpoint_number": [Bad("endpoint2", "number = 0"), Bad("endpoint2", "number = 46656")],
    "endpoint_default_cost": [Bad("endpoint", "default_cost = 0"), Bad("endpoint", "default_cost = 1000000001")],
    "endpoint_priority": [Bad("endpoint", "priority = 'urgent'"), Bad("endpoint", "priority = ''")],
    "endpoint_method": [Bad("endpoint", "method = 'get'"), Bad("endpoint", "method = ''")],
    "endpoint_hints": [Bad("endpoint", "hints = '[]'")],
    "endpoint_path": [Bad("endpoint", "path = 'rides'")],
    "endpoint_route": [Bad("endpoint", "path = '/lists'")],
    "endpoint_target_us": [Bad("endpointtarget", "target_us = 0")],
    "policy_name": [Bad("policy", "name = 'Pro everywhere'")],
    "quotas_policy_name_key": [Bad("policy", "name = 'pro-all'")],
    "policy_tier_or_tenant": [Bad("policy", "tenant_id = (SELECT max(number) FROM tenants_tenant)")],
    "policy_endpoint_or_service": [Bad("policy_global", "endpoint_id = 1")],
    "policy_service_is_global": [Bad("policy2", "service = 'rides'")],
    "policy_service": [Bad("policy_global", "service = 'rides:'")],
    "policy_attached_once": [Bad("policy", "endpoint_id = NULL")],
    "limit_name": [Bad("limitname", "name = 'Burst'"), Bad("limitname", "name = 'burst~'")],
    "limit_name_number": [Bad("limitname", "number = 65536")],
    "quotas_limitname_name_key": [Bad("limitname", "name = 'daily'")],
    "limit_once_per_policy": [Bad("limit", "name_id = 2")],
    "limit_adapt": [Bad("limit", "adapt = '[]'")],
    "limit_algorithm": [Bad("limit", "algorithm = 'sliding'")],
    "limit_unit": [Bad("limit", "unit = 'bytes'")],
    "limit_mode": [Bad("limit", "mode = 'on'")],
    "limit_on_failure": [Bad("limit", "on_failure = 'shrug'")],
    "limit_lease": [Bad("limit", "lease_ms = 5"), Bad("limit", "lease_ms = 1001"), Bad("limit", "lease_ms = -1")],
    "limit_carry": [Bad("limit", "carry = 'double'")],
    "limit_subject": [Bad("limit", "subject = ''")],
    "limit_parameters": [Bad("limit", "parameters = '[]'"), Bad("limit", "parameters = 'null'")],
    "limit_candidate": [Bad("limit", "candidate = '[]'"), Bad("limit", "candidate = 'null'")],
    "limit_past": [Bad("limit", "past = '{}'")],
    "limit_past_length": [Bad("limit", "past = '[1,2,3,4,5,6,7,8,9]'")],
    "override_ends_after_start": [Bad("override", '"end" = start')],
    "override_limits": [Bad("override", "limits = '[1]'")],
    "override_limits_or_multiplier": [
        Bad("override", "limits = '{}'"),
        Bad("override", "multiplier_numerator = 2, multiplier_denominator = 1"),
        Bad("override", "limits = '{}', multiplier_numerator = 2"),
        Bad("override", "limits = '{}', multiplier_numerator = 0, multiplier_denominator = 1"),
    ],
    "override_carry": [Bad("override", "carry = ''")],
    "override_reason_and_author": [Bad("override", "reason = ''"), Bad("override", "author = ''")],
    "override_cancelled_by_a_revision": [
        Bad("override", "cancelled_at = now()"),
        Bad("override", "cancelled_revision_id = 1"),
    ],
    "change_state": [Bad("change", "state = 'done'")],
    "change_carry": [Bad("change", "carry = ''")],
    "change_author_and_reason": [Bad("change", "author = ''"), Bad("change", "reason = ''")],
    "change_touches_something": [Bad("change", "touched = '{}'")],
    "change_before": [Bad("change", "before = '[]'")],
    "change_after": [Bad("change", "after = '[]'")],
    "change_staged": [Bad("change", "staged = '[]'")],
    "change_end_author_and_reason": [
        Bad("change", "state = 'promoted'"),
        Bad("change", "state = 'dropped', end_author = 'ann'"),
    ],
    "change_scheduled_at": [Bad("change", "state = 'scheduled'")],
    "change_share_range": [Bad("change", "share = 0"), Bad("change", "share = 1000")],
    "change_canary_share": [
        Bad("change", "state = 'canary', share = 10"),
        Bad("change", "state = 'canary', start_revision_id = 1"),
    ],
    "change_trial_then": [Bad("change", "trial_then = 'wait'")],
    "change_bars": [Bad("change", "bar_share = 0"), Bad("change", "bar_tenant = 1.1")],
    "change_grandfather_days": [Bad("change", "grandfather_days = 0")],
    "change_reverted_by": [Bad("change", "state = 'reverted', end_author = 'ann', end_reason = 'because'")],
    "approval_once": [Bad("approval", "approver = 'carol'")],
    "approval_approver_and_reason": [Bad("approval", "approver = ''"), Bad("approval", "reason = ''")],
    "recommendation_kind": [Bad("recommendation", "kind = 'fleet'")],
    "recommendation_stage_known": [Bad("recommendation", "stage = 'done'")],
    "recommendation_trust": [Bad("recommendation", "trust = 'blind'")],
    "recommendation_binds": [Bad("recommendation", "binds = 'both'")],
    "recommendation_current": [Bad("recommendation", "current = '[]'")],
    "recommendation_proposed": [Bad("recommendation", "proposed = '[]'")],
    "recommendation_evidence": [Bad("recommendation", "evidence = '[]'")],
    "recommendation_askers": [Bad("recommendation", "askers = '{}'")],
    "recommendation_open_once": [Bad("recommendation", "\"limit\" = 'daily'")],
    "recommendation_proposes": [Bad("recommendation", "proposed = NULL")],
    "recommendation_end_reason": [
        Bad("recommendation", "stage = 'dismissed'"),
        Bad("recommendation", "stage = 'rolled_back', decider = 'ann'"),
    ],
    "limit_need_once": [Bad("limitneed", "\"limit\" = 'daily'")],
    "limit_need_needed": [Bad("limitneed", "needed = '[]'")],
    "limit_need_tenants": [Bad("limitneed", "tenants = '[]'")],
    "chart_note_text_and_author": [Bad("chartnote", "text = ''"), Bad("chartnote", "author = ''")],
    "saved_view_once": [Bad("savedview", "name = 'other'")],
    "saved_view_name": [Bad("savedview", "name = ''"), Bad("savedview", "page = ''")],
    "one_tenant_summary_run": [Bad("tenantsummaryrun", "id = 2")],
    "alert_threshold": [Bad("alertsetting", "threshold = 0")],
    "alert_target_kind": [Bad("alerttarget", "kind = 'pigeon'")],
    "alert_target_address": [Bad("alerttarget", "address = ''")],
    "alert_target_quiet": [
        Bad("alerttarget", "quiet_from = 60"),
        Bad("alerttarget", "quiet_from = 60, quiet_until = 1440"),
    ],
    "quota_request_answer": [Bad("quotarequest", "answer = 'perhaps'")],
    "quota_request_wanted": [Bad("quotarequest", "wanted = 0")],
    "quota_request_reason_and_author": [Bad("quotarequest", "reason = ''"), Bad("quotarequest", "author = ''")],
    "quota_request_usage": [Bad("quotarequest", "usage = '[]'")],
    "quota_request_waits_once": [Bad("quotarequest", "\"limit\" = 'daily'")],
    "quota_request_answered_with_reason": [
        Bad("quotarequest", "answer = 'declined'"),
        Bad("quotarequest", "answer = 'granted', answer_author = 'ann', answered_at = now()"),
    ],
    "task_kind_known": [Bad("task", "kind = 'dig'")],
    "task_state": [Bad("task", "state = 'lost'")],
    "task_percent": [Bad("task", "percent = 101")],
    "task_author": [Bad("task", "author = ''")],
    "task_slice_place": [Bad("taskslice", "place = 1")],
    "task_slice_state": [Bad("taskslice", "state = 'lost'")],
    "task_slice_percent": [Bad("taskslice", "percent = 101")],
    "outbox_kind": [
        Bad("outbox", "revision_id = NULL"),
        Bad("outbox", "kind = 'api_keys'"),
        Bad("outbox", "kind = ''"),
    ],
    "one_drain_state": [Bad("drainstate", "id = 2")],
    "gap_ends_after_start": [Bad("gaprecord", "\"end\" = start - interval '1 second'")],
}
# These cannot be updated at all (test_revision_is_immutable, tests/tenants/test_history.py): tried on a new row.
VIOLATIONS_OF_NEW: dict[str, tuple[str, dict[str, object]]] = {
    "revision_number": ("revision", {"number": 0}),
    "revision_author_and_reason": ("revision", {"number": 2, "reason": ""}),
    "revision_touches_something": ("revision", {"number": 2, "touched": []}),
    "revision_published": ("revision", {"number": 2, "published_us": 0}),
    "revision_before": ("revision", {"number": 2, "before": []}),
    "revision_after": ("revision", {"number": 2, "after": []}),
    "audit_event_kind": ("auditevent", {"id": 0, "kind": ""}),
}
CASES = [pytest.param(name, bad, id=f"{name}: {bad.change}") for name, bads in VIOLATIONS.items() for bad in bads]


def sql_update(row: models.Model, change: str) -> None:
    meta = row._meta
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f'UPDATE {meta.db_table} SET {change} WHERE "{meta.pk.column}" = %s', [row.pk])  # noqa: S608


@pytest.mark.django_db
@pytest.mark.parametrize(("constraint", "bad"), CASES)
def test_it_refuses_a_bad_row(constraint: str, bad: Bad) -> None:
    row = make_rows()[bad.row]
    with pytest.raises(DatabaseError, match=constraint):
        sql_update(row, bad.change)


@pytest.mark.django_db
@pytest.mark.parametrize(("constraint", "bad"), VIOLATIONS_OF_NEW.items())
def test_it_refuses_a_bad_new_row(constraint: str, bad: tuple[str, dict[str, object]]) -> None:
    name, fields = bad
    row = make_rows()[name]
    for field, value in fields.items():
        setattr(row, field, value)
    with pytest.raises(DatabaseError, match=constraint), transaction.atomic():
        row.save(force_insert=True)


@pytest.mark.django_db
def test_two_endpoints_without_a_path_or_retired_may_share_a_route() -> None:
    rows = make_rows()
    sql_update(rows["endpoint"], "path = ''")
    sql_update(rows["endpoint2"], "path = ''")
    sql_update(rows["endpoint"], "path = '/lists', retired = true")
    sql_update(rows["endpoint2"], "path = '/lists'")


def test_every_constraint_is_tried() -> None:
    declared = {
        constraint.name
        for model in apps.get_models()
        if model._meta.app_label in ("tenants", "quotas")
        for constraint in model._meta.constraints
    }
    assert declared - VIOLATIONS.keys() - VIOLATIONS_OF_NEW.keys() == set()


@pytest.mark.django_db
def test_every_unique_and_check_constraint_of_the_tables_is_tried() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid "
            "WHERE contype IN ('c', 'u') AND relname ~ '^(tenants|quotas)_' AND NOT relispartition"
        )
        found = {name for (name,) in cursor.fetchall()}
    assert found - VIOLATIONS.keys() - VIOLATIONS_OF_NEW.keys() == set()
