from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0001_initial")]

    operations = [
        migrations.RunSQL(
            "INSERT INTO scheduling_schedulerlease (id, holder, epoch, expires_at, requested, last_error)"
            " VALUES (1, '', 0, now(), 0, '')",
            "DELETE FROM scheduling_schedulerlease",
        )
    ]
