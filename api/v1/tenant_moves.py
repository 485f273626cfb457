"""What a move to another tier would change, as a dry run shows it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from rest_framework import serializers

from api.openapi.describe import DryRunOut
from quotas.tenants.moves import MovePreview, TenantMove, move_preview


class LimitMoveOut(serializers.Serializer[Any]):
    scope = serializers.CharField(help_text="`*` or an endpoint.")
    limit = serializers.CharField()
    before = serializers.CharField(help_text="Empty: the tenant has no such limit.")
    after = serializers.CharField(help_text="Empty: it has none any more.")
    change = serializers.ChoiceField(
        choices=["looser", "tighter", "new", "gone", "other"],
        help_text="`new`: it had no such limit. `other`: it counts something else, so the two cannot be compared.",
    )
    peak = serializers.CharField(help_text="What the tenant asked for in four weeks, if that is more than will pass.")
    is_measured = serializers.BooleanField(help_text="Whether its demand is known in the unit of a tighter limit.")


class TenantMoveOut(serializers.Serializer[Any]):
    tenant = serializers.CharField()
    tier = serializers.CharField(help_text="The tier that it is on now.")
    limits = LimitMoveOut(many=True, help_text="The limits that change.")


class MoveDryRunOut(DryRunOut):
    moves = TenantMoveOut(many=True, help_text="The first 200, those who are hurt or get tighter first.")
    tighter_count = serializers.IntegerField(help_text="Tenants that get a limit tighter, or one more.")
    below_peak_count = serializers.IntegerField(help_text="Tenants that asked for more than will pass.")
    stay_count = serializers.IntegerField(help_text="Tenants that are on the tier already.")


def moves_shown(names: Collection[str], tier: str) -> dict[str, Any]:
    preview: MovePreview = move_preview(names=names, tier=tier)
    return {
        "moves": [_shown(move) for move in preview.shown],
        "tighter_count": preview.tighter,
        "below_peak_count": preview.hurt,
        "stay_count": preview.stay,
    }


def _shown(move: TenantMove) -> dict[str, Any]:
    return {"tenant": move.tenant, "tier": move.tier, "limits": [asdict(each) for each in move.limits]}
