from django.db import migrations

from tenants.row_security import IS_TENANT, NUMBER, isolate, of_nobody, of_tenant

PARTITIONED = (
    'quotas_usage_10s', 'quotas_usage_1m', 'quotas_usage_1h', 'quotas_usage_1d', 'quotas_denial', 'quotas_arrival',
)

# The application owns no table, so the slices of those that are divided by time are made and dropped for it. A slice
# has row-level security and no policy: its rows are seen through the table it belongs to, or not at all.
SLICES = """
CREATE FUNCTION headroom_slice_check(parent text, slice text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF parent <> ALL (ARRAY[%s]) OR slice !~ ('^' || parent || '_[0-9]{8}t[0-9]{2}$') THEN
        RAISE EXCEPTION '%% is no slice of %%', slice, parent USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;

CREATE FUNCTION headroom_slice_make(
    parent text, slice text, lower timestamptz, upper timestamptz, fill_percent int
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM headroom_slice_check(parent, slice);
    EXECUTE format('CREATE TABLE %%I (LIKE %%I) WITH (fillfactor = %%s)', slice, parent, fill_percent);
    EXECUTE format('ALTER TABLE %%I ENABLE ROW LEVEL SECURITY', slice);
    -- Attached rather than created in place: that lets readers and writers of the table go on.
    EXECUTE format('ALTER TABLE %%I ATTACH PARTITION %%I FOR VALUES FROM (%%L) TO (%%L)', parent, slice, lower, upper);
END $$;

CREATE FUNCTION headroom_slice_drop(parent text, slice text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM headroom_slice_check(parent, slice);
    EXECUTE format('DROP TABLE %%I', slice);
END $$;

DO $$
DECLARE slice regclass;
BEGIN
    FOR slice IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent::regclass::text = ANY (ARRAY[%s]) LOOP
        EXECUTE format('ALTER TABLE %%s ENABLE ROW LEVEL SECURITY', slice);
    END LOOP;
END $$;
""" % ((', '.join(f"'{name}'" for name in PARTITIONED),) * 2)

NO_SLICES = """
DROP FUNCTION headroom_slice_drop;
DROP FUNCTION headroom_slice_make;
DROP FUNCTION headroom_slice_check;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0004_change'),
        ('tenants', '0004_isolation'),
    ]

    operations = [
        of_tenant('quotas_override', 'tenant_id'),
        # Of tiers and of everyone: what a tenant is held to, and nobody's secret.
        isolate('quotas_policy', f'tenant_id = {NUMBER} OR tenant_id IS NULL AND {IS_TENANT}'),
        isolate('quotas_limit', 'EXISTS (SELECT 1 FROM quotas_policy AS p WHERE p.id = quotas_limit.policy_id)'),
        *(of_tenant(name, 'tenant_number') for name in PARTITIONED),
        of_nobody('quotas_revision'),
        of_nobody('quotas_outbox'),
        of_nobody('quotas_auditevent'),
        # Who is held to a change that is tried out may know what that is.
        isolate('quotas_change', f"state = 'canary' AND {IS_TENANT}"),
        of_nobody('quotas_approval'),
        of_nobody('quotas_changeevent'),
        of_nobody('quotas_approvalevent'),
        of_nobody('quotas_endpointevent'),
        of_nobody('quotas_policyevent'),
        of_nobody('quotas_limitnameevent'),
        of_nobody('quotas_limitevent'),
        of_nobody('quotas_overrideevent'),
        migrations.RunSQL(SLICES, NO_SLICES),
    ]
