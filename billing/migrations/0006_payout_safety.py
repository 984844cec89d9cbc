import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import Q

import core.clock
import core.ids
from billing.migrations._laws_safety import OPERATIONS as SAFETY_LAWS


def key() -> tuple[str, models.Field]:
    return ("id", models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False))


def made() -> tuple[str, models.Field]:
    return ("created_at", models.DateTimeField(default=core.clock.now, editable=False))


def owned(related_name: str, to: str) -> models.ForeignKey:
    return models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name=related_name, to=to)


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_payout_safety"),
        ("billing", "0005_adjustments"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ChainMatch",
            fields=[
                key(),
                made(),
                ("actor", models.CharField(max_length=80)),
                ("through_slot", models.BigIntegerField()),
                ("matched", models.PositiveIntegerField()),
                ("open", models.PositiveIntegerField()),
                ("findings", models.JSONField()),
            ],
            options={"verbose_name_plural": "chain matches"},
        ),
        migrations.CreateModel(
            name="DestinationFreeze",
            fields=[
                key(),
                made(),
                ("cleared_at", models.DateTimeField(null=True)),
                ("reason", models.CharField(blank=True, max_length=200)),
                (
                    "cleared_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="freezes_cleared",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("destination", owned("freezes", "billing.destination")),
                ("party", owned("destination_freezes", "accounts.party")),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=Q(cleared_at__isnull=True), fields=("party",), name="billing_freeze_one_open"
                    ),
                    models.CheckConstraint(
                        condition=Q(cleared_at__isnull=True, cleared_by__isnull=True, reason="")
                        | Q(cleared_at__isnull=False, cleared_by__isnull=False) & ~Q(reason=""),
                        name="billing_freeze_cleared_by_somebody",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="PayoutHold",
            fields=[
                key(),
                made(),
                ("source", models.CharField(max_length=80)),
                ("reason", models.CharField(max_length=200)),
                ("released_at", models.DateTimeField(null=True)),
                ("party", owned("payout_holds", "accounts.party")),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=Q(released_at__isnull=True), fields=["party"], name="billing_payouthold_open"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=Q(released_at__isnull=True), fields=("source",), name="billing_payouthold_one_open"
                    )
                ],
            },
        ),
        migrations.AddField("payout", "released_at", models.DateTimeField(null=True)),
        migrations.AddIndex(
            "payout",
            models.Index(
                condition=Q(released_at__isnull=False), fields=["released_at"], name="billing_payout_released"
            ),
        ),
        migrations.AddField("payoutswitch", "restored", models.BooleanField(db_default=False, default=False)),
        *SAFETY_LAWS,
    ]
