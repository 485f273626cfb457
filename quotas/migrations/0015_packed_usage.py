from importlib import import_module

import django.contrib.postgres.fields
from django.db import migrations, models

from tenants.row_security import of_tenant

CreatePartitioned = import_module('quotas.migrations.0002_usage').CreatePartitioned
rates = import_module('quotas.migrations.0007_rates')
totals = import_module('quotas.migrations.0012_totals')

KEY = ('tenant_number', 'endpoint_number', 'outcome', 'limit_number')
BEFORE = (*totals.SLICED, *totals.TOTALS.values())
# The step of each in seconds, and how long a slice of what is packed is.
FINE = {'10s': (10, '6 hours'), '1m': (60, '1 day')}
NEW = tuple(f'quotas_{kind}_{name}' for kind in ('fresh', 'packed') for name in FINE)
AFTER = (*(table for table in BEFORE if table not in ('quotas_usage_10s', 'quotas_usage_1m')), *NEW)

# What is there is packed as quotas.usage.packed_hours does it, and the table of old goes.
MOVE = """
ALTER TABLE quotas_usage_{name} RENAME TO quotas_old_{name};
DO $$
DECLARE first timestamptz;
BEGIN
    FOR first IN SELECT DISTINCT date_bin('{slice}', start, 'epoch') FROM quotas_old_{name} LOOP
        PERFORM headroom_slice_make('quotas_packed_{name}', to_char(first AT TIME ZONE 'UTC',
            '"quotas_packed_{name}_"YYYYMMDD"t"HH24'), first, first + interval '{slice}', 100);
    END LOOP;
END $$;
INSERT INTO quotas_packed_{name} (slot, tenant_number, endpoint_number, outcome, limit_number, entries, counts, costs)
SELECT slot, tenant_number, endpoint_number, outcome, limit_number,
    array_agg(((extract(epoch FROM start - slot)::int / {step}) << 22) | least(count, 4194303)::int ORDER BY start),
    CASE WHEN max(count) >= 4194303 THEN array_agg(count ORDER BY start) END,
    CASE WHEN bool_or(cost <> count) THEN array_agg(cost ORDER BY start) END
FROM (SELECT *, date_bin('1 hour', start, 'epoch') AS slot FROM quotas_old_{name}) AS r
GROUP BY slot, tenant_number, endpoint_number, outcome, limit_number;
DROP TABLE quotas_old_{name};
"""
# With the rights of whoever asks, so that row-level security is theirs.
VIEW = """
CREATE VIEW quotas_usage_{name} WITH (security_invoker = true) AS
SELECT date_bin('1 hour', start, 'epoch') AS slot, start, tenant_number, endpoint_number, outcome, limit_number,
    count, cost
FROM quotas_fresh_{name}
UNION ALL
SELECT p.slot, p.slot + (e.entry >> 22) * interval '{step} seconds', p.tenant_number, p.endpoint_number, p.outcome,
    p.limit_number, coalesce(e.count, (e.entry & 4194303)::bigint),
    coalesce(e.cost, e.count, (e.entry & 4194303)::bigint)
FROM quotas_packed_{name} AS p CROSS JOIN LATERAL unnest(p.entries, p.counts, p.costs) AS e (entry, count, cost);
"""


def rollup(*first):
    return [
        ('pk', models.CompositePrimaryKey(first[0], *KEY, blank=True, editable=False, primary_key=True, serialize=False)),
        *((name, models.DateTimeField()) for name in first),
        ('tenant_number', models.IntegerField()),
        ('endpoint_number', models.IntegerField()),
        ('limit_number', models.IntegerField()),
        ('outcome', models.CharField(max_length=1)),
    ]


def counted(*first):
    return [*rollup(*first), ('count', models.BigIntegerField()), ('cost', models.BigIntegerField())]


def beside():
    field = models.BigIntegerField(null=True)
    return django.contrib.postgres.fields.ArrayField(base_field=field, null=True, size=None)


def packed():
    entries = django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None)
    return [*rollup('slot'), ('entries', entries), ('counts', beside()), ('costs', beside())]


def refused(table, column):
    name = f'{table}_refused'
    return migrations.RunSQL(f'CREATE INDEX {name} ON {table} ({column}) WHERE {totals.REFUSED}')


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0014_tier_near'),
    ]

    operations = [
        CreatePartitioned('FreshStep', counted('start'), {'db_table': 'quotas_fresh_10s'}, 'start'),
        CreatePartitioned('FreshMinute', counted('start'), {'db_table': 'quotas_fresh_1m'}, 'start'),
        CreatePartitioned('PackedStep', packed(), {'db_table': 'quotas_packed_10s'}, 'slot'),
        CreatePartitioned('PackedMinute', packed(), {'db_table': 'quotas_packed_1m'}, 'slot'),
        *(of_tenant(table, 'tenant_number') for table in NEW),
        *(refused(table, 'start' if 'fresh' in table else 'slot') for table in NEW),
        migrations.RunSQL(rates.check(AFTER)),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel('UsageStep'),
                migrations.DeleteModel('UsageMinute'),
                migrations.CreateModel(
                    'UsageStep', counted('start', 'slot'), {'db_table': 'quotas_usage_10s', 'managed': False}
                ),
                migrations.CreateModel(
                    'UsageMinute', counted('start', 'slot'), {'db_table': 'quotas_usage_1m', 'managed': False}
                ),
            ],
            database_operations=[
                migrations.RunSQL(text.format(name=name, step=step, slice=span))
                for name, (step, span) in FINE.items()
                for text in (MOVE, VIEW)
            ],
        ),
    ]
