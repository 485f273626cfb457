from importlib import import_module

from django.db import migrations

from tenants.row_security import of_tenant

totals = import_module('quotas.migrations.0012_totals')
rates = import_module('quotas.migrations.0007_rates')
packed = import_module('quotas.migrations.0015_packed_usage')

WHOLE = {'TenantHour': 'quotas_tenant_1h', 'TenantDay': 'quotas_tenant_1d'}
SLICES = {'1h': '10 days', '1d': '100 days'}

# From what is there by endpoint.
FILL = """
DO $$
DECLARE first timestamptz;
BEGIN
    FOR first IN SELECT DISTINCT date_bin('{slice}', start, 'epoch') FROM quotas_usage_{name} LOOP
        PERFORM headroom_slice_make('quotas_tenant_{name}', to_char(first AT TIME ZONE 'UTC',
            '"quotas_tenant_{name}_"YYYYMMDD"t"HH24'), first, first + interval '{slice}', 70);
    END LOOP;
END $$;
INSERT INTO quotas_tenant_{name} (start, tenant_number, endpoint_number, outcome, limit_number, count, cost)
SELECT start, tenant_number, -1, outcome, limit_number, sum(count), sum(cost)
FROM quotas_usage_{name} GROUP BY start, tenant_number, outcome, limit_number;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0015_packed_usage'),
    ]

    operations = [
        *(totals.total(name, table) for name, table in WHOLE.items()),
        *(of_tenant(table, 'tenant_number') for table in WHOLE.values()),
        migrations.RunSQL(rates.check((*packed.AFTER, *WHOLE.values())), rates.check(packed.AFTER)),
        *(
            migrations.RunSQL(FILL.format(name=name, slice=span), migrations.RunSQL.noop)
            for name, span in SLICES.items()
        ),
    ]
