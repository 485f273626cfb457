"""The search for tenants, with a sample whose size is bounded however many tenants there are."""

from django.db import migrations

FOUND = """
CREATE OR REPLACE FUNCTION headroom_tenants_found(needle text, tag text, few integer) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
-- The numbers of the tenants whose search text contains the needle and that have the tag, where they are not empty.
-- One row with NULL: there are more than a few, and whoever asks finds the first ones sooner by walking along.
DECLARE
    grams text[]; wanted varchar[] := ARRAY[tag]; found bigint[]; is_common boolean; per_cent real;
BEGIN
    IF current_setting('headroom.tenant', true) IS DISTINCT FROM '*' THEN
        RETURN;
    END IF;
    -- The index of letters is slow for what most rows have, so a sample decides first: 1 in 50 pages, and of more than
    -- 100,000 tenants fewer, so that it never reads more than about 2,000 rows.
    SELECT least(2, 200000 / greatest(reltuples, 1)) INTO per_cent FROM pg_class
        WHERE oid = 'public.quotas_tenant_search'::regclass;
    IF tag = '' THEN
        SELECT count(*) > few * per_cent / 50 INTO is_common FROM quotas_tenant_search AS s
            TABLESAMPLE SYSTEM (per_cent) WHERE strpos(s.text, needle) > 0;
    ELSE
        SELECT count(*) > few * per_cent / 50 INTO is_common FROM quotas_tenant_search AS s
            TABLESAMPLE SYSTEM (per_cent) JOIN tenants_tenant ON number = s.tenant_id
            WHERE strpos(s.text, needle) > 0 AND tags @> wanted;
    END IF;
    IF is_common OR (char_length(needle) = 1 AND tag = '') THEN
        RETURN NEXT NULL;
        RETURN;
    END IF;
    grams := CASE WHEN char_length(needle) < 3 THEN ARRAY[needle] ELSE
        ARRAY(SELECT DISTINCT substr(needle, place, 3) FROM generate_series(1, char_length(needle) - 2) AS place) END;
    -- By EXECUTE, so that each search has a plan of its own: two letters and a whole name need different ones.
    IF tag = '' THEN
        EXECUTE 'SELECT array_agg(tenant_id) FROM (SELECT s.tenant_id FROM quotas_tenant_search s
            WHERE headroom_grams(s.text) @> $1 AND strpos(s.text, $2) > 0 LIMIT $3) x'
            INTO found USING grams, needle, few + 1;
    ELSE
        EXECUTE 'SELECT array_agg(number) FROM (SELECT number FROM tenants_tenant JOIN quotas_tenant_search s
            ON s.tenant_id = number WHERE tags @> $1 AND strpos(s.text, $2) > 0 LIMIT $3) x'
            INTO found USING wanted, needle, few + 1;
    END IF;
    IF cardinality(found) > few THEN
        RETURN NEXT NULL;
    ELSE
        RETURN QUERY SELECT unnest(found);
    END IF;
END $$;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0029_gap_shards'),
    ]

    # Going back needs nothing: the function has the same arguments and answers.
    operations = [migrations.RunSQL(FOUND, migrations.RunSQL.noop)]
