from django.db import migrations

from aistation.core.append_only import append_only


class Migration(migrations.Migration):
    dependencies = [("workloads", "0001_initial")]

    operations = [append_only("workloads_transition")]
