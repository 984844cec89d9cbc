import django.db.models.deletion
from django.db import migrations, models
from django.db.models.functions import Cast

from billing.models.ledger import CurrentTransaction
from core import laws


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="PostingFence",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("posting_id", models.BigIntegerField()),
                (
                    "written_in",
                    models.BigIntegerField(
                        db_default=Cast(Cast(CurrentTransaction(), models.TextField()), models.BigIntegerField()),
                        editable=False,
                    ),
                ),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="BalanceCheckpoint",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("posting_id", models.BigIntegerField()),
                ("balance", models.BigIntegerField()),
                ("at", models.DateTimeField()),
                (
                    "account",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="checkpoints",
                        to="billing.account",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("account", "posting_id"), name="billing_checkpoint_once")
                ],
            },
        ),
        laws.append_only("billing_postingfence"),
        laws.append_only("billing_balancecheckpoint"),
    ]
