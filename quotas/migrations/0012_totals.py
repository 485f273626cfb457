from importlib import import_module

from django.db import migrations, models

from tenants.row_security import of_nobody

CreatePartitioned = import_module('quotas.migrations.0002_usage').CreatePartitioned
isolation = import_module('quotas.migrations.0005_isolation')
rates = import_module('quotas.migrations.0007_rates')

TOTALS = {
    'TotalStep': 'quotas_total_10s',
    'TotalMinute': 'quotas_total_1m',
    'TotalHour': 'quotas_total_1h',
    'TotalDay': 'quotas_total_1d',
}
ROLLUPS = ('quotas_usage_10s', 'quotas_usage_1m', 'quotas_usage_1h', 'quotas_usage_1d')
SLICED = (*isolation.PARTITIONED, *rates.NEW)


def total(name, table):
    key = ('start', 'tenant_number', 'endpoint_number', 'outcome', 'limit_number')
    return CreatePartitioned(
        name=name,
        fields=[
            ('pk', models.CompositePrimaryKey(*key, blank=True, editable=False, primary_key=True, serialize=False)),
            ('start', models.DateTimeField()),
            ('count', models.BigIntegerField()),
            ('cost', models.BigIntegerField()),
            ('tenant_number', models.IntegerField()),
            ('endpoint_number', models.IntegerField()),
            ('limit_number', models.IntegerField()),
            ('outcome', models.CharField(max_length=1)),
        ],
        options={'db_table': table},
        column='start',
    )


# Of requests that were refused: few among many, and what pages look for.
REFUSED = "outcome IN ('d', 'z', 'p', 'o', 'u', 'c')"


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0011_quota_request'),
    ]

    operations = [
        *(total(name, table) for name, table in TOTALS.items()),
        *(of_nobody(table) for table in TOTALS.values()),
        migrations.RunSQL(rates.check((*SLICED, *TOTALS.values())), rates.check(SLICED)),
        *(
            migrations.RunSQL(
                f'CREATE INDEX {table}_refused ON {table} (start) WHERE {REFUSED}', f'DROP INDEX {table}_refused'
            )
            for table in ROLLUPS
        ),
    ]
