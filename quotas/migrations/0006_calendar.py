from django.db import migrations, models

from tenants.row_security import of_tenant


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0005_isolation'),
    ]

    operations = [
        migrations.CreateModel(
            name='CalendarCounter',
            fields=[
                ('pk', models.CompositePrimaryKey('shard', 'tenant_number', 'scope', 'subject', 'limit_number', blank=True, editable=False, primary_key=True, serialize=False)),
                ('shard', models.IntegerField()),
                ('tenant_number', models.IntegerField()),
                ('scope', models.CharField(max_length=128)),
                ('subject', models.BinaryField(max_length=256)),
                ('limit_number', models.IntegerField()),
                ('generation', models.IntegerField()),
                ('period_start', models.DateTimeField()),
                ('used', models.BigIntegerField()),
                ('expires_at', models.DateTimeField(db_index=True)),
                ('drained_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'quotas_calendar',
            },
        ),
        of_tenant('quotas_calendar', 'tenant_number'),
    ]
