"""What a move to another tier would change, as a dry run shows it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from rest_framework import serializers

from api.inputs import Choice
from api.openapi.describe import DryRunOut
from quotas.tenants.moves import MOST_SHOWN, MovePreview, TenantMove, move_preview
from quotas.tenants.stranded import STRANDED_CHOICES, StrandedChoice


def stranded_choice(*but: StrandedChoice) -> Choice:
    """`but`: choices that make no sense here."""
    told = {
        "refuse": "`refuse`: nothing is moved.",
        "end": "`end`: they end in the same revision.",
        "leave_out": "`leave_out`: their tenants stay.",
    }
    choices = [choice for choice in STRANDED_CHOICES if choice not in but]
    words = " ".join(told[choice] for choice in choices)
    about = "What to do about overrides that change a limit which the new tier lacks."
    return Choice(choices=choices, default="refuse", help_text=f"{about} {words}")


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


class StrandedOverrideOut(serializers.Serializer[Any]):
    override = serializers.IntegerField()
    tenant = serializers.CharField()
    endpoint = serializers.CharField(help_text="`*` or an endpoint.")
    limits = serializers.ListField(child=serializers.CharField(), help_text="Empty: it multiplies all limits.")


class MoveDryRunOut(DryRunOut):
    moves = TenantMoveOut(many=True, help_text="The first 200, those who are hurt or get tighter first.")
    tighter_count = serializers.IntegerField(help_text="Tenants that get a limit tighter, or one more.")
    below_peak_count = serializers.IntegerField(help_text="Tenants that asked for more than will pass.")
    stay_count = serializers.IntegerField(help_text="Tenants that are on the tier already.")
    stranded_overrides = StrandedOverrideOut(
        many=True, help_text="The first 200 that change a limit which the tier lacks: they end, or keep their tenants."
    )
    left_out_count = serializers.IntegerField(help_text="Tenants that stay because of such overrides.")


def moves_shown(names: Collection[str], tier: str, stranded: StrandedChoice) -> dict[str, Any]:
    preview: MovePreview = move_preview(names=names, tier=tier, stranded_overrides=stranded)
    return {
        "moves": [_shown(move) for move in preview.shown],
        "tighter_count": preview.tighter,
        "below_peak_count": preview.hurt,
        "stay_count": preview.stay,
        "stranded_overrides": [asdict(each) for each in preview.stranded[:MOST_SHOWN]],
        "left_out_count": preview.left_out,
    }


def _shown(move: TenantMove) -> dict[str, Any]:
    return {"tenant": move.tenant, "tier": move.tier, "limits": [asdict(each) for each in move.limits]}
