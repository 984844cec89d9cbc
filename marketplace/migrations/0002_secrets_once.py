from django.db import migrations, models

from core import laws


class Migration(migrations.Migration):
    dependencies = [("marketplace", "0001_initial")]

    operations = [
        migrations.AddField("attempt", "secrets_sent_at", models.DateTimeField(null=True)),
        migrations.AddField("job", "private_image", models.BooleanField(db_default=False, default=False)),
        migrations.AddField("job", "with_secrets", models.BooleanField(db_default=False, default=False)),
        # What was handed out stays handed out, whoever writes.
        laws.written_once("marketplace_attempt", {"secrets_sent_at": []}),
    ]
