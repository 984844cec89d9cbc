from django.db import migrations, models


def unique(name: str, table: str, columns: str, condition: str) -> migrations.RunSQL:
    """Without a lock that would hold up who writes; the old rule stays until the new one is there."""
    return migrations.RunSQL(
        f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON {table} ({columns}) WHERE {condition}",
        f"DROP INDEX CONCURRENTLY {name}",
    )


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("billing", "0002_withdrawals_and_claims")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                unique(
                    "billing_destination_one_per_purpose",
                    "billing_destination",
                    "party_id, purpose",
                    "state = 'active'",
                ),
                unique(
                    "billing_payoutrun_period_once", "billing_payoutrun", "kind, period_start", "kind <> 'withdraw'"
                ),
                unique(
                    "billing_payout_requested_once",
                    "billing_payout",
                    "party_id, request_key",
                    "request_key IS NOT NULL",
                ),
                migrations.RunSQL(
                    "DROP INDEX CONCURRENTLY billing_destination_one_active",
                    "CREATE UNIQUE INDEX CONCURRENTLY billing_destination_one_active ON billing_destination (party_id)"
                    " WHERE state = 'active'",
                ),
                migrations.RunSQL(
                    "ALTER TABLE billing_payoutrun DROP CONSTRAINT billing_payoutrun_once",
                    "ALTER TABLE billing_payoutrun ADD CONSTRAINT billing_payoutrun_once UNIQUE (kind, period_start)",
                ),
            ],
            state_operations=[
                migrations.RemoveConstraint(
                    model_name="destination",
                    name="billing_destination_one_active",
                ),
                migrations.RemoveConstraint(
                    model_name="payoutrun",
                    name="billing_payoutrun_once",
                ),
                migrations.AddConstraint(
                    model_name="destination",
                    constraint=models.UniqueConstraint(
                        condition=models.Q(("state", "active")),
                        fields=("party", "purpose"),
                        name="billing_destination_one_per_purpose",
                    ),
                ),
                migrations.AddConstraint(
                    model_name="payout",
                    constraint=models.UniqueConstraint(
                        condition=models.Q(("request_key__isnull", False)),
                        fields=("party", "request_key"),
                        name="billing_payout_requested_once",
                    ),
                ),
                migrations.AddConstraint(
                    model_name="payoutrun",
                    constraint=models.UniqueConstraint(
                        condition=models.Q(("kind", "withdraw"), _negated=True),
                        fields=("kind", "period_start"),
                        name="billing_payoutrun_period_once",
                    ),
                ),
            ],
        ),
    ]
