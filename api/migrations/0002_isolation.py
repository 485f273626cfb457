from django.db import migrations

from tenants.row_security import of_nobody


class Migration(migrations.Migration):

    dependencies = [
        ('api', '0001_initial'),
        ('tenants', '0004_isolation'),
    ]

    operations = [
        of_nobody('api_storedanswer'),
    ]
