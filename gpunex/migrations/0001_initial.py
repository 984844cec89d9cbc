from django.db import migrations, models

from core import laws

TABLE = "gpunex_eventseen"


class Migration(migrations.Migration):
    initial = True

    dependencies = [("core", "0001_initial")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="EventSeen",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "machine_id",
                                "event_id",
                                "occurred_at",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("machine_id", models.UUIDField()),
                        ("event_id", models.UUIDField()),
                        ("occurred_at", models.DateTimeField()),
                        ("seen_at", models.DateTimeField()),
                        ("kind", models.CharField(max_length=40)),
                        ("outcome", models.CharField(max_length=64)),
                    ],
                    options={
                        "verbose_name": "event of an agent",
                        "verbose_name_plural": "events of agents",
                    },
                ),
            ],
            database_operations=[
                migrations.RunSQL(
                    f"""
                    CREATE TABLE {TABLE} (
                        machine_id uuid NOT NULL,
                        event_id uuid NOT NULL,
                        occurred_at timestamptz NOT NULL,
                        seen_at timestamptz NOT NULL,
                        kind varchar(40) NOT NULL,
                        outcome varchar(64) NOT NULL,
                        PRIMARY KEY (machine_id, event_id, occurred_at)
                    ) PARTITION BY RANGE (occurred_at);
                    """,
                    f"DROP TABLE {TABLE}",
                ),
            ],
        ),
        migrations.CreateModel(
            name="Installation",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("kind", models.CharField(choices=[("demo", "Demo"), ("plain", "Plain")], max_length=8)),
                ("genesis_hash", models.CharField(blank=True, max_length=64)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="gpunex_installation_one")],
            },
        ),
        laws.partitioned(TABLE, keep_days=14),
    ]
