-- Written by `make schema`; see schema_file.py.
-- PostgreSQL 18
-- migration admin.0001_initial f4716989d9815b62
-- migration admin.0002_logentry_remove_auto_add 2c127e659a2236ed
-- migration admin.0003_logentry_add_action_flag_choices 02700a827190720e
-- migration api.0001_initial 7ceb4cd56c401d3f
-- migration api.0002_isolation 2c851f887aa28169
-- migration auth.0001_initial 845cff319606332f
-- migration auth.0002_alter_permission_name_max_length feaf97e0e8f7d148
-- migration auth.0003_alter_user_email_max_length 9d5657b4db9872dc
-- migration auth.0004_alter_user_username_opts 9538db342c9a9bec
-- migration auth.0005_alter_user_last_login_null 79f60a35dc000fdd
-- migration auth.0006_require_contenttypes_0002 00cb16e3405f14b6
-- migration auth.0007_alter_validators_add_error_messages 115db87dc327530f
-- migration auth.0008_alter_user_username_max_length 02857f65f7d64814
-- migration auth.0009_alter_user_last_name_max_length 19a89500e7f108a7
-- migration auth.0010_alter_group_name_max_length 0963ed6498ac0b3a
-- migration auth.0011_update_proxy_permissions 85a5dde708dc4b61
-- migration auth.0012_alter_user_first_name_max_length 6cefbc9f80903763
-- migration contenttypes.0001_initial 35ed8489a147e0b4
-- migration contenttypes.0002_remove_content_type_name 7d36494075750f0e
-- migration pghistory.0001_initial 962e93fac9c07ea8
-- migration pghistory.0002_aggregateevent 87d6dab2224912fe
-- migration pghistory.0003_auto_20201023_1636 e504b9fff19d5726
-- migration pghistory.0004_auto_20220906_1625 e56c9b8241ad6b33
-- migration pghistory.0005_events_middlewareevents fbd7e3d4898c8d3e
-- migration pghistory.0006_delete_aggregateevent 071f1fdacb5d72fc
-- migration pghistory.0007_auto_20250421_0444 f949446b99175374
-- migration quotas.0001_initial 29408e3f5b4a7158
-- migration quotas.0002_usage cab319086b53cd5a
-- migration quotas.0003_history e207c98317ff2546
-- migration quotas.0004_change e894c382bac497a1
-- migration quotas.0005_isolation c33b848c2732ae14
-- migration quotas.0006_calendar ab5f1984b9d2c669
-- migration quotas.0007_rates 6542687ee8332c00
-- migration quotas.0008_recommendation c1c1a0ac773b4750
-- migration quotas.0009_tier_use 3f51f2aae7aaf0db
-- migration quotas.0010_alerts 395a492ac8483eea
-- migration quotas.0011_quota_request cbdba45e1c6f30cd
-- migration quotas.0012_totals e30a4c26d0f6fc57
-- migration quotas.0013_recommendation_editor a25b650b470a1e60
-- migration quotas.0014_tier_near 0ba02fa6845613ce
-- migration quotas.0015_packed_usage da216c35b5614e6c
-- migration quotas.0016_tenant_wholes 33d19decdff90cc8
-- migration quotas.0017_identity 2c21b6e73a7670ae
-- migration quotas.0018_emergency 58c12b636556ef00
-- migration quotas.0019_task_slice 6711400521852a3d
-- migration quotas.0020_freeze ba56e27812f2bc0d
-- migration quotas.0021_document_task 035b299df880fa7d
-- migration quotas.0022_askers d5fed0c3e03cad8d
-- migration quotas.0023_key_use 2f32dfd64094e01c
-- migration quotas.0024_tenant_summary 55e567b7d1aebae5
-- migration quotas.0025_limit_need ad9b4841490c7f88
-- migration quotas.0026_change_trial df6eda206fb294b0
-- migration quotas.0027_chart_note c9ab2bebf1c94942
-- migration quotas.0028_lease b9808cf36a68ebf4
-- migration quotas.0029_gap_shards 1aaf9f8956a37b93
-- migration quotas.0030_search_sample 22afd7f7f1f53dc7
-- migration quotas.0031_sharing 21a9991e49957db7
-- migration quotas.0032_adaptive_reading 9e45745e428d9769
-- migration quotas.0033_endpoint_target 8d038834d30e1cd1
-- migration sessions.0001_initial 2aa438e2393ee513
-- migration tenants.0001_initial c4e1126111bcfc38
-- migration tenants.0002_access c7b14b1ee97414c9
-- migration tenants.0003_history eba28e0ef72dc722
-- migration tenants.0004_isolation bd33ae047b1cc197
-- migration tenants.0005_identity a82a2171f758d0a6
-- migration tenants.0006_keyring c3215d3827471bec
-- migration tenants.0007_tenant_object 325f5f36e893b019
-- migration tenants.0008_key_rotation b237358df176c739
-- migration tenants.0009_list_indexes d279567b264dcbb7
-- migration tenants.0010_tier_retired f1476acf4d49d927
-- migration tenants.0011_sharing d5648bfa7614aefd
SET LOCAL check_function_bodies = false;
SELECT pg_catalog.set_config('search_path', '', true);
CREATE FUNCTION public._pgh_attach_context() RETURNS uuid
    LANGUAGE plpgsql
    AS $$
                    DECLARE
                        _pgh_context_id UUID;
                        _pgh_context_metadata JSONB;
                    BEGIN
                        BEGIN
                            SELECT INTO _pgh_context_id
                                CURRENT_SETTING('pghistory.context_id');
                            SELECT INTO _pgh_context_metadata
                                CURRENT_SETTING('pghistory.context_metadata');
                            EXCEPTION WHEN OTHERS THEN
                        END;
                        IF _pgh_context_id IS NOT NULL AND _pgh_context_metadata IS NOT NULL THEN
                            INSERT INTO pghistory_context (id, metadata, created_at, updated_at)
                                VALUES (_pgh_context_id, _pgh_context_metadata, NOW(), NOW())
                                ON CONFLICT (id) DO UPDATE
                                    SET metadata = EXCLUDED.metadata,
                                        updated_at = EXCLUDED.updated_at
                                    WHERE pghistory_context.metadata != EXCLUDED.metadata;
                            RETURN _pgh_context_id;
                        ELSE
                            RETURN NULL;
                        END IF;
                    END;
                $$;
CREATE FUNCTION public._pgtrigger_should_ignore(trigger_name name) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$SELECT FALSE$$;
CREATE FUNCTION public.headroom_grams(line text) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT coalesce(array_agg(DISTINCT substr(line, place, size)), '{}')
    FROM generate_series(2, 3) AS size, generate_series(1, char_length(line) - size + 1) AS place
$$;
CREATE FUNCTION public.headroom_slice_check(parent text, slice text) RETURNS void
    LANGUAGE plpgsql
    AS $_$
BEGIN
    IF parent <> ALL (ARRAY['quotas_usage_1h', 'quotas_usage_1d', 'quotas_denial', 'quotas_arrival', 'quotas_seconds', 'quotas_rates_1h', 'quotas_rates_1d', 'quotas_latency_1h', 'quotas_total_10s', 'quotas_total_1m', 'quotas_total_1h', 'quotas_total_1d', 'quotas_fresh_10s', 'quotas_fresh_1m', 'quotas_packed_10s', 'quotas_packed_1m', 'quotas_tenant_1h', 'quotas_tenant_1d']) OR slice !~ ('^' || parent || '_[0-9]{8}t[0-9]{2}$') THEN
        RAISE EXCEPTION '% is no slice of %', slice, parent USING ERRCODE = 'insufficient_privilege';
    END IF;
END $_$;
CREATE FUNCTION public.headroom_slice_drop(parent text, slice text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    PERFORM headroom_slice_check(parent, slice);
    EXECUTE format('DROP TABLE %I', slice);
END $$;
CREATE FUNCTION public.headroom_slice_make(parent text, slice text, lower timestamp with time zone, upper timestamp with time zone, fill_percent integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    PERFORM headroom_slice_check(parent, slice);
    EXECUTE format('CREATE TABLE %I (LIKE %I) WITH (fillfactor = %s)', slice, parent, fill_percent);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', slice);
    -- Attached rather than created in place: that lets readers and writers of the table go on.
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, slice, lower, upper);
END $$;
CREATE FUNCTION public.headroom_tenant_rows() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO quotas_tenant_summary (tenant_id) SELECT number FROM fresh ON CONFLICT DO NOTHING;
    INSERT INTO quotas_tenant_search AS held (tenant_id, text)
        SELECT number, lower(concat_ws(E'
', name, label, array_to_string(tags || contacts, E'
'))) FROM fresh
        ON CONFLICT (tenant_id) DO UPDATE SET text = EXCLUDED.text WHERE held.text <> EXCLUDED.text;
    RETURN NULL;
END $$;
CREATE FUNCTION public.headroom_tenants_found(needle text, tag text, few integer) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $_$
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
END $_$;
CREATE FUNCTION public.pgtrigger_append_only_0d822() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_10c3b() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_20e07() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_2e93f() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_4c602() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_6288a() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_66dc7() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_6ef26() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_6efaa() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_723aa() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_7659e() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_79baf() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_8b4fa() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_ac45c() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_b7509() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_bd3f0() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_c089f() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_de626() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_e576a() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_f4fdc() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_f5f82() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_append_only_fd4bb() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_1794f() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_overrideevent" ("author", "cancelled_at", "cancelled_revision_id", "carry", "created_revision_id", "end", "endpoint_id", "id", "limits", "multiplier_denominator", "multiplier_numerator", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "start", "tenant_id") VALUES (OLD."author", OLD."cancelled_at", OLD."cancelled_revision_id", OLD."carry", OLD."created_revision_id", OLD."end", OLD."endpoint_id", OLD."id", OLD."limits", OLD."multiplier_denominator", OLD."multiplier_numerator", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."id", OLD."reason", OLD."start", OLD."tenant_id"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_26007() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_alerttargetevent" ("address", "alerts", "created", "id", "is_on", "kind", "label", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "quiet_from", "quiet_until", "timezone") VALUES (OLD."address", OLD."alerts", OLD."created", OLD."id", OLD."is_on", OLD."kind", OLD."label", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."id", OLD."quiet_from", OLD."quiet_until", OLD."timezone"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_27ae5() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_limitevent" ("adapt", "adopts_candidate", "algorithm", "candidate", "carry", "changed_revision_id", "id", "lease_ms", "mode", "name_id", "on_failure", "parameters", "past", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "policy_id", "subject", "unit") VALUES (OLD."adapt", OLD."adopts_candidate", OLD."algorithm", OLD."candidate", OLD."carry", OLD."changed_revision_id", OLD."id", OLD."lease_ms", OLD."mode", OLD."name_id", OLD."on_failure", OLD."parameters", OLD."past", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."id", OLD."policy_id", OLD."subject", OLD."unit"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_292e5() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_quotarequestevent" ("answer", "answer_author", "answer_reason", "answered_at", "author", "author_identity", "created", "id", "limit", "override_id", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "scope", "tenant_id", "until", "usage", "wanted") VALUES (OLD."answer", OLD."answer_author", OLD."answer_reason", OLD."answered_at", OLD."author", OLD."author_identity", OLD."created", OLD."id", OLD."limit", OLD."override_id", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."id", OLD."reason", OLD."scope", OLD."tenant_id", OLD."until", OLD."usage", OLD."wanted"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_3e4b0() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_apitokenevent" ("author", "created", "id", "issuer_id", "key_id", "label", "may_approve", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "revoked_at", "role", "scopes", "tenant_id") VALUES (OLD."author", OLD."created", OLD."id", OLD."issuer_id", OLD."key_id", OLD."label", OLD."may_approve", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."id", OLD."revoked_at", OLD."role", OLD."scopes", OLD."tenant_id"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_3fd8b() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_limitnameevent" ("name", "number", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id") VALUES (OLD."name", OLD."number", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."number"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_41920() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_alertsettingevent" ("is_on", "name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "threshold") VALUES (OLD."is_on", OLD."name", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."name", OLD."threshold"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_44b14() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_endpointtargetevent" ("endpoint_number", "measured_at", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "target_us") VALUES (OLD."endpoint_number", OLD."measured_at", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."endpoint_number", OLD."target_us"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_55689() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_policyevent" ("endpoint_id", "id", "name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "service", "tenant_id", "tier_id") VALUES (OLD."endpoint_id", OLD."id", OLD."name", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."id", OLD."service", OLD."tenant_id", OLD."tier_id"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_733dc() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_accountevent" ("date_joined", "email", "first_name", "id", "is_active", "is_staff", "is_superuser", "last_name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "username") VALUES (OLD."date_joined", OLD."email", OLD."first_name", OLD."id", OLD."is_active", OLD."is_staff", OLD."is_superuser", OLD."last_name", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."id", OLD."username"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_7c182() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_freezeevent" ("author", "author_identity", "created", "end", "id", "lifted_at", "lifted_author", "lifted_reason", "members", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "roles", "start") VALUES (OLD."author", OLD."author_identity", OLD."created", OLD."end", OLD."id", OLD."lifted_at", OLD."lifted_author", OLD."lifted_reason", OLD."members", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."id", OLD."reason", OLD."roles", OLD."start"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_a7533() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_recommendationevent" ("askers", "binds", "change_id", "created", "current", "decided_at", "decider", "decider_identity", "editor", "editor_identity", "ended_at", "endpoint", "enforced_at", "id", "kind", "limit", "measured_at", "observed", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "policy", "problem", "proposed", "ready_at", "reason", "shadow_at", "stage", "summary", "tenant", "tier", "trust") VALUES (OLD."askers", OLD."binds", OLD."change_id", OLD."created", OLD."current", OLD."decided_at", OLD."decider", OLD."decider_identity", OLD."editor", OLD."editor_identity", OLD."ended_at", OLD."endpoint", OLD."enforced_at", OLD."id", OLD."kind", OLD."limit", OLD."measured_at", OLD."observed", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."id", OLD."policy", OLD."problem", OLD."proposed", OLD."ready_at", OLD."reason", OLD."shadow_at", OLD."stage", OLD."summary", OLD."tenant", OLD."tier", OLD."trust"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_ae3d8() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_tierevent" ("created", "description", "label", "name", "number", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "priority", "retired") VALUES (OLD."created", OLD."description", OLD."label", OLD."name", OLD."number", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."number", OLD."priority", OLD."retired"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_c9c63() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_approvalevent" ("approver", "approver_identity", "at", "change_id", "id", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason") VALUES (OLD."approver", OLD."approver_identity", OLD."at", OLD."change_id", OLD."id", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."id", OLD."reason"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_dc7d9() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_changeevent" ("accepted", "action", "after", "at", "author", "author_identity", "auto_stop", "bar_share", "bar_tenant", "before", "carry", "created", "emergency", "end_author", "end_reason", "end_revision_id", "force", "grandfather", "grandfather_days", "id", "impact", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "problem", "reason", "revert_revision_id", "share", "staged", "start_revision_id", "starter", "state", "touched", "trial_ends", "trial_then") VALUES (OLD."accepted", OLD."action", OLD."after", OLD."at", OLD."author", OLD."author_identity", OLD."auto_stop", OLD."bar_share", OLD."bar_tenant", OLD."before", OLD."carry", OLD."created", OLD."emergency", OLD."end_author", OLD."end_reason", OLD."end_revision_id", OLD."force", OLD."grandfather", OLD."grandfather_days", OLD."id", OLD."impact", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."id", OLD."problem", OLD."reason", OLD."revert_revision_id", OLD."share", OLD."staged", OLD."start_revision_id", OLD."starter", OLD."state", OLD."touched", OLD."trial_ends", OLD."trial_then"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_dd0a8() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_calibrationsettingevent" ("author", "author_identity", "name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "value") VALUES (OLD."author", OLD."author_identity", OLD."name", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."name", OLD."value"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_e3c84() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_tenantevent" ("archived_at", "contacts", "created", "handovers", "label", "name", "number", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "priority", "suspended", "suspended_reason", "tags", "tier_id", "timezone") VALUES (OLD."archived_at", OLD."contacts", OLD."created", OLD."handovers", OLD."label", OLD."name", OLD."number", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."number", OLD."priority", OLD."suspended", OLD."suspended_reason", OLD."tags", OLD."tier_id", OLD."timezone"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_ebef7() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_emergencyevent" ("action", "at", "author", "author_identity", "id", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "review_reason", "reviewed_at", "reviewer", "reviewer_identity", "what") VALUES (OLD."action", OLD."at", OLD."author", OLD."author_identity", OLD."id", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."id", OLD."reason", OLD."review_reason", OLD."reviewed_at", OLD."reviewer", OLD."reviewer_identity", OLD."what"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_ed5c2() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_apikeyevent" ("created", "expires_at", "id", "key_id", "label", "lineage", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "revoked_at", "scopes", "successor_id", "tenant_id") VALUES (OLD."created", OLD."expires_at", OLD."id", OLD."key_id", OLD."label", OLD."lineage", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."id", OLD."revoked_at", OLD."scopes", OLD."successor_id", OLD."tenant_id"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_efc03() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_membershipevent" ("id", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "role", "tenant_id", "user_id") VALUES (OLD."id", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."id", OLD."role", OLD."tenant_id", OLD."user_id"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_delete_delete_fbed4() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_endpointevent" ("default_cost", "hints", "method", "name", "number", "path", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "priority", "retired") VALUES (OLD."default_cost", OLD."hints", OLD."method", OLD."name", OLD."number", OLD."path", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'delete', OLD."number", OLD."priority", OLD."retired"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_01476() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_alertsettingevent" ("is_on", "name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "threshold") VALUES (NEW."is_on", NEW."name", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."name", NEW."threshold"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_06afa() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_policyevent" ("endpoint_id", "id", "name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "service", "tenant_id", "tier_id") VALUES (NEW."endpoint_id", NEW."id", NEW."name", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."id", NEW."service", NEW."tenant_id", NEW."tier_id"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_0f00f() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_tenantevent" ("archived_at", "contacts", "created", "handovers", "label", "name", "number", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "priority", "suspended", "suspended_reason", "tags", "tier_id", "timezone") VALUES (NEW."archived_at", NEW."contacts", NEW."created", NEW."handovers", NEW."label", NEW."name", NEW."number", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."number", NEW."priority", NEW."suspended", NEW."suspended_reason", NEW."tags", NEW."tier_id", NEW."timezone"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_2eeaa() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_tierevent" ("created", "description", "label", "name", "number", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "priority", "retired") VALUES (NEW."created", NEW."description", NEW."label", NEW."name", NEW."number", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."number", NEW."priority", NEW."retired"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_4b5e1() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_limitevent" ("adapt", "adopts_candidate", "algorithm", "candidate", "carry", "changed_revision_id", "id", "lease_ms", "mode", "name_id", "on_failure", "parameters", "past", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "policy_id", "subject", "unit") VALUES (NEW."adapt", NEW."adopts_candidate", NEW."algorithm", NEW."candidate", NEW."carry", NEW."changed_revision_id", NEW."id", NEW."lease_ms", NEW."mode", NEW."name_id", NEW."on_failure", NEW."parameters", NEW."past", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."id", NEW."policy_id", NEW."subject", NEW."unit"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_4c390() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_changeevent" ("accepted", "action", "after", "at", "author", "author_identity", "auto_stop", "bar_share", "bar_tenant", "before", "carry", "created", "emergency", "end_author", "end_reason", "end_revision_id", "force", "grandfather", "grandfather_days", "id", "impact", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "problem", "reason", "revert_revision_id", "share", "staged", "start_revision_id", "starter", "state", "touched", "trial_ends", "trial_then") VALUES (NEW."accepted", NEW."action", NEW."after", NEW."at", NEW."author", NEW."author_identity", NEW."auto_stop", NEW."bar_share", NEW."bar_tenant", NEW."before", NEW."carry", NEW."created", NEW."emergency", NEW."end_author", NEW."end_reason", NEW."end_revision_id", NEW."force", NEW."grandfather", NEW."grandfather_days", NEW."id", NEW."impact", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."id", NEW."problem", NEW."reason", NEW."revert_revision_id", NEW."share", NEW."staged", NEW."start_revision_id", NEW."starter", NEW."state", NEW."touched", NEW."trial_ends", NEW."trial_then"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_5c32b() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_alerttargetevent" ("address", "alerts", "created", "id", "is_on", "kind", "label", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "quiet_from", "quiet_until", "timezone") VALUES (NEW."address", NEW."alerts", NEW."created", NEW."id", NEW."is_on", NEW."kind", NEW."label", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."id", NEW."quiet_from", NEW."quiet_until", NEW."timezone"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_60f00() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_approvalevent" ("approver", "approver_identity", "at", "change_id", "id", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason") VALUES (NEW."approver", NEW."approver_identity", NEW."at", NEW."change_id", NEW."id", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."id", NEW."reason"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_65f0e() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_membershipevent" ("id", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "role", "tenant_id", "user_id") VALUES (NEW."id", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."id", NEW."role", NEW."tenant_id", NEW."user_id"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_6bfea() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_calibrationsettingevent" ("author", "author_identity", "name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "value") VALUES (NEW."author", NEW."author_identity", NEW."name", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."name", NEW."value"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_75457() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_emergencyevent" ("action", "at", "author", "author_identity", "id", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "review_reason", "reviewed_at", "reviewer", "reviewer_identity", "what") VALUES (NEW."action", NEW."at", NEW."author", NEW."author_identity", NEW."id", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."id", NEW."reason", NEW."review_reason", NEW."reviewed_at", NEW."reviewer", NEW."reviewer_identity", NEW."what"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_84bb4() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_endpointevent" ("default_cost", "hints", "method", "name", "number", "path", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "priority", "retired") VALUES (NEW."default_cost", NEW."hints", NEW."method", NEW."name", NEW."number", NEW."path", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."number", NEW."priority", NEW."retired"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_91c78() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_overrideevent" ("author", "cancelled_at", "cancelled_revision_id", "carry", "created_revision_id", "end", "endpoint_id", "id", "limits", "multiplier_denominator", "multiplier_numerator", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "start", "tenant_id") VALUES (NEW."author", NEW."cancelled_at", NEW."cancelled_revision_id", NEW."carry", NEW."created_revision_id", NEW."end", NEW."endpoint_id", NEW."id", NEW."limits", NEW."multiplier_denominator", NEW."multiplier_numerator", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."id", NEW."reason", NEW."start", NEW."tenant_id"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_9ca29() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_limitnameevent" ("name", "number", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id") VALUES (NEW."name", NEW."number", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."number"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_b7e2f() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_apikeyevent" ("created", "expires_at", "id", "key_id", "label", "lineage", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "revoked_at", "scopes", "successor_id", "tenant_id") VALUES (NEW."created", NEW."expires_at", NEW."id", NEW."key_id", NEW."label", NEW."lineage", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."id", NEW."revoked_at", NEW."scopes", NEW."successor_id", NEW."tenant_id"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_b95ee() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_freezeevent" ("author", "author_identity", "created", "end", "id", "lifted_at", "lifted_author", "lifted_reason", "members", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "roles", "start") VALUES (NEW."author", NEW."author_identity", NEW."created", NEW."end", NEW."id", NEW."lifted_at", NEW."lifted_author", NEW."lifted_reason", NEW."members", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."id", NEW."reason", NEW."roles", NEW."start"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_c1ed3() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_quotarequestevent" ("answer", "answer_author", "answer_reason", "answered_at", "author", "author_identity", "created", "id", "limit", "override_id", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "scope", "tenant_id", "until", "usage", "wanted") VALUES (NEW."answer", NEW."answer_author", NEW."answer_reason", NEW."answered_at", NEW."author", NEW."author_identity", NEW."created", NEW."id", NEW."limit", NEW."override_id", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."id", NEW."reason", NEW."scope", NEW."tenant_id", NEW."until", NEW."usage", NEW."wanted"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_c6ee7() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_apitokenevent" ("author", "created", "id", "issuer_id", "key_id", "label", "may_approve", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "revoked_at", "role", "scopes", "tenant_id") VALUES (NEW."author", NEW."created", NEW."id", NEW."issuer_id", NEW."key_id", NEW."label", NEW."may_approve", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."id", NEW."revoked_at", NEW."role", NEW."scopes", NEW."tenant_id"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_e8c47() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_recommendationevent" ("askers", "binds", "change_id", "created", "current", "decided_at", "decider", "decider_identity", "editor", "editor_identity", "ended_at", "endpoint", "enforced_at", "id", "kind", "limit", "measured_at", "observed", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "policy", "problem", "proposed", "ready_at", "reason", "shadow_at", "stage", "summary", "tenant", "tier", "trust") VALUES (NEW."askers", NEW."binds", NEW."change_id", NEW."created", NEW."current", NEW."decided_at", NEW."decider", NEW."decider_identity", NEW."editor", NEW."editor_identity", NEW."ended_at", NEW."endpoint", NEW."enforced_at", NEW."id", NEW."kind", NEW."limit", NEW."measured_at", NEW."observed", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."id", NEW."policy", NEW."problem", NEW."proposed", NEW."ready_at", NEW."reason", NEW."shadow_at", NEW."stage", NEW."summary", NEW."tenant", NEW."tier", NEW."trust"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_e966a() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_endpointtargetevent" ("endpoint_number", "measured_at", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "target_us") VALUES (NEW."endpoint_number", NEW."measured_at", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."endpoint_number", NEW."target_us"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_insert_insert_f6bb6() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_accountevent" ("date_joined", "email", "first_name", "id", "is_active", "is_staff", "is_superuser", "last_name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "username") VALUES (NEW."date_joined", NEW."email", NEW."first_name", NEW."id", NEW."is_active", NEW."is_staff", NEW."is_superuser", NEW."last_name", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'insert', NEW."id", NEW."username"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_1d24b() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_endpointtargetevent" ("endpoint_number", "measured_at", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "target_us") VALUES (NEW."endpoint_number", NEW."measured_at", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."endpoint_number", NEW."target_us"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_246bc() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_apikeyevent" ("created", "expires_at", "id", "key_id", "label", "lineage", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "revoked_at", "scopes", "successor_id", "tenant_id") VALUES (NEW."created", NEW."expires_at", NEW."id", NEW."key_id", NEW."label", NEW."lineage", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."id", NEW."revoked_at", NEW."scopes", NEW."successor_id", NEW."tenant_id"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_2991e() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_emergencyevent" ("action", "at", "author", "author_identity", "id", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "review_reason", "reviewed_at", "reviewer", "reviewer_identity", "what") VALUES (NEW."action", NEW."at", NEW."author", NEW."author_identity", NEW."id", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."id", NEW."reason", NEW."review_reason", NEW."reviewed_at", NEW."reviewer", NEW."reviewer_identity", NEW."what"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_2d6b8() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_calibrationsettingevent" ("author", "author_identity", "name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "value") VALUES (NEW."author", NEW."author_identity", NEW."name", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."name", NEW."value"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_38ec7() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_membershipevent" ("id", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "role", "tenant_id", "user_id") VALUES (NEW."id", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."id", NEW."role", NEW."tenant_id", NEW."user_id"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_40f69() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_policyevent" ("endpoint_id", "id", "name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "service", "tenant_id", "tier_id") VALUES (NEW."endpoint_id", NEW."id", NEW."name", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."id", NEW."service", NEW."tenant_id", NEW."tier_id"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_5036f() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_overrideevent" ("author", "cancelled_at", "cancelled_revision_id", "carry", "created_revision_id", "end", "endpoint_id", "id", "limits", "multiplier_denominator", "multiplier_numerator", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "start", "tenant_id") VALUES (NEW."author", NEW."cancelled_at", NEW."cancelled_revision_id", NEW."carry", NEW."created_revision_id", NEW."end", NEW."endpoint_id", NEW."id", NEW."limits", NEW."multiplier_denominator", NEW."multiplier_numerator", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."id", NEW."reason", NEW."start", NEW."tenant_id"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_5abae() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_limitnameevent" ("name", "number", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id") VALUES (NEW."name", NEW."number", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."number"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_5b803() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_freezeevent" ("author", "author_identity", "created", "end", "id", "lifted_at", "lifted_author", "lifted_reason", "members", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "roles", "start") VALUES (NEW."author", NEW."author_identity", NEW."created", NEW."end", NEW."id", NEW."lifted_at", NEW."lifted_author", NEW."lifted_reason", NEW."members", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."id", NEW."reason", NEW."roles", NEW."start"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_64407() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_alerttargetevent" ("address", "alerts", "created", "id", "is_on", "kind", "label", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "quiet_from", "quiet_until", "timezone") VALUES (NEW."address", NEW."alerts", NEW."created", NEW."id", NEW."is_on", NEW."kind", NEW."label", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."id", NEW."quiet_from", NEW."quiet_until", NEW."timezone"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_764c1() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_tierevent" ("created", "description", "label", "name", "number", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "priority", "retired") VALUES (NEW."created", NEW."description", NEW."label", NEW."name", NEW."number", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."number", NEW."priority", NEW."retired"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_8ddba() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_tenantevent" ("archived_at", "contacts", "created", "handovers", "label", "name", "number", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "priority", "suspended", "suspended_reason", "tags", "tier_id", "timezone") VALUES (NEW."archived_at", NEW."contacts", NEW."created", NEW."handovers", NEW."label", NEW."name", NEW."number", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."number", NEW."priority", NEW."suspended", NEW."suspended_reason", NEW."tags", NEW."tier_id", NEW."timezone"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_aa26f() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_apitokenevent" ("author", "created", "id", "issuer_id", "key_id", "label", "may_approve", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "revoked_at", "role", "scopes", "tenant_id") VALUES (NEW."author", NEW."created", NEW."id", NEW."issuer_id", NEW."key_id", NEW."label", NEW."may_approve", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."id", NEW."revoked_at", NEW."role", NEW."scopes", NEW."tenant_id"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_b38e9() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_limitevent" ("adapt", "adopts_candidate", "algorithm", "candidate", "carry", "changed_revision_id", "id", "lease_ms", "mode", "name_id", "on_failure", "parameters", "past", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "policy_id", "subject", "unit") VALUES (NEW."adapt", NEW."adopts_candidate", NEW."algorithm", NEW."candidate", NEW."carry", NEW."changed_revision_id", NEW."id", NEW."lease_ms", NEW."mode", NEW."name_id", NEW."on_failure", NEW."parameters", NEW."past", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."id", NEW."policy_id", NEW."subject", NEW."unit"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_b6f55() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_quotarequestevent" ("answer", "answer_author", "answer_reason", "answered_at", "author", "author_identity", "created", "id", "limit", "override_id", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "scope", "tenant_id", "until", "usage", "wanted") VALUES (NEW."answer", NEW."answer_author", NEW."answer_reason", NEW."answered_at", NEW."author", NEW."author_identity", NEW."created", NEW."id", NEW."limit", NEW."override_id", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."id", NEW."reason", NEW."scope", NEW."tenant_id", NEW."until", NEW."usage", NEW."wanted"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_c1e45() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_endpointevent" ("default_cost", "hints", "method", "name", "number", "path", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "priority", "retired") VALUES (NEW."default_cost", NEW."hints", NEW."method", NEW."name", NEW."number", NEW."path", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."number", NEW."priority", NEW."retired"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_cf07d() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "tenants_accountevent" ("date_joined", "email", "first_name", "id", "is_active", "is_staff", "is_superuser", "last_name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "username") VALUES (NEW."date_joined", NEW."email", NEW."first_name", NEW."id", NEW."is_active", NEW."is_staff", NEW."is_superuser", NEW."last_name", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."id", NEW."username"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_da835() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_alertsettingevent" ("is_on", "name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "threshold") VALUES (NEW."is_on", NEW."name", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."name", NEW."threshold"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_f4cab() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_approvalevent" ("approver", "approver_identity", "at", "change_id", "id", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason") VALUES (NEW."approver", NEW."approver_identity", NEW."at", NEW."change_id", NEW."id", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."id", NEW."reason"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_f8cfc() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_recommendationevent" ("askers", "binds", "change_id", "created", "current", "decided_at", "decider", "decider_identity", "editor", "editor_identity", "ended_at", "endpoint", "enforced_at", "id", "kind", "limit", "measured_at", "observed", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "policy", "problem", "proposed", "ready_at", "reason", "shadow_at", "stage", "summary", "tenant", "tier", "trust") VALUES (NEW."askers", NEW."binds", NEW."change_id", NEW."created", NEW."current", NEW."decided_at", NEW."decider", NEW."decider_identity", NEW."editor", NEW."editor_identity", NEW."ended_at", NEW."endpoint", NEW."enforced_at", NEW."id", NEW."kind", NEW."limit", NEW."measured_at", NEW."observed", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."id", NEW."policy", NEW."problem", NEW."proposed", NEW."ready_at", NEW."reason", NEW."shadow_at", NEW."stage", NEW."summary", NEW."tenant", NEW."tier", NEW."trust"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.pgtrigger_update_update_faf19() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
                
                BEGIN
                    IF ("public"._pgtrigger_should_ignore(TG_NAME) IS TRUE) THEN
                        IF (TG_OP = 'DELETE') THEN
                            RETURN OLD;
                        ELSE
                            RETURN NEW;
                        END IF;
                    END IF;
                    INSERT INTO "quotas_changeevent" ("accepted", "action", "after", "at", "author", "author_identity", "auto_stop", "bar_share", "bar_tenant", "before", "carry", "created", "emergency", "end_author", "end_reason", "end_revision_id", "force", "grandfather", "grandfather_days", "id", "impact", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "problem", "reason", "revert_revision_id", "share", "staged", "start_revision_id", "starter", "state", "touched", "trial_ends", "trial_then") VALUES (NEW."accepted", NEW."action", NEW."after", NEW."at", NEW."author", NEW."author_identity", NEW."auto_stop", NEW."bar_share", NEW."bar_tenant", NEW."before", NEW."carry", NEW."created", NEW."emergency", NEW."end_author", NEW."end_reason", NEW."end_revision_id", NEW."force", NEW."grandfather", NEW."grandfather_days", NEW."id", NEW."impact", COALESCE(NULLIF(CURRENT_SETTING('pghistory.context_metadata', TRUE), ''), NULL)::JSONB, NOW(), 'update', NEW."id", NEW."problem", NEW."reason", NEW."revert_revision_id", NEW."share", NEW."staged", NEW."start_revision_id", NEW."starter", NEW."state", NEW."touched", NEW."trial_ends", NEW."trial_then"); RETURN NULL;
                END;
            $$;
CREATE FUNCTION public.quotas_revision_immutable() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.published_us IS NULL
       AND to_jsonb(NEW) - 'published_us' = to_jsonb(OLD) - 'published_us' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'revision % cannot be changed or deleted', OLD.number USING ERRCODE = 'restrict_violation';
END $$;
CREATE TABLE public.api_storedanswer (
    id bigint NOT NULL,
    author character varying(150) NOT NULL,
    key character varying(255) NOT NULL,
    request_hash character varying(64) NOT NULL,
    status smallint NOT NULL,
    headers jsonb NOT NULL,
    body jsonb NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    CONSTRAINT api_storedanswer_status_check CHECK ((status >= 0))
);
ALTER TABLE public.api_storedanswer ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.api_storedanswer_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_group (
    id integer NOT NULL,
    name character varying(150) NOT NULL
);
ALTER TABLE public.auth_group ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_group_permissions (
    id bigint NOT NULL,
    group_id integer NOT NULL,
    permission_id integer NOT NULL
);
ALTER TABLE public.auth_group_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_permission (
    id integer NOT NULL,
    name character varying(255) NOT NULL,
    content_type_id integer NOT NULL,
    codename character varying(100) NOT NULL
);
ALTER TABLE public.auth_permission ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_permission_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_user (
    id integer NOT NULL,
    password character varying(128) NOT NULL,
    last_login timestamp with time zone,
    is_superuser boolean NOT NULL,
    username character varying(150) NOT NULL,
    first_name character varying(150) NOT NULL,
    last_name character varying(150) NOT NULL,
    email character varying(254) NOT NULL,
    is_staff boolean NOT NULL,
    is_active boolean NOT NULL,
    date_joined timestamp with time zone NOT NULL
);
CREATE TABLE public.auth_user_groups (
    id bigint NOT NULL,
    user_id integer NOT NULL,
    group_id integer NOT NULL
);
ALTER TABLE public.auth_user_groups ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE public.auth_user ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_user_user_permissions (
    id bigint NOT NULL,
    user_id integer NOT NULL,
    permission_id integer NOT NULL
);
ALTER TABLE public.auth_user_user_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_user_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_admin_log (
    id integer NOT NULL,
    action_time timestamp with time zone NOT NULL,
    object_id text,
    object_repr character varying(200) NOT NULL,
    action_flag smallint NOT NULL,
    change_message text NOT NULL,
    content_type_id integer,
    user_id integer NOT NULL,
    CONSTRAINT django_admin_log_action_flag_check CHECK ((action_flag >= 0))
);
ALTER TABLE public.django_admin_log ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_admin_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_content_type (
    id integer NOT NULL,
    app_label character varying(100) NOT NULL,
    model character varying(100) NOT NULL
);
ALTER TABLE public.django_content_type ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_content_type_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_migrations (
    id bigint NOT NULL,
    app character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    applied timestamp with time zone NOT NULL
);
ALTER TABLE public.django_migrations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_migrations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_session (
    session_key character varying(40) NOT NULL,
    session_data text NOT NULL,
    expire_date timestamp with time zone NOT NULL
);
CREATE TABLE public.pghistory_context (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    metadata jsonb NOT NULL
);
CREATE TABLE public.quotas_adaptivereading (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    kind character varying(12) NOT NULL,
    policy character varying(63) NOT NULL,
    limit_name character varying(63) NOT NULL,
    endpoint_number integer NOT NULL,
    tenant_number bigint NOT NULL,
    value integer NOT NULL,
    "least" integer NOT NULL,
    most integer NOT NULL,
    reason character varying(200) NOT NULL
);
ALTER TABLE public.quotas_adaptivereading ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_adaptivereading_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_alertdelivery (
    id bigint NOT NULL,
    body jsonb NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    due_at timestamp with time zone NOT NULL,
    tries integer NOT NULL,
    sent_at timestamp with time zone,
    problem character varying(300) NOT NULL,
    is_given_up boolean NOT NULL,
    target_id bigint NOT NULL
);
ALTER TABLE public.quotas_alertdelivery ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_alertdelivery_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_alertsetting (
    name character varying(40) NOT NULL,
    threshold double precision NOT NULL,
    is_on boolean NOT NULL,
    CONSTRAINT alert_threshold CHECK ((threshold > (0.0)::double precision))
);
CREATE TABLE public.quotas_alertsettingevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    name character varying(40) NOT NULL,
    threshold double precision NOT NULL,
    is_on boolean NOT NULL,
    pgh_obj_id character varying(40) NOT NULL
);
ALTER TABLE public.quotas_alertsettingevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_alertsettingevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_alertstate (
    name character varying(40) NOT NULL,
    about character varying(200) NOT NULL,
    value double precision NOT NULL,
    text character varying(300) NOT NULL,
    since timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    told_at timestamp with time zone,
    resolved_at timestamp with time zone
);
CREATE TABLE public.quotas_alerttarget (
    id bigint NOT NULL,
    kind character varying(8) NOT NULL,
    address character varying(500) NOT NULL,
    label character varying(200) NOT NULL,
    alerts character varying(40)[] NOT NULL,
    quiet_from smallint,
    quiet_until smallint,
    timezone character varying(64) NOT NULL,
    secret bytea NOT NULL,
    is_on boolean NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    CONSTRAINT alert_target_address CHECK ((NOT ((address)::text = ''::text))),
    CONSTRAINT alert_target_kind CHECK (((kind)::text = ANY ((ARRAY['webhook'::character varying, 'email'::character varying])::text[]))),
    CONSTRAINT alert_target_quiet CHECK ((((quiet_from IS NULL) AND (quiet_until IS NULL)) OR ((quiet_from >= 0) AND (quiet_from IS NOT NULL) AND (quiet_from < 1440) AND (quiet_until >= 0) AND (quiet_until IS NOT NULL) AND (quiet_until < 1440))))
);
ALTER TABLE public.quotas_alerttarget ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_alerttarget_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_alerttargetevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    id bigint NOT NULL,
    kind character varying(8) NOT NULL,
    address character varying(500) NOT NULL,
    label character varying(200) NOT NULL,
    alerts character varying(40)[] NOT NULL,
    quiet_from smallint,
    quiet_until smallint,
    timezone character varying(64) NOT NULL,
    is_on boolean NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    pgh_obj_id bigint NOT NULL
);
ALTER TABLE public.quotas_alerttargetevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_alerttargetevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_approval (
    id bigint NOT NULL,
    approver character varying(150) NOT NULL,
    reason character varying(500) NOT NULL,
    at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    change_id bigint NOT NULL,
    approver_identity character varying(80) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT approval_approver_and_reason CHECK (((NOT ((approver)::text = ''::text)) AND (NOT ((reason)::text = ''::text))))
);
ALTER TABLE public.quotas_approval ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_approval_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_approvalevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    id bigint NOT NULL,
    approver character varying(150) NOT NULL,
    reason character varying(500) NOT NULL,
    at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    pgh_obj_id bigint NOT NULL,
    change_id bigint NOT NULL,
    approver_identity character varying(80) DEFAULT ''::character varying NOT NULL
);
ALTER TABLE public.quotas_approvalevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_approvalevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_arrival (
    at timestamp with time zone NOT NULL,
    subject bigint NOT NULL,
    cost bigint NOT NULL,
    tenant_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    allowed boolean NOT NULL
)
PARTITION BY RANGE (at);
CREATE TABLE public.quotas_auditevent (
    id bigint NOT NULL,
    kind character varying(40) NOT NULL,
    detail jsonb NOT NULL,
    at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    CONSTRAINT audit_event_kind CHECK ((NOT ((kind)::text = ''::text)))
);
ALTER TABLE public.quotas_auditevent ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_auditevent_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_calendar (
    shard integer NOT NULL,
    tenant_number integer NOT NULL,
    scope character varying(128) NOT NULL,
    subject bytea NOT NULL,
    limit_number integer NOT NULL,
    generation integer NOT NULL,
    period_start timestamp with time zone NOT NULL,
    used bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    drained_at timestamp with time zone NOT NULL
);
CREATE TABLE public.quotas_calibrationsetting (
    name character varying(40) NOT NULL,
    value double precision NOT NULL,
    author character varying(150) DEFAULT ''::character varying NOT NULL,
    author_identity character varying(80) DEFAULT ''::character varying NOT NULL
);
CREATE TABLE public.quotas_calibrationsettingevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    name character varying(40) NOT NULL,
    value double precision NOT NULL,
    pgh_obj_id character varying(40) NOT NULL,
    author character varying(150) DEFAULT ''::character varying NOT NULL,
    author_identity character varying(80) DEFAULT ''::character varying NOT NULL
);
ALTER TABLE public.quotas_calibrationsettingevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_calibrationsettingevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_change (
    id bigint NOT NULL,
    action character varying(40) NOT NULL,
    author character varying(150) NOT NULL,
    reason character varying(500) NOT NULL,
    carry character varying(12) NOT NULL,
    touched character varying(140)[] NOT NULL,
    before jsonb NOT NULL,
    after jsonb NOT NULL,
    impact jsonb NOT NULL,
    state character varying(10) NOT NULL,
    at timestamp with time zone,
    share integer,
    force boolean NOT NULL,
    grandfather character varying(63)[] NOT NULL,
    staged jsonb,
    starter character varying(150) NOT NULL,
    emergency boolean NOT NULL,
    end_author character varying(150) NOT NULL,
    end_reason character varying(500) NOT NULL,
    problem text NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    end_revision_id bigint,
    start_revision_id bigint,
    author_identity character varying(80) DEFAULT ''::character varying NOT NULL,
    accepted character varying(63)[] DEFAULT '{}'::character varying(63)[] NOT NULL,
    auto_stop boolean DEFAULT true NOT NULL,
    bar_share double precision DEFAULT 0.01 NOT NULL,
    bar_tenant double precision DEFAULT 0.05 NOT NULL,
    grandfather_days integer,
    revert_revision_id bigint,
    trial_ends timestamp with time zone,
    trial_then character varying(8) DEFAULT 'ask'::character varying NOT NULL,
    CONSTRAINT change_after CHECK ((jsonb_typeof(after) = 'object'::text)),
    CONSTRAINT change_author_and_reason CHECK (((NOT ((author)::text = ''::text)) AND (NOT ((reason)::text = ''::text)))),
    CONSTRAINT change_bars CHECK (((bar_share > (0.0)::double precision) AND (bar_share <= (1.0)::double precision) AND (bar_tenant > (0.0)::double precision) AND (bar_tenant <= (1.0)::double precision))),
    CONSTRAINT change_before CHECK ((jsonb_typeof(before) = 'object'::text)),
    CONSTRAINT change_canary_share CHECK (((NOT ((state)::text = 'canary'::text)) OR ((share IS NOT NULL) AND (start_revision_id IS NOT NULL)))),
    CONSTRAINT change_carry CHECK (((carry)::text = ANY ((ARRAY['keep'::character varying, 'proportional'::character varying, 'reset'::character varying])::text[]))),
    CONSTRAINT change_end_author_and_reason CHECK (((NOT ((state)::text = ANY ((ARRAY['promoted'::character varying, 'dropped'::character varying, 'reverted'::character varying])::text[]))) OR ((NOT ((end_author)::text = ''::text)) AND (NOT ((end_reason)::text = ''::text))))),
    CONSTRAINT change_grandfather_days CHECK (((grandfather_days IS NULL) OR (grandfather_days > 0))),
    CONSTRAINT change_reverted_by CHECK (((NOT ((state)::text = 'reverted'::text)) OR (revert_revision_id IS NOT NULL))),
    CONSTRAINT change_scheduled_at CHECK (((NOT ((state)::text = 'scheduled'::text)) OR (at IS NOT NULL))),
    CONSTRAINT change_share_range CHECK (((share IS NULL) OR ((share > 0) AND (share < 1000)))),
    CONSTRAINT change_staged CHECK ((jsonb_typeof(staged) = 'object'::text)),
    CONSTRAINT change_state CHECK (((state)::text = ANY ((ARRAY['pending'::character varying, 'shadow'::character varying, 'scheduled'::character varying, 'canary'::character varying, 'blocked'::character varying, 'promoted'::character varying, 'dropped'::character varying, 'reverted'::character varying])::text[]))),
    CONSTRAINT change_touches_something CHECK ((
CASE
    WHEN (touched IS NULL) THEN NULL::integer
    ELSE COALESCE(array_length(touched, 1), 0)
END > 0)),
    CONSTRAINT change_trial_then CHECK (((trial_then)::text = ANY ((ARRAY['ask'::character varying, 'promote'::character varying, 'end'::character varying])::text[])))
);
ALTER TABLE public.quotas_change ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_change_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_changeevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    id bigint NOT NULL,
    action character varying(40) NOT NULL,
    author character varying(150) NOT NULL,
    reason character varying(500) NOT NULL,
    carry character varying(12) NOT NULL,
    touched character varying(140)[] NOT NULL,
    before jsonb NOT NULL,
    after jsonb NOT NULL,
    impact jsonb NOT NULL,
    state character varying(10) NOT NULL,
    at timestamp with time zone,
    share integer,
    force boolean NOT NULL,
    grandfather character varying(63)[] NOT NULL,
    staged jsonb,
    starter character varying(150) NOT NULL,
    emergency boolean NOT NULL,
    end_author character varying(150) NOT NULL,
    end_reason character varying(500) NOT NULL,
    problem text NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    end_revision_id bigint,
    pgh_obj_id bigint NOT NULL,
    start_revision_id bigint,
    author_identity character varying(80) DEFAULT ''::character varying NOT NULL,
    accepted character varying(63)[] DEFAULT '{}'::character varying(63)[] NOT NULL,
    auto_stop boolean DEFAULT true NOT NULL,
    bar_share double precision DEFAULT 0.01 NOT NULL,
    bar_tenant double precision DEFAULT 0.05 NOT NULL,
    grandfather_days integer,
    revert_revision_id bigint,
    trial_ends timestamp with time zone,
    trial_then character varying(8) DEFAULT 'ask'::character varying NOT NULL
);
ALTER TABLE public.quotas_changeevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_changeevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_chart_note (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    text character varying(120) NOT NULL,
    author character varying(150) NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    tenant_id bigint,
    CONSTRAINT chart_note_text_and_author CHECK (((NOT ((text)::text = ''::text)) AND (NOT ((author)::text = ''::text))))
);
ALTER TABLE public.quotas_chart_note ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_chart_note_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_delivery (
    task_id character varying(64) NOT NULL,
    job character varying(100) NOT NULL,
    times integer NOT NULL,
    at timestamp with time zone NOT NULL,
    is_set_aside boolean NOT NULL
);
CREATE TABLE public.quotas_denial (
    at timestamp with time zone NOT NULL,
    digest bigint NOT NULL,
    tenant_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    limit_number integer NOT NULL,
    reason character varying(32) NOT NULL,
    cost bigint NOT NULL,
    retry_us bigint NOT NULL,
    revision bigint NOT NULL,
    subject bytea NOT NULL
)
PARTITION BY RANGE (at);
CREATE TABLE public.quotas_drainbatch (
    id uuid NOT NULL,
    shard integer NOT NULL,
    drained_at timestamp with time zone NOT NULL,
    run_id character varying(40) NOT NULL,
    rows integer NOT NULL
);
CREATE TABLE public.quotas_drainstate (
    id smallint NOT NULL,
    drained_at timestamp with time zone NOT NULL,
    run_id character varying(40) NOT NULL,
    node character varying(255) DEFAULT ''::character varying NOT NULL,
    owners jsonb DEFAULT '[]'::jsonb NOT NULL,
    CONSTRAINT one_drain_state CHECK ((id = 1))
);
CREATE TABLE public.quotas_emergency (
    id bigint NOT NULL,
    action character varying(40) NOT NULL,
    what character varying(200) NOT NULL,
    author character varying(150) NOT NULL,
    author_identity character varying(80) NOT NULL,
    reason character varying(500) NOT NULL,
    at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    reviewer character varying(150) NOT NULL,
    reviewer_identity character varying(80) NOT NULL,
    review_reason character varying(500) NOT NULL,
    reviewed_at timestamp with time zone,
    CONSTRAINT emergency_author_and_reason CHECK (((NOT ((author)::text = ''::text)) AND (NOT ((reason)::text = ''::text)))),
    CONSTRAINT emergency_reviewed_by_somebody CHECK ((((reviewed_at IS NULL) AND ((reviewer)::text = ''::text)) OR ((reviewed_at IS NOT NULL) AND (NOT ((reviewer)::text = ''::text)))))
);
ALTER TABLE public.quotas_emergency ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_emergency_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_emergencyevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    id bigint NOT NULL,
    action character varying(40) NOT NULL,
    what character varying(200) NOT NULL,
    author character varying(150) NOT NULL,
    author_identity character varying(80) NOT NULL,
    reason character varying(500) NOT NULL,
    at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    reviewer character varying(150) NOT NULL,
    reviewer_identity character varying(80) NOT NULL,
    review_reason character varying(500) NOT NULL,
    reviewed_at timestamp with time zone,
    pgh_obj_id bigint NOT NULL
);
ALTER TABLE public.quotas_emergencyevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_emergencyevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_endpoint (
    number integer NOT NULL,
    name character varying(128) NOT NULL,
    method character varying(7) NOT NULL,
    path character varying(512) NOT NULL,
    default_cost bigint NOT NULL,
    hints jsonb NOT NULL,
    retired boolean NOT NULL,
    priority character varying(9) DEFAULT 'normal'::character varying NOT NULL,
    CONSTRAINT endpoint_default_cost CHECK (((default_cost >= 1) AND (default_cost <= 1000000000))),
    CONSTRAINT endpoint_hints CHECK ((jsonb_typeof(hints) = 'object'::text)),
    CONSTRAINT endpoint_method CHECK (((method)::text = ANY ((ARRAY['GET'::character varying, 'HEAD'::character varying, 'POST'::character varying, 'PUT'::character varying, 'PATCH'::character varying, 'DELETE'::character varying, 'OPTIONS'::character varying, '*'::character varying])::text[]))),
    CONSTRAINT endpoint_name CHECK (((name)::text ~ '^([a-z0-9][a-z0-9_.-]*:[a-z0-9][a-z0-9_.-]*)$'::text)),
    CONSTRAINT endpoint_number CHECK (((number > 0) AND (number < 46656))),
    CONSTRAINT endpoint_path CHECK ((((path)::text = ''::text) OR ((path)::text ~~ '/%'::text))),
    CONSTRAINT endpoint_priority CHECK (((priority)::text = ANY ((ARRAY['critical'::character varying, 'high'::character varying, 'normal'::character varying, 'sheddable'::character varying])::text[])))
);
CREATE TABLE public.quotas_endpointevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    number integer NOT NULL,
    name character varying(128) NOT NULL,
    method character varying(7) NOT NULL,
    path character varying(512) NOT NULL,
    default_cost bigint NOT NULL,
    hints jsonb NOT NULL,
    retired boolean NOT NULL,
    pgh_obj_id integer NOT NULL,
    priority character varying(9) DEFAULT 'normal'::character varying NOT NULL
);
ALTER TABLE public.quotas_endpointevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_endpointevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_endpointtarget (
    endpoint_number integer NOT NULL,
    target_us bigint NOT NULL,
    measured_at timestamp with time zone NOT NULL,
    CONSTRAINT endpoint_target_us CHECK ((target_us > 0))
);
CREATE TABLE public.quotas_endpointtargetevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    target_us bigint NOT NULL,
    measured_at timestamp with time zone NOT NULL,
    endpoint_number integer NOT NULL,
    pgh_obj_id integer NOT NULL
);
ALTER TABLE public.quotas_endpointtargetevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_endpointtargetevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_foldstate (
    name character varying(32) NOT NULL,
    "position" bigint NOT NULL,
    until timestamp with time zone NOT NULL,
    rest bytea NOT NULL
);
CREATE TABLE public.quotas_freeze (
    id bigint NOT NULL,
    start timestamp with time zone NOT NULL,
    "end" timestamp with time zone NOT NULL,
    reason character varying(500) NOT NULL,
    roles character varying(8)[] NOT NULL,
    members bigint[] NOT NULL,
    author character varying(150) NOT NULL,
    author_identity character varying(80) NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    lifted_at timestamp with time zone,
    lifted_author character varying(150) NOT NULL,
    lifted_reason character varying(500) NOT NULL,
    CONSTRAINT freeze_author_and_reason CHECK (((NOT ((author)::text = ''::text)) AND (NOT ((reason)::text = ''::text)))),
    CONSTRAINT freeze_ends_after_start CHECK (("end" > start)),
    CONSTRAINT freeze_lifted_with_reason CHECK (((lifted_at IS NULL) OR ((NOT ((lifted_author)::text = ''::text)) AND (NOT ((lifted_reason)::text = ''::text)))))
);
ALTER TABLE public.quotas_freeze ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_freeze_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_freezeevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    id bigint NOT NULL,
    start timestamp with time zone NOT NULL,
    "end" timestamp with time zone NOT NULL,
    reason character varying(500) NOT NULL,
    roles character varying(8)[] NOT NULL,
    members bigint[] NOT NULL,
    author character varying(150) NOT NULL,
    author_identity character varying(80) NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    lifted_at timestamp with time zone,
    lifted_author character varying(150) NOT NULL,
    lifted_reason character varying(500) NOT NULL,
    pgh_obj_id bigint NOT NULL
);
ALTER TABLE public.quotas_freezeevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_freezeevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_fresh_10s (
    start timestamp with time zone NOT NULL,
    tenant_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    limit_number integer NOT NULL,
    outcome character varying(1) NOT NULL,
    count bigint NOT NULL,
    cost bigint NOT NULL
)
PARTITION BY RANGE (start);
CREATE TABLE public.quotas_fresh_1m (
    start timestamp with time zone NOT NULL,
    tenant_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    limit_number integer NOT NULL,
    outcome character varying(1) NOT NULL,
    count bigint NOT NULL,
    cost bigint NOT NULL
)
PARTITION BY RANGE (start);
CREATE TABLE public.quotas_gaprecord (
    id bigint NOT NULL,
    start timestamp with time zone NOT NULL,
    "end" timestamp with time zone NOT NULL,
    reason character varying(200) NOT NULL,
    shards integer[],
    CONSTRAINT gap_ends_after_start CHECK (("end" >= start))
);
ALTER TABLE public.quotas_gaprecord ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_gaprecord_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_heartbeat (
    name character varying(64) NOT NULL,
    at timestamp with time zone NOT NULL,
    detail character varying(200) NOT NULL
);
CREATE TABLE public.quotas_jobslot (
    job character varying(100) NOT NULL,
    slot bigint NOT NULL,
    task_id character varying(64) NOT NULL,
    is_done boolean NOT NULL,
    at timestamp with time zone NOT NULL
);
CREATE TABLE public.quotas_keyuse (
    key_id character varying(32) NOT NULL,
    day date NOT NULL,
    tenant_number integer NOT NULL,
    requests bigint NOT NULL,
    last_used timestamp with time zone NOT NULL
);
CREATE TABLE public.quotas_latency_1h (
    start timestamp with time zone NOT NULL,
    answers bigint NOT NULL,
    errors bigint NOT NULL,
    total_us bigint NOT NULL,
    seconds integer NOT NULL,
    load smallint NOT NULL,
    endpoint_number integer NOT NULL,
    latency bytea NOT NULL
)
PARTITION BY RANGE (start);
CREATE TABLE public.quotas_limit (
    id bigint NOT NULL,
    algorithm character varying(32) NOT NULL,
    parameters jsonb NOT NULL,
    subject character varying(200) NOT NULL,
    unit character varying(8) NOT NULL,
    mode character varying(8) NOT NULL,
    on_failure character varying(8) NOT NULL,
    carry character varying(12) NOT NULL,
    past jsonb NOT NULL,
    candidate jsonb,
    adopts_candidate boolean NOT NULL,
    name_id integer NOT NULL,
    policy_id bigint NOT NULL,
    changed_revision_id bigint NOT NULL,
    lease_ms smallint,
    adapt jsonb,
    CONSTRAINT limit_adapt CHECK ((jsonb_typeof(adapt) = 'object'::text)),
    CONSTRAINT limit_algorithm CHECK (((algorithm)::text = ANY ((ARRAY['token_bucket'::character varying, 'gcra'::character varying, 'leaky_bucket'::character varying, 'fixed_window'::character varying, 'sliding_log'::character varying, 'sliding_counter'::character varying, 'concurrency'::character varying, 'calendar_quota'::character varying, 'pool'::character varying, 'borrowing'::character varying, 'adaptive_concurrency'::character varying])::text[]))),
    CONSTRAINT limit_candidate CHECK ((jsonb_typeof(candidate) = 'object'::text)),
    CONSTRAINT limit_carry CHECK (((carry)::text = ANY ((ARRAY['keep'::character varying, 'proportional'::character varying, 'reset'::character varying])::text[]))),
    CONSTRAINT limit_lease CHECK (((lease_ms IS NULL) OR (lease_ms = 0) OR ((lease_ms >= 10) AND (lease_ms <= 1000)))),
    CONSTRAINT limit_mode CHECK (((mode)::text = ANY ((ARRAY['enforce'::character varying, 'shadow'::character varying, 'off'::character varying])::text[]))),
    CONSTRAINT limit_on_failure CHECK (((on_failure)::text = ANY ((ARRAY['open'::character varying, 'closed'::character varying, 'local'::character varying])::text[]))),
    CONSTRAINT limit_parameters CHECK ((jsonb_typeof(parameters) = 'object'::text)),
    CONSTRAINT limit_past CHECK ((jsonb_typeof(past) = 'array'::text)),
    CONSTRAINT limit_past_length CHECK ((jsonb_array_length(past) <= 8)),
    CONSTRAINT limit_subject CHECK ((NOT ((subject)::text = ''::text))),
    CONSTRAINT limit_unit CHECK (((unit)::text = ANY ((ARRAY['requests'::character varying, 'cost'::character varying])::text[])))
);
ALTER TABLE public.quotas_limit ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_limit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_limitevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    id bigint NOT NULL,
    algorithm character varying(32) NOT NULL,
    parameters jsonb NOT NULL,
    subject character varying(200) NOT NULL,
    unit character varying(8) NOT NULL,
    mode character varying(8) NOT NULL,
    on_failure character varying(8) NOT NULL,
    carry character varying(12) NOT NULL,
    past jsonb NOT NULL,
    candidate jsonb,
    adopts_candidate boolean NOT NULL,
    changed_revision_id bigint NOT NULL,
    name_id integer NOT NULL,
    pgh_obj_id bigint NOT NULL,
    policy_id bigint NOT NULL,
    lease_ms smallint,
    adapt jsonb
);
ALTER TABLE public.quotas_limitevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_limitevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_limitname (
    number integer NOT NULL,
    name character varying(80) NOT NULL,
    CONSTRAINT limit_name CHECK (((name)::text ~ '^([a-z0-9][a-z0-9_.-]{0,62}(~candidate)?)$'::text)),
    CONSTRAINT limit_name_number CHECK (((number > 0) AND (number < 65536)))
);
CREATE TABLE public.quotas_limitnameevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    number integer NOT NULL,
    name character varying(80) NOT NULL,
    pgh_obj_id integer NOT NULL
);
ALTER TABLE public.quotas_limitnameevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_limitnameevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_limitneed (
    id bigint NOT NULL,
    policy character varying(63) NOT NULL,
    "limit" character varying(80) NOT NULL,
    tier character varying(63) NOT NULL,
    tenant character varying(63) NOT NULL,
    endpoint character varying(128) NOT NULL,
    needed jsonb,
    tenants jsonb NOT NULL,
    measured_at timestamp with time zone NOT NULL,
    CONSTRAINT limit_need_needed CHECK ((jsonb_typeof(needed) = 'object'::text)),
    CONSTRAINT limit_need_tenants CHECK ((jsonb_typeof(tenants) = 'object'::text))
);
ALTER TABLE public.quotas_limitneed ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_limitneed_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_outbox (
    id bigint NOT NULL,
    kind character varying(16) NOT NULL,
    touched character varying(140)[] NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    revision_id bigint,
    CONSTRAINT outbox_kind CHECK (((((kind)::text = 'revision'::text) AND (revision_id IS NOT NULL)) OR (((kind)::text = 'api_keys'::text) AND (revision_id IS NULL))))
);
ALTER TABLE public.quotas_outbox ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_override (
    id bigint NOT NULL,
    start timestamp with time zone NOT NULL,
    "end" timestamp with time zone,
    limits jsonb NOT NULL,
    multiplier_numerator integer,
    multiplier_denominator integer,
    carry character varying(12) NOT NULL,
    reason character varying(500) NOT NULL,
    author character varying(150) NOT NULL,
    cancelled_at timestamp with time zone,
    endpoint_id integer,
    tenant_id bigint NOT NULL,
    cancelled_revision_id bigint,
    created_revision_id bigint NOT NULL,
    CONSTRAINT override_cancelled_by_a_revision CHECK ((((cancelled_at IS NULL) AND (cancelled_revision_id IS NULL)) OR ((cancelled_at IS NOT NULL) AND (cancelled_revision_id IS NOT NULL)))),
    CONSTRAINT override_carry CHECK (((carry)::text = ANY ((ARRAY['keep'::character varying, 'proportional'::character varying, 'reset'::character varying])::text[]))),
    CONSTRAINT override_ends_after_start CHECK ((("end" IS NULL) OR ("end" > start))),
    CONSTRAINT override_limits CHECK ((jsonb_typeof(limits) = 'object'::text)),
    CONSTRAINT override_limits_or_multiplier CHECK ((((multiplier_denominator IS NULL) AND (multiplier_numerator IS NULL) AND (NOT (limits = '{}'::jsonb))) OR ((limits = '{}'::jsonb) AND (multiplier_denominator IS NOT NULL) AND ((multiplier_denominator >= 1) AND (multiplier_denominator <= 1000000)) AND (multiplier_numerator IS NOT NULL) AND ((multiplier_numerator >= 1) AND (multiplier_numerator <= 1000000))))),
    CONSTRAINT override_reason_and_author CHECK (((NOT ((reason)::text = ''::text)) AND (NOT ((author)::text = ''::text))))
);
ALTER TABLE public.quotas_override ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_override_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_overrideevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    id bigint NOT NULL,
    start timestamp with time zone NOT NULL,
    "end" timestamp with time zone,
    limits jsonb NOT NULL,
    multiplier_numerator integer,
    multiplier_denominator integer,
    carry character varying(12) NOT NULL,
    reason character varying(500) NOT NULL,
    author character varying(150) NOT NULL,
    cancelled_at timestamp with time zone,
    cancelled_revision_id bigint,
    created_revision_id bigint NOT NULL,
    endpoint_id integer,
    pgh_obj_id bigint NOT NULL,
    tenant_id bigint NOT NULL
);
ALTER TABLE public.quotas_overrideevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_overrideevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_packed_10s (
    slot timestamp with time zone NOT NULL,
    tenant_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    limit_number integer NOT NULL,
    outcome character varying(1) NOT NULL,
    entries integer[] NOT NULL,
    counts bigint[],
    costs bigint[]
)
PARTITION BY RANGE (slot);
CREATE TABLE public.quotas_packed_1m (
    slot timestamp with time zone NOT NULL,
    tenant_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    limit_number integer NOT NULL,
    outcome character varying(1) NOT NULL,
    entries integer[] NOT NULL,
    counts bigint[],
    costs bigint[]
)
PARTITION BY RANGE (slot);
CREATE TABLE public.quotas_policy (
    id bigint NOT NULL,
    name character varying(63) NOT NULL,
    service character varying(126) NOT NULL,
    endpoint_id integer,
    tenant_id bigint,
    tier_id bigint,
    CONSTRAINT policy_endpoint_or_service CHECK (((endpoint_id IS NULL) OR ((service)::text = ''::text))),
    CONSTRAINT policy_name CHECK (((name)::text ~ '^([a-z0-9][a-z0-9_.-]{0,62})$'::text)),
    CONSTRAINT policy_service CHECK (((service)::text ~ '^([a-z0-9][a-z0-9_.-]*|)$'::text)),
    CONSTRAINT policy_service_is_global CHECK ((((service)::text = ''::text) OR ((tenant_id IS NULL) AND (tier_id IS NULL)))),
    CONSTRAINT policy_tier_or_tenant CHECK (((tier_id IS NULL) OR (tenant_id IS NULL)))
);
ALTER TABLE public.quotas_policy ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_policy_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_policyevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    id bigint NOT NULL,
    name character varying(63) NOT NULL,
    service character varying(126) NOT NULL,
    endpoint_id integer,
    pgh_obj_id bigint NOT NULL,
    tenant_id bigint,
    tier_id bigint
);
ALTER TABLE public.quotas_policyevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_policyevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_quotarequest (
    id bigint NOT NULL,
    scope character varying(128) NOT NULL,
    "limit" character varying(80) NOT NULL,
    wanted bigint NOT NULL,
    until timestamp with time zone,
    reason character varying(500) NOT NULL,
    usage jsonb NOT NULL,
    author character varying(150) NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    answer character varying(8) NOT NULL,
    answer_author character varying(150) NOT NULL,
    answer_reason character varying(500) NOT NULL,
    answered_at timestamp with time zone,
    override_id bigint,
    tenant_id bigint NOT NULL,
    author_identity character varying(80) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT quota_request_answer CHECK (((answer)::text = ANY ((ARRAY['waiting'::character varying, 'granted'::character varying, 'declined'::character varying])::text[]))),
    CONSTRAINT quota_request_answered_with_reason CHECK ((((answer)::text = 'waiting'::text) OR ((NOT ((answer_author)::text = ''::text)) AND (NOT ((answer_reason)::text = ''::text)) AND (answered_at IS NOT NULL)))),
    CONSTRAINT quota_request_reason_and_author CHECK (((NOT ((reason)::text = ''::text)) AND (NOT ((author)::text = ''::text)))),
    CONSTRAINT quota_request_usage CHECK ((jsonb_typeof(usage) = 'object'::text)),
    CONSTRAINT quota_request_wanted CHECK ((wanted > 0))
);
ALTER TABLE public.quotas_quotarequest ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_quotarequest_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_quotarequestevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    id bigint NOT NULL,
    scope character varying(128) NOT NULL,
    "limit" character varying(80) NOT NULL,
    wanted bigint NOT NULL,
    until timestamp with time zone,
    reason character varying(500) NOT NULL,
    usage jsonb NOT NULL,
    author character varying(150) NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    answer character varying(8) NOT NULL,
    answer_author character varying(150) NOT NULL,
    answer_reason character varying(500) NOT NULL,
    answered_at timestamp with time zone,
    override_id bigint,
    pgh_obj_id bigint NOT NULL,
    tenant_id bigint NOT NULL,
    author_identity character varying(80) DEFAULT ''::character varying NOT NULL
);
ALTER TABLE public.quotas_quotarequestevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_quotarequestevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_rates_1d (
    start timestamp with time zone NOT NULL,
    allowed bigint NOT NULL,
    denied bigint NOT NULL,
    peak_1s bigint NOT NULL,
    peak_10s bigint NOT NULL,
    peak_60s bigint NOT NULL,
    cost_1s bigint,
    cost_10s bigint,
    cost_60s bigint,
    tenant_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    requests bytea NOT NULL,
    cost bytea
)
PARTITION BY RANGE (start);
CREATE TABLE public.quotas_rates_1h (
    start timestamp with time zone NOT NULL,
    allowed bigint NOT NULL,
    denied bigint NOT NULL,
    peak_1s bigint NOT NULL,
    peak_10s bigint NOT NULL,
    peak_60s bigint NOT NULL,
    cost_1s bigint,
    cost_10s bigint,
    cost_60s bigint,
    tenant_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    requests bytea NOT NULL,
    cost bytea
)
PARTITION BY RANGE (start);
CREATE TABLE public.quotas_recommendation (
    id bigint NOT NULL,
    kind character varying(8) NOT NULL,
    stage character varying(12) NOT NULL,
    policy character varying(63) NOT NULL,
    "limit" character varying(80) NOT NULL,
    tier character varying(63) NOT NULL,
    tenant character varying(63) NOT NULL,
    endpoint character varying(128) NOT NULL,
    current jsonb NOT NULL,
    proposed jsonb,
    summary character varying(300) NOT NULL,
    evidence jsonb NOT NULL,
    forecast jsonb NOT NULL,
    observed jsonb NOT NULL,
    trust character varying(6) NOT NULL,
    binds character varying(8) NOT NULL,
    ready_at timestamp with time zone,
    problem character varying(500) NOT NULL,
    decider character varying(150) NOT NULL,
    reason character varying(500) NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    measured_at timestamp with time zone NOT NULL,
    decided_at timestamp with time zone,
    shadow_at timestamp with time zone,
    enforced_at timestamp with time zone,
    ended_at timestamp with time zone,
    change_id bigint,
    editor character varying(150) NOT NULL,
    decider_identity character varying(80) DEFAULT ''::character varying NOT NULL,
    editor_identity character varying(80) DEFAULT ''::character varying NOT NULL,
    askers jsonb DEFAULT '[]'::jsonb NOT NULL,
    base jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT recommendation_askers CHECK ((jsonb_typeof(askers) = 'array'::text)),
    CONSTRAINT recommendation_binds CHECK (((binds)::text = ANY ((ARRAY['demand'::character varying, 'capacity'::character varying])::text[]))),
    CONSTRAINT recommendation_current CHECK ((jsonb_typeof(current) = 'object'::text)),
    CONSTRAINT recommendation_end_reason CHECK (((NOT ((stage)::text = ANY ((ARRAY['dismissed'::character varying, 'rolled_back'::character varying])::text[]))) OR ((NOT ((decider)::text = ''::text)) AND (NOT ((reason)::text = ''::text))))),
    CONSTRAINT recommendation_evidence CHECK ((jsonb_typeof(evidence) = 'object'::text)),
    CONSTRAINT recommendation_kind CHECK (((kind)::text = ANY ((ARRAY['tier'::character varying, 'tenant'::character varying, 'override'::character varying])::text[]))),
    CONSTRAINT recommendation_proposed CHECK ((jsonb_typeof(proposed) = 'object'::text)),
    CONSTRAINT recommendation_proposes CHECK ((((stage)::text = ANY ((ARRAY['insufficient'::character varying, 'superseded'::character varying])::text[])) OR (proposed IS NOT NULL))),
    CONSTRAINT recommendation_stage_known CHECK (((stage)::text = ANY ((ARRAY['insufficient'::character varying, 'draft'::character varying, 'simulated'::character varying, 'approved'::character varying, 'shadow'::character varying, 'enforced'::character varying, 'evaluated'::character varying, 'rolled_back'::character varying, 'dismissed'::character varying, 'superseded'::character varying])::text[]))),
    CONSTRAINT recommendation_trust CHECK (((trust)::text = ANY ((ARRAY['high'::character varying, 'medium'::character varying, 'low'::character varying])::text[])))
);
ALTER TABLE public.quotas_recommendation ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_recommendation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_recommendationevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    id bigint NOT NULL,
    kind character varying(8) NOT NULL,
    stage character varying(12) NOT NULL,
    policy character varying(63) NOT NULL,
    "limit" character varying(80) NOT NULL,
    tier character varying(63) NOT NULL,
    tenant character varying(63) NOT NULL,
    endpoint character varying(128) NOT NULL,
    current jsonb NOT NULL,
    proposed jsonb,
    summary character varying(300) NOT NULL,
    observed jsonb NOT NULL,
    trust character varying(6) NOT NULL,
    binds character varying(8) NOT NULL,
    ready_at timestamp with time zone,
    problem character varying(500) NOT NULL,
    decider character varying(150) NOT NULL,
    reason character varying(500) NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    measured_at timestamp with time zone NOT NULL,
    decided_at timestamp with time zone,
    shadow_at timestamp with time zone,
    enforced_at timestamp with time zone,
    ended_at timestamp with time zone,
    change_id bigint,
    pgh_obj_id bigint NOT NULL,
    editor character varying(150) NOT NULL,
    decider_identity character varying(80) DEFAULT ''::character varying NOT NULL,
    editor_identity character varying(80) DEFAULT ''::character varying NOT NULL,
    askers jsonb DEFAULT '[]'::jsonb NOT NULL
);
ALTER TABLE public.quotas_recommendationevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_recommendationevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_revision (
    number bigint NOT NULL,
    author character varying(150) NOT NULL,
    reason character varying(500) NOT NULL,
    action character varying(40) NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    touched character varying(140)[] NOT NULL,
    before jsonb NOT NULL,
    after jsonb NOT NULL,
    published_us bigint,
    CONSTRAINT revision_after CHECK ((jsonb_typeof(after) = 'object'::text)),
    CONSTRAINT revision_author_and_reason CHECK (((NOT ((author)::text = ''::text)) AND (NOT ((reason)::text = ''::text)))),
    CONSTRAINT revision_before CHECK ((jsonb_typeof(before) = 'object'::text)),
    CONSTRAINT revision_number CHECK ((number > 0)),
    CONSTRAINT revision_published CHECK (((published_us IS NULL) OR (published_us > 0))),
    CONSTRAINT revision_touches_something CHECK ((
CASE
    WHEN (touched IS NULL) THEN NULL::integer
    ELSE COALESCE(array_length(touched, 1), 0)
END > 0))
);
CREATE TABLE public.quotas_saved_view (
    id bigint NOT NULL,
    page character varying(32) NOT NULL,
    name character varying(60) NOT NULL,
    query character varying(1000) NOT NULL,
    is_shared boolean NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    owner_id integer NOT NULL,
    CONSTRAINT saved_view_name CHECK (((NOT ((name)::text = ''::text)) AND (NOT ((page)::text = ''::text))))
);
ALTER TABLE public.quotas_saved_view ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_saved_view_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_seconds (
    start timestamp with time zone NOT NULL,
    tenant_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    packed bytea NOT NULL
)
PARTITION BY RANGE (start);
CREATE TABLE public.quotas_tally (
    endpoint_number integer NOT NULL,
    outcome character varying(1) NOT NULL,
    count bigint NOT NULL,
    cost bigint NOT NULL
);
CREATE TABLE public.quotas_task (
    id bigint NOT NULL,
    kind character varying(12) NOT NULL,
    state character varying(8) NOT NULL,
    author character varying(150) NOT NULL,
    asked jsonb NOT NULL,
    percent smallint NOT NULL,
    doing character varying(60) NOT NULL,
    result jsonb,
    problem character varying(500) NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    changed timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    CONSTRAINT task_author CHECK ((NOT ((author)::text = ''::text))),
    CONSTRAINT task_kind_known CHECK (((kind)::text = ANY ((ARRAY['whatif'::character varying, 'calibrate'::character varying, 'document'::character varying])::text[]))),
    CONSTRAINT task_percent CHECK (((percent >= 0) AND (percent <= 100))),
    CONSTRAINT task_state CHECK (((state)::text = ANY ((ARRAY['waiting'::character varying, 'running'::character varying, 'done'::character varying, 'failed'::character varying])::text[])))
);
ALTER TABLE public.quotas_task ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_task_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_taskslice (
    id bigint NOT NULL,
    place integer NOT NULL,
    state character varying(8) NOT NULL,
    asked jsonb NOT NULL,
    tries smallint NOT NULL,
    percent smallint NOT NULL,
    result jsonb,
    problem character varying(500) NOT NULL,
    changed timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    task_id bigint NOT NULL,
    CONSTRAINT task_slice_percent CHECK (((percent >= 0) AND (percent <= 100))),
    CONSTRAINT task_slice_state CHECK (((state)::text = ANY ((ARRAY['open'::character varying, 'done'::character varying, 'failed'::character varying])::text[])))
);
ALTER TABLE public.quotas_taskslice ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_taskslice_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quotas_tenant_1d (
    start timestamp with time zone NOT NULL,
    count bigint NOT NULL,
    cost bigint NOT NULL,
    tenant_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    limit_number integer NOT NULL,
    outcome character varying(1) NOT NULL
)
PARTITION BY RANGE (start);
CREATE TABLE public.quotas_tenant_1h (
    start timestamp with time zone NOT NULL,
    count bigint NOT NULL,
    cost bigint NOT NULL,
    tenant_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    limit_number integer NOT NULL,
    outcome character varying(1) NOT NULL
)
PARTITION BY RANGE (start);
CREATE TABLE public.quotas_tenant_search (
    tenant_id bigint NOT NULL,
    text text DEFAULT ''::text NOT NULL
);
CREATE TABLE public.quotas_tenant_summary (
    tenant_id bigint NOT NULL,
    asked bigint DEFAULT 0 NOT NULL,
    denied bigint DEFAULT 0 NOT NULL,
    share double precision DEFAULT 0.0 NOT NULL,
    use double precision DEFAULT '-1.0'::numeric NOT NULL,
    use_scope character varying(128) DEFAULT ''::character varying NOT NULL,
    use_limit character varying(63) DEFAULT ''::character varying NOT NULL,
    last_at timestamp with time zone DEFAULT '1970-01-01 00:00:00+00'::timestamp with time zone NOT NULL,
    denied_at timestamp with time zone DEFAULT '1970-01-01 00:00:00+00'::timestamp with time zone NOT NULL
);
CREATE TABLE public.quotas_tenant_summary_run (
    id smallint NOT NULL,
    measured_at timestamp with time zone NOT NULL,
    history_at timestamp with time zone,
    tags jsonb NOT NULL,
    CONSTRAINT one_tenant_summary_run CHECK ((id = 1))
);
CREATE TABLE public.quotas_tier_use (
    tier_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    measured_at timestamp with time zone NOT NULL,
    tenants integer NOT NULL,
    asked bigint NOT NULL,
    denied bigint NOT NULL,
    busiest integer NOT NULL,
    peaks jsonb NOT NULL,
    calendar jsonb NOT NULL,
    leaders jsonb NOT NULL,
    leaders_at timestamp with time zone,
    leaders_tenants integer NOT NULL,
    leaders_asked bigint NOT NULL,
    denied_by jsonb NOT NULL,
    near integer NOT NULL,
    nearest jsonb NOT NULL
);
CREATE TABLE public.quotas_total_10s (
    start timestamp with time zone NOT NULL,
    count bigint NOT NULL,
    cost bigint NOT NULL,
    tenant_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    limit_number integer NOT NULL,
    outcome character varying(1) NOT NULL
)
PARTITION BY RANGE (start);
CREATE TABLE public.quotas_total_1d (
    start timestamp with time zone NOT NULL,
    count bigint NOT NULL,
    cost bigint NOT NULL,
    tenant_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    limit_number integer NOT NULL,
    outcome character varying(1) NOT NULL
)
PARTITION BY RANGE (start);
CREATE TABLE public.quotas_total_1h (
    start timestamp with time zone NOT NULL,
    count bigint NOT NULL,
    cost bigint NOT NULL,
    tenant_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    limit_number integer NOT NULL,
    outcome character varying(1) NOT NULL
)
PARTITION BY RANGE (start);
CREATE TABLE public.quotas_total_1m (
    start timestamp with time zone NOT NULL,
    count bigint NOT NULL,
    cost bigint NOT NULL,
    tenant_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    limit_number integer NOT NULL,
    outcome character varying(1) NOT NULL
)
PARTITION BY RANGE (start);
CREATE VIEW public.quotas_usage_10s WITH (security_invoker='true') AS
 SELECT date_bin('01:00:00'::interval, quotas_fresh_10s.start, '1970-01-01 00:00:00+00'::timestamp with time zone) AS slot,
    quotas_fresh_10s.start,
    quotas_fresh_10s.tenant_number,
    quotas_fresh_10s.endpoint_number,
    quotas_fresh_10s.outcome,
    quotas_fresh_10s.limit_number,
    quotas_fresh_10s.count,
    quotas_fresh_10s.cost
   FROM public.quotas_fresh_10s
UNION ALL
 SELECT p.slot,
    (p.slot + (((e.entry >> 22))::double precision * '00:00:10'::interval)) AS start,
    p.tenant_number,
    p.endpoint_number,
    p.outcome,
    p.limit_number,
    COALESCE(e.count, ((e.entry & 4194303))::bigint) AS count,
    COALESCE(e.cost, e.count, ((e.entry & 4194303))::bigint) AS cost
   FROM (public.quotas_packed_10s p
     CROSS JOIN LATERAL UNNEST(p.entries, p.counts, p.costs) e(entry, count, cost));
CREATE TABLE public.quotas_usage_1d (
    start timestamp with time zone NOT NULL,
    count bigint NOT NULL,
    cost bigint NOT NULL,
    tenant_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    limit_number integer NOT NULL,
    outcome character varying(1) NOT NULL
)
PARTITION BY RANGE (start);
CREATE TABLE public.quotas_usage_1h (
    start timestamp with time zone NOT NULL,
    count bigint NOT NULL,
    cost bigint NOT NULL,
    tenant_number integer NOT NULL,
    endpoint_number integer NOT NULL,
    limit_number integer NOT NULL,
    outcome character varying(1) NOT NULL
)
PARTITION BY RANGE (start);
CREATE VIEW public.quotas_usage_1m WITH (security_invoker='true') AS
 SELECT date_bin('01:00:00'::interval, quotas_fresh_1m.start, '1970-01-01 00:00:00+00'::timestamp with time zone) AS slot,
    quotas_fresh_1m.start,
    quotas_fresh_1m.tenant_number,
    quotas_fresh_1m.endpoint_number,
    quotas_fresh_1m.outcome,
    quotas_fresh_1m.limit_number,
    quotas_fresh_1m.count,
    quotas_fresh_1m.cost
   FROM public.quotas_fresh_1m
UNION ALL
 SELECT p.slot,
    (p.slot + (((e.entry >> 22))::double precision * '00:01:00'::interval)) AS start,
    p.tenant_number,
    p.endpoint_number,
    p.outcome,
    p.limit_number,
    COALESCE(e.count, ((e.entry & 4194303))::bigint) AS count,
    COALESCE(e.cost, e.count, ((e.entry & 4194303))::bigint) AS cost
   FROM (public.quotas_packed_1m p
     CROSS JOIN LATERAL UNNEST(p.entries, p.counts, p.costs) e(entry, count, cost));
CREATE TABLE public.quotas_usagelog (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    cells bytea NOT NULL,
    observed bytea NOT NULL
);
ALTER TABLE public.quotas_usagelog ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quotas_usagelog_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.tenants_accountevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    id integer NOT NULL,
    is_superuser boolean NOT NULL,
    username character varying(150) NOT NULL,
    first_name character varying(150) NOT NULL,
    last_name character varying(150) NOT NULL,
    email character varying(254) NOT NULL,
    is_staff boolean NOT NULL,
    is_active boolean NOT NULL,
    date_joined timestamp with time zone NOT NULL,
    pgh_obj_id integer NOT NULL
);
ALTER TABLE public.tenants_accountevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenants_accountevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.tenants_apikey (
    id bigint NOT NULL,
    key_id character varying(32) NOT NULL,
    secret_hash character varying(64) NOT NULL,
    label character varying(200) NOT NULL,
    scopes character varying(32)[] NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    revoked_at timestamp with time zone,
    tenant_id bigint NOT NULL,
    next_hash character varying(64) DEFAULT ''::character varying NOT NULL,
    secret_version integer DEFAULT 1 NOT NULL,
    expires_at timestamp with time zone,
    lineage character varying(32) DEFAULT ''::character varying NOT NULL,
    successor_id bigint,
    CONSTRAINT api_key_expires_after_created CHECK (((expires_at IS NULL) OR (expires_at >= created))),
    CONSTRAINT api_key_id CHECK (((key_id)::text ~ '^([a-z0-9]{8,32})$'::text)),
    CONSTRAINT api_key_lineage CHECK (((lineage)::text ~ '^(([a-z0-9]{8,32})?)$'::text)),
    CONSTRAINT api_key_next_hash CHECK (((next_hash)::text ~ '^(([0-9a-f]{64}|due)?)$'::text)),
    CONSTRAINT api_key_replaced_ends CHECK (((successor_id IS NULL) OR (expires_at IS NOT NULL))),
    CONSTRAINT api_key_revoked_after_created CHECK (((revoked_at IS NULL) OR (revoked_at >= created))),
    CONSTRAINT api_key_scopes CHECK ((
CASE
    WHEN (scopes IS NULL) THEN NULL::integer
    ELSE COALESCE(array_length(scopes, 1), 0)
END > 0)),
    CONSTRAINT api_key_secret_hash CHECK (((secret_hash)::text ~ '^([0-9a-f]{64})$'::text))
);
ALTER TABLE public.tenants_apikey ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenants_apikey_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.tenants_apikeyevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    id bigint NOT NULL,
    key_id character varying(32) NOT NULL,
    label character varying(200) NOT NULL,
    scopes character varying(32)[] NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    revoked_at timestamp with time zone,
    pgh_obj_id bigint NOT NULL,
    tenant_id bigint NOT NULL,
    expires_at timestamp with time zone,
    lineage character varying(32) DEFAULT ''::character varying NOT NULL,
    successor_id bigint
);
ALTER TABLE public.tenants_apikeyevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenants_apikeyevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.tenants_apitoken (
    id bigint NOT NULL,
    key_id character varying(32) NOT NULL,
    secret_hash character varying(64) NOT NULL,
    label character varying(200) NOT NULL,
    role character varying(8) NOT NULL,
    scopes character varying(32)[] NOT NULL,
    author character varying(150) NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    revoked_at timestamp with time zone,
    tenant_id bigint,
    issuer_id integer,
    may_approve boolean DEFAULT false NOT NULL,
    next_hash character varying(64) DEFAULT ''::character varying NOT NULL,
    secret_version integer DEFAULT 1 NOT NULL,
    CONSTRAINT api_token_approves_for_somebody CHECK (((NOT may_approve) OR (issuer_id IS NOT NULL))),
    CONSTRAINT api_token_id CHECK (((key_id)::text ~ '^([a-z0-9]{8,32})$'::text)),
    CONSTRAINT api_token_label_and_author CHECK (((NOT ((label)::text = ''::text)) AND (NOT ((author)::text = ''::text)))),
    CONSTRAINT api_token_next_hash CHECK (((next_hash)::text ~ '^(([0-9a-f]{64}|due)?)$'::text)),
    CONSTRAINT api_token_of_one_tenant CHECK (((((role)::text = 'tenant'::text) AND (tenant_id IS NOT NULL)) OR ((NOT ((role)::text = 'tenant'::text)) AND (tenant_id IS NULL)))),
    CONSTRAINT api_token_revoked_after_created CHECK (((revoked_at IS NULL) OR (revoked_at >= created))),
    CONSTRAINT api_token_role CHECK (((role)::text = ANY ((ARRAY['viewer'::character varying, 'operator'::character varying, 'approver'::character varying, 'owner'::character varying, 'tenant'::character varying])::text[]))),
    CONSTRAINT api_token_scopes CHECK ((
CASE
    WHEN (scopes IS NULL) THEN NULL::integer
    ELSE COALESCE(array_length(scopes, 1), 0)
END > 0)),
    CONSTRAINT api_token_secret_hash CHECK (((secret_hash)::text ~ '^([0-9a-f]{64})$'::text))
);
ALTER TABLE public.tenants_apitoken ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenants_apitoken_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.tenants_apitokenevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    id bigint NOT NULL,
    key_id character varying(32) NOT NULL,
    label character varying(200) NOT NULL,
    role character varying(8) NOT NULL,
    scopes character varying(32)[] NOT NULL,
    author character varying(150) NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    revoked_at timestamp with time zone,
    pgh_obj_id bigint NOT NULL,
    tenant_id bigint,
    issuer_id integer,
    may_approve boolean DEFAULT false NOT NULL
);
ALTER TABLE public.tenants_apitokenevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenants_apitokenevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.tenants_keyversion (
    id bigint NOT NULL,
    purpose character varying(16) NOT NULL,
    version integer NOT NULL,
    wrapped bytea NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    retired_at timestamp with time zone,
    CONSTRAINT key_version_number CHECK ((version > 0)),
    CONSTRAINT key_version_purpose CHECK (((purpose)::text = ANY ((ARRAY['api_keys'::character varying, 'sealing'::character varying, 'subjects'::character varying])::text[])))
);
ALTER TABLE public.tenants_keyversion ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenants_keyversion_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.tenants_membership (
    id bigint NOT NULL,
    role character varying(8) NOT NULL,
    tenant_id bigint,
    user_id integer NOT NULL,
    CONSTRAINT membership_of_one_tenant CHECK (((((role)::text = 'tenant'::text) AND (tenant_id IS NOT NULL)) OR ((NOT ((role)::text = 'tenant'::text)) AND (tenant_id IS NULL)))),
    CONSTRAINT membership_role CHECK (((role)::text = ANY ((ARRAY['viewer'::character varying, 'operator'::character varying, 'approver'::character varying, 'owner'::character varying, 'tenant'::character varying])::text[])))
);
ALTER TABLE public.tenants_membership ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenants_membership_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.tenants_membershipevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    id bigint NOT NULL,
    role character varying(8) NOT NULL,
    pgh_obj_id bigint NOT NULL,
    tenant_id bigint,
    user_id integer NOT NULL
);
ALTER TABLE public.tenants_membershipevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenants_membershipevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.tenants_tenant (
    number bigint NOT NULL,
    name character varying(63) NOT NULL,
    label character varying(200) NOT NULL,
    timezone character varying(64) NOT NULL,
    suspended boolean NOT NULL,
    suspended_reason character varying(500) NOT NULL,
    handovers jsonb NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    tier_id bigint NOT NULL,
    archived_at timestamp with time zone,
    contacts character varying(254)[] DEFAULT '{}'::character varying(254)[] NOT NULL,
    tags character varying(40)[] DEFAULT '{}'::character varying(40)[] NOT NULL,
    priority character varying(9) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT tenant_handovers CHECK ((jsonb_typeof(handovers) = 'array'::text)),
    CONSTRAINT tenant_name CHECK (((name)::text ~ '^([a-z0-9][a-z0-9-]{0,62})$'::text)),
    CONSTRAINT tenant_number CHECK (((number > 0) AND (number < 60466176))),
    CONSTRAINT tenant_priority CHECK (((priority)::text = ANY ((ARRAY[''::character varying, 'critical'::character varying, 'high'::character varying, 'normal'::character varying, 'sheddable'::character varying])::text[]))),
    CONSTRAINT tenant_suspended_with_reason CHECK (((suspended AND (NOT ((suspended_reason)::text = ''::text))) OR ((NOT suspended) AND ((suspended_reason)::text = ''::text)))),
    CONSTRAINT tenant_timezone CHECK ((NOT ((timezone)::text = ''::text)))
);
ALTER TABLE public.tenants_tenant ALTER COLUMN number ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenants_tenant_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.tenants_tenantevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    number bigint NOT NULL,
    name character varying(63) NOT NULL,
    label character varying(200) NOT NULL,
    timezone character varying(64) NOT NULL,
    suspended boolean NOT NULL,
    suspended_reason character varying(500) NOT NULL,
    handovers jsonb NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    pgh_obj_id bigint NOT NULL,
    tier_id bigint NOT NULL,
    archived_at timestamp with time zone,
    contacts character varying(254)[] DEFAULT '{}'::character varying(254)[] NOT NULL,
    tags character varying(40)[] DEFAULT '{}'::character varying(40)[] NOT NULL,
    priority character varying(9) DEFAULT ''::character varying NOT NULL
);
ALTER TABLE public.tenants_tenantevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenants_tenantevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.tenants_tier (
    number bigint NOT NULL,
    name character varying(63) NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    description character varying(500) DEFAULT ''::character varying NOT NULL,
    label character varying(200) DEFAULT ''::character varying NOT NULL,
    retired boolean DEFAULT false NOT NULL,
    priority character varying(9) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT tier_name CHECK (((name)::text ~ '^([a-z0-9][a-z0-9_.-]{0,62})$'::text)),
    CONSTRAINT tier_priority CHECK (((priority)::text = ANY ((ARRAY[''::character varying, 'critical'::character varying, 'high'::character varying, 'normal'::character varying, 'sheddable'::character varying])::text[])))
);
ALTER TABLE public.tenants_tier ALTER COLUMN number ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenants_tier_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.tenants_tierevent (
    pgh_created_at timestamp with time zone NOT NULL,
    pgh_label text NOT NULL,
    pgh_id bigint NOT NULL,
    pgh_context jsonb,
    number bigint NOT NULL,
    name character varying(63) NOT NULL,
    created timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    pgh_obj_id bigint NOT NULL,
    description character varying(500) DEFAULT ''::character varying NOT NULL,
    label character varying(200) DEFAULT ''::character varying NOT NULL,
    retired boolean DEFAULT false NOT NULL,
    priority character varying(9) DEFAULT ''::character varying NOT NULL
);
ALTER TABLE public.tenants_tierevent ALTER COLUMN pgh_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenants_tierevent_pgh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE ONLY public.api_storedanswer
    ADD CONSTRAINT api_storedanswer_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_approval
    ADD CONSTRAINT approval_once UNIQUE (change_id, approver);
ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_name_key UNIQUE (name);
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_permission_id_0cd325b0_uniq UNIQUE (group_id, permission_id);
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_codename_01ab375a_uniq UNIQUE (content_type_id, codename);
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_user_id_group_id_94350c0c_uniq UNIQUE (user_id, group_id);
ALTER TABLE ONLY public.auth_user
    ADD CONSTRAINT auth_user_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_user_id_permission_id_14a6b632_uniq UNIQUE (user_id, permission_id);
ALTER TABLE ONLY public.auth_user
    ADD CONSTRAINT auth_user_username_key UNIQUE (username);
ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_app_label_model_76bd3d3b_uniq UNIQUE (app_label, model);
ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_migrations
    ADD CONSTRAINT django_migrations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_session
    ADD CONSTRAINT django_session_pkey PRIMARY KEY (session_key);
ALTER TABLE ONLY public.tenants_keyversion
    ADD CONSTRAINT key_version_once UNIQUE (purpose, version);
ALTER TABLE ONLY public.quotas_limitneed
    ADD CONSTRAINT limit_need_once UNIQUE (policy, "limit");
ALTER TABLE ONLY public.quotas_limit
    ADD CONSTRAINT limit_once_per_policy UNIQUE (policy_id, name_id);
ALTER TABLE ONLY public.pghistory_context
    ADD CONSTRAINT pghistory_context_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_policy
    ADD CONSTRAINT policy_attached_once UNIQUE NULLS NOT DISTINCT (tier_id, tenant_id, endpoint_id, service);
ALTER TABLE ONLY public.quotas_adaptivereading
    ADD CONSTRAINT quotas_adaptivereading_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_alertdelivery
    ADD CONSTRAINT quotas_alertdelivery_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_alertsetting
    ADD CONSTRAINT quotas_alertsetting_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.quotas_alertsettingevent
    ADD CONSTRAINT quotas_alertsettingevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.quotas_alertstate
    ADD CONSTRAINT quotas_alertstate_pkey PRIMARY KEY (name, about);
ALTER TABLE ONLY public.quotas_alerttarget
    ADD CONSTRAINT quotas_alerttarget_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_alerttargetevent
    ADD CONSTRAINT quotas_alerttargetevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.quotas_approval
    ADD CONSTRAINT quotas_approval_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_approvalevent
    ADD CONSTRAINT quotas_approvalevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.quotas_arrival
    ADD CONSTRAINT quotas_arrival_pkey PRIMARY KEY (tenant_number, endpoint_number, at, subject);
ALTER TABLE ONLY public.quotas_auditevent
    ADD CONSTRAINT quotas_auditevent_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_calendar
    ADD CONSTRAINT quotas_calendar_pkey PRIMARY KEY (shard, tenant_number, scope, subject, limit_number);
ALTER TABLE ONLY public.quotas_calibrationsetting
    ADD CONSTRAINT quotas_calibrationsetting_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.quotas_calibrationsettingevent
    ADD CONSTRAINT quotas_calibrationsettingevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.quotas_change
    ADD CONSTRAINT quotas_change_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_changeevent
    ADD CONSTRAINT quotas_changeevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.quotas_chart_note
    ADD CONSTRAINT quotas_chart_note_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_delivery
    ADD CONSTRAINT quotas_delivery_pkey PRIMARY KEY (task_id);
ALTER TABLE ONLY public.quotas_denial
    ADD CONSTRAINT quotas_denial_pkey PRIMARY KEY (at, tenant_number, digest);
ALTER TABLE ONLY public.quotas_drainbatch
    ADD CONSTRAINT quotas_drainbatch_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_drainstate
    ADD CONSTRAINT quotas_drainstate_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_emergency
    ADD CONSTRAINT quotas_emergency_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_emergencyevent
    ADD CONSTRAINT quotas_emergencyevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.quotas_endpoint
    ADD CONSTRAINT quotas_endpoint_name_key UNIQUE (name);
ALTER TABLE ONLY public.quotas_endpoint
    ADD CONSTRAINT quotas_endpoint_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.quotas_endpointevent
    ADD CONSTRAINT quotas_endpointevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.quotas_endpointtarget
    ADD CONSTRAINT quotas_endpointtarget_pkey PRIMARY KEY (endpoint_number);
ALTER TABLE ONLY public.quotas_endpointtargetevent
    ADD CONSTRAINT quotas_endpointtargetevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.quotas_foldstate
    ADD CONSTRAINT quotas_foldstate_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.quotas_freeze
    ADD CONSTRAINT quotas_freeze_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_freezeevent
    ADD CONSTRAINT quotas_freezeevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.quotas_fresh_10s
    ADD CONSTRAINT quotas_fresh_10s_pkey PRIMARY KEY (start, tenant_number, endpoint_number, outcome, limit_number);
ALTER TABLE ONLY public.quotas_fresh_1m
    ADD CONSTRAINT quotas_fresh_1m_pkey PRIMARY KEY (start, tenant_number, endpoint_number, outcome, limit_number);
ALTER TABLE ONLY public.quotas_gaprecord
    ADD CONSTRAINT quotas_gaprecord_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_heartbeat
    ADD CONSTRAINT quotas_heartbeat_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.quotas_jobslot
    ADD CONSTRAINT quotas_jobslot_pkey PRIMARY KEY (job);
ALTER TABLE ONLY public.quotas_keyuse
    ADD CONSTRAINT quotas_keyuse_pkey PRIMARY KEY (key_id, day);
ALTER TABLE ONLY public.quotas_latency_1h
    ADD CONSTRAINT quotas_latency_1h_pkey PRIMARY KEY (endpoint_number, start, load);
ALTER TABLE ONLY public.quotas_limit
    ADD CONSTRAINT quotas_limit_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_limitevent
    ADD CONSTRAINT quotas_limitevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.quotas_limitname
    ADD CONSTRAINT quotas_limitname_name_key UNIQUE (name);
ALTER TABLE ONLY public.quotas_limitname
    ADD CONSTRAINT quotas_limitname_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.quotas_limitnameevent
    ADD CONSTRAINT quotas_limitnameevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.quotas_limitneed
    ADD CONSTRAINT quotas_limitneed_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_outbox
    ADD CONSTRAINT quotas_outbox_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_override
    ADD CONSTRAINT quotas_override_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_overrideevent
    ADD CONSTRAINT quotas_overrideevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.quotas_packed_10s
    ADD CONSTRAINT quotas_packed_10s_pkey PRIMARY KEY (slot, tenant_number, endpoint_number, outcome, limit_number);
ALTER TABLE ONLY public.quotas_packed_1m
    ADD CONSTRAINT quotas_packed_1m_pkey PRIMARY KEY (slot, tenant_number, endpoint_number, outcome, limit_number);
ALTER TABLE ONLY public.quotas_policy
    ADD CONSTRAINT quotas_policy_name_key UNIQUE (name);
ALTER TABLE ONLY public.quotas_policy
    ADD CONSTRAINT quotas_policy_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_policyevent
    ADD CONSTRAINT quotas_policyevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.quotas_quotarequest
    ADD CONSTRAINT quotas_quotarequest_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_quotarequestevent
    ADD CONSTRAINT quotas_quotarequestevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.quotas_rates_1d
    ADD CONSTRAINT quotas_rates_1d_pkey PRIMARY KEY (tenant_number, endpoint_number, start);
ALTER TABLE ONLY public.quotas_rates_1h
    ADD CONSTRAINT quotas_rates_1h_pkey PRIMARY KEY (tenant_number, endpoint_number, start);
ALTER TABLE ONLY public.quotas_recommendation
    ADD CONSTRAINT quotas_recommendation_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_recommendationevent
    ADD CONSTRAINT quotas_recommendationevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.quotas_revision
    ADD CONSTRAINT quotas_revision_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.quotas_saved_view
    ADD CONSTRAINT quotas_saved_view_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_seconds
    ADD CONSTRAINT quotas_seconds_pkey PRIMARY KEY (tenant_number, endpoint_number, start);
ALTER TABLE ONLY public.quotas_tally
    ADD CONSTRAINT quotas_tally_pkey PRIMARY KEY (endpoint_number, outcome);
ALTER TABLE ONLY public.quotas_task
    ADD CONSTRAINT quotas_task_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_taskslice
    ADD CONSTRAINT quotas_taskslice_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_tenant_1d
    ADD CONSTRAINT quotas_tenant_1d_pkey PRIMARY KEY (start, tenant_number, endpoint_number, outcome, limit_number);
ALTER TABLE ONLY public.quotas_tenant_1h
    ADD CONSTRAINT quotas_tenant_1h_pkey PRIMARY KEY (start, tenant_number, endpoint_number, outcome, limit_number);
ALTER TABLE ONLY public.quotas_tenant_search
    ADD CONSTRAINT quotas_tenant_search_pkey PRIMARY KEY (tenant_id);
ALTER TABLE ONLY public.quotas_tenant_summary
    ADD CONSTRAINT quotas_tenant_summary_pkey PRIMARY KEY (tenant_id);
ALTER TABLE ONLY public.quotas_tenant_summary_run
    ADD CONSTRAINT quotas_tenant_summary_run_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_tier_use
    ADD CONSTRAINT quotas_tier_use_pkey PRIMARY KEY (tier_number, endpoint_number);
ALTER TABLE ONLY public.quotas_total_10s
    ADD CONSTRAINT quotas_total_10s_pkey PRIMARY KEY (start, tenant_number, endpoint_number, outcome, limit_number);
ALTER TABLE ONLY public.quotas_total_1d
    ADD CONSTRAINT quotas_total_1d_pkey PRIMARY KEY (start, tenant_number, endpoint_number, outcome, limit_number);
ALTER TABLE ONLY public.quotas_total_1h
    ADD CONSTRAINT quotas_total_1h_pkey PRIMARY KEY (start, tenant_number, endpoint_number, outcome, limit_number);
ALTER TABLE ONLY public.quotas_total_1m
    ADD CONSTRAINT quotas_total_1m_pkey PRIMARY KEY (start, tenant_number, endpoint_number, outcome, limit_number);
ALTER TABLE ONLY public.quotas_usage_1d
    ADD CONSTRAINT quotas_usage_1d_pkey PRIMARY KEY (start, tenant_number, endpoint_number, outcome, limit_number);
ALTER TABLE ONLY public.quotas_usage_1h
    ADD CONSTRAINT quotas_usage_1h_pkey PRIMARY KEY (start, tenant_number, endpoint_number, outcome, limit_number);
ALTER TABLE ONLY public.quotas_usagelog
    ADD CONSTRAINT quotas_usagelog_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quotas_saved_view
    ADD CONSTRAINT saved_view_once UNIQUE (owner_id, page, name);
ALTER TABLE ONLY public.api_storedanswer
    ADD CONSTRAINT stored_answer_once UNIQUE (author, key);
ALTER TABLE ONLY public.quotas_taskslice
    ADD CONSTRAINT task_slice_place UNIQUE (task_id, place);
ALTER TABLE ONLY public.tenants_accountevent
    ADD CONSTRAINT tenants_accountevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.tenants_apikey
    ADD CONSTRAINT tenants_apikey_key_id_key UNIQUE (key_id);
ALTER TABLE ONLY public.tenants_apikey
    ADD CONSTRAINT tenants_apikey_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.tenants_apikeyevent
    ADD CONSTRAINT tenants_apikeyevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.tenants_apitoken
    ADD CONSTRAINT tenants_apitoken_key_id_key UNIQUE (key_id);
ALTER TABLE ONLY public.tenants_apitoken
    ADD CONSTRAINT tenants_apitoken_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.tenants_apitokenevent
    ADD CONSTRAINT tenants_apitokenevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.tenants_keyversion
    ADD CONSTRAINT tenants_keyversion_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.tenants_membership
    ADD CONSTRAINT tenants_membership_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.tenants_membership
    ADD CONSTRAINT tenants_membership_user_id_key UNIQUE (user_id);
ALTER TABLE ONLY public.tenants_membershipevent
    ADD CONSTRAINT tenants_membershipevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.tenants_tenant
    ADD CONSTRAINT tenants_tenant_name_key UNIQUE (name);
ALTER TABLE ONLY public.tenants_tenant
    ADD CONSTRAINT tenants_tenant_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.tenants_tenantevent
    ADD CONSTRAINT tenants_tenantevent_pkey PRIMARY KEY (pgh_id);
ALTER TABLE ONLY public.tenants_tier
    ADD CONSTRAINT tenants_tier_name_key UNIQUE (name);
ALTER TABLE ONLY public.tenants_tier
    ADD CONSTRAINT tenants_tier_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.tenants_tierevent
    ADD CONSTRAINT tenants_tierevent_pkey PRIMARY KEY (pgh_id);
CREATE INDEX adaptive_reading_at ON public.quotas_adaptivereading USING btree (at);
CREATE INDEX adaptive_reading_limit ON public.quotas_adaptivereading USING btree (policy, limit_name, tenant_number, at DESC);
CREATE INDEX alert_delivery_due ON public.quotas_alertdelivery USING btree (due_at) WHERE ((NOT is_given_up) AND (sent_at IS NULL));
CREATE INDEX alert_firing ON public.quotas_alertstate USING btree (since) WHERE (resolved_at IS NULL);
CREATE INDEX auth_group_name_a6ea08ec_like ON public.auth_group USING btree (name varchar_pattern_ops);
CREATE INDEX auth_group_permissions_group_id_b120cbf9 ON public.auth_group_permissions USING btree (group_id);
CREATE INDEX auth_group_permissions_permission_id_84c5c92e ON public.auth_group_permissions USING btree (permission_id);
CREATE INDEX auth_permission_content_type_id_2f476e4b ON public.auth_permission USING btree (content_type_id);
CREATE INDEX auth_user_groups_group_id_97559544 ON public.auth_user_groups USING btree (group_id);
CREATE INDEX auth_user_groups_user_id_6a12ed8b ON public.auth_user_groups USING btree (user_id);
CREATE INDEX auth_user_user_permissions_permission_id_1fbb5f2c ON public.auth_user_user_permissions USING btree (permission_id);
CREATE INDEX auth_user_user_permissions_user_id_a95ead1b ON public.auth_user_user_permissions USING btree (user_id);
CREATE INDEX auth_user_username_6821ab7c_like ON public.auth_user USING btree (username varchar_pattern_ops);
CREATE INDEX change_canary ON public.quotas_change USING btree (id) WHERE ((state)::text = 'canary'::text);
CREATE INDEX change_due ON public.quotas_change USING btree (at) WHERE ((state)::text = 'scheduled'::text);
CREATE INDEX change_touched ON public.quotas_change USING gin (touched);
CREATE INDEX delivery_set_aside ON public.quotas_delivery USING btree (is_set_aside, at DESC);
CREATE INDEX denial_of_tenant ON ONLY public.quotas_denial USING btree (tenant_number, at DESC);
CREATE INDEX django_admin_log_content_type_id_c4bce8eb ON public.django_admin_log USING btree (content_type_id);
CREATE INDEX django_admin_log_user_id_c564eba6 ON public.django_admin_log USING btree (user_id);
CREATE INDEX django_session_expire_date_a5c62663 ON public.django_session USING btree (expire_date);
CREATE INDEX django_session_session_key_c0390e0f_like ON public.django_session USING btree (session_key varchar_pattern_ops);
CREATE INDEX drain_batch_of_shard ON public.quotas_drainbatch USING btree (shard, drained_at);
CREATE INDEX emergency_open ON public.quotas_emergency USING btree (id) WHERE (reviewed_at IS NULL);
CREATE UNIQUE INDEX endpoint_route ON public.quotas_endpoint USING btree (method, path) WHERE ((NOT retired) AND (NOT ((path)::text = ''::text)));
CREATE INDEX freeze_not_lifted ON public.quotas_freeze USING btree ("end") WHERE (lifted_at IS NULL);
CREATE INDEX override_tenant_end ON public.quotas_override USING btree (tenant_id, "end");
CREATE INDEX quota_request_of_tenant ON public.quotas_quotarequest USING btree (tenant_id, id DESC);
CREATE UNIQUE INDEX quota_request_waits_once ON public.quotas_quotarequest USING btree (tenant_id, scope, "limit") WHERE ((answer)::text = 'waiting'::text);
CREATE INDEX quotas_alertdelivery_target_id_41c353a2 ON public.quotas_alertdelivery USING btree (target_id);
CREATE INDEX quotas_alertsetting_name_8e5c871d_like ON public.quotas_alertsetting USING btree (name varchar_pattern_ops);
CREATE INDEX quotas_alertsettingevent_pgh_obj_id_d1eca783 ON public.quotas_alertsettingevent USING btree (pgh_obj_id);
CREATE INDEX quotas_alertsettingevent_pgh_obj_id_d1eca783_like ON public.quotas_alertsettingevent USING btree (pgh_obj_id varchar_pattern_ops);
CREATE INDEX quotas_alerttargetevent_pgh_obj_id_03e108b0 ON public.quotas_alerttargetevent USING btree (pgh_obj_id);
CREATE INDEX quotas_approval_change_id_5a41804e ON public.quotas_approval USING btree (change_id);
CREATE INDEX quotas_approvalevent_pgh_obj_id_fa6c4938 ON public.quotas_approvalevent USING btree (pgh_obj_id);
CREATE INDEX quotas_calendar_expires_at_85cb0e75 ON public.quotas_calendar USING btree (expires_at);
CREATE INDEX quotas_calibrationsetting_name_5dd75fd0_like ON public.quotas_calibrationsetting USING btree (name varchar_pattern_ops);
CREATE INDEX quotas_calibrationsettingevent_pgh_obj_id_3bd86d63 ON public.quotas_calibrationsettingevent USING btree (pgh_obj_id);
CREATE INDEX quotas_calibrationsettingevent_pgh_obj_id_3bd86d63_like ON public.quotas_calibrationsettingevent USING btree (pgh_obj_id varchar_pattern_ops);
CREATE INDEX quotas_change_end_revision_id_cfa8a1c9 ON public.quotas_change USING btree (end_revision_id);
CREATE INDEX quotas_change_revert_revision_id_a2c7cf04 ON public.quotas_change USING btree (revert_revision_id);
CREATE INDEX quotas_change_start_revision_id_b2d3f911 ON public.quotas_change USING btree (start_revision_id);
CREATE INDEX quotas_changeevent_pgh_obj_id_8d1888bb ON public.quotas_changeevent USING btree (pgh_obj_id);
CREATE INDEX quotas_chart_note_at_55fcf033 ON public.quotas_chart_note USING btree (at);
CREATE INDEX quotas_chart_note_tenant_id_d5ede8f9 ON public.quotas_chart_note USING btree (tenant_id);
CREATE INDEX quotas_delivery_task_id_c065b85b_like ON public.quotas_delivery USING btree (task_id varchar_pattern_ops);
CREATE INDEX quotas_emergencyevent_pgh_obj_id_1fa0d8dc ON public.quotas_emergencyevent USING btree (pgh_obj_id);
CREATE INDEX quotas_endpoint_name_18891623_like ON public.quotas_endpoint USING btree (name varchar_pattern_ops);
CREATE INDEX quotas_endpointevent_pgh_obj_id_227357fe ON public.quotas_endpointevent USING btree (pgh_obj_id);
CREATE INDEX quotas_endpointtargetevent_pgh_obj_id_13e17c0d ON public.quotas_endpointtargetevent USING btree (pgh_obj_id);
CREATE INDEX quotas_foldstate_name_b360e8df_like ON public.quotas_foldstate USING btree (name varchar_pattern_ops);
CREATE INDEX quotas_freezeevent_pgh_obj_id_ec1a5b68 ON public.quotas_freezeevent USING btree (pgh_obj_id);
CREATE INDEX quotas_fresh_10s_refused ON ONLY public.quotas_fresh_10s USING btree (start) WHERE ((outcome)::text = ANY ((ARRAY['d'::character varying, 'z'::character varying, 'p'::character varying, 'o'::character varying, 'u'::character varying, 'c'::character varying])::text[]));
CREATE INDEX quotas_fresh_1m_refused ON ONLY public.quotas_fresh_1m USING btree (start) WHERE ((outcome)::text = ANY ((ARRAY['d'::character varying, 'z'::character varying, 'p'::character varying, 'o'::character varying, 'u'::character varying, 'c'::character varying])::text[]));
CREATE INDEX quotas_gaprecord_end_db151c23 ON public.quotas_gaprecord USING btree ("end");
CREATE INDEX quotas_heartbeat_name_92bee2da_like ON public.quotas_heartbeat USING btree (name varchar_pattern_ops);
CREATE INDEX quotas_jobslot_job_487d794c_like ON public.quotas_jobslot USING btree (job varchar_pattern_ops);
CREATE INDEX quotas_limit_changed_revision_id_913c40a6 ON public.quotas_limit USING btree (changed_revision_id);
CREATE INDEX quotas_limit_name_id_81516213 ON public.quotas_limit USING btree (name_id);
CREATE INDEX quotas_limit_policy_id_45b72de2 ON public.quotas_limit USING btree (policy_id);
CREATE INDEX quotas_limitevent_pgh_obj_id_dc3c6321 ON public.quotas_limitevent USING btree (pgh_obj_id);
CREATE INDEX quotas_limitname_name_a220238c_like ON public.quotas_limitname USING btree (name varchar_pattern_ops);
CREATE INDEX quotas_limitnameevent_pgh_obj_id_6aaaad76 ON public.quotas_limitnameevent USING btree (pgh_obj_id);
CREATE INDEX quotas_outbox_revision_id_82e25778 ON public.quotas_outbox USING btree (revision_id);
CREATE INDEX quotas_override_cancelled_revision_id_3c7fd6f7 ON public.quotas_override USING btree (cancelled_revision_id);
CREATE INDEX quotas_override_created_revision_id_2dc4cd17 ON public.quotas_override USING btree (created_revision_id);
CREATE INDEX quotas_override_endpoint_id_870d3d58 ON public.quotas_override USING btree (endpoint_id);
CREATE INDEX quotas_override_tenant_id_4caf4697 ON public.quotas_override USING btree (tenant_id);
CREATE INDEX quotas_overrideevent_pgh_obj_id_378acd05 ON public.quotas_overrideevent USING btree (pgh_obj_id);
CREATE INDEX quotas_packed_10s_refused ON ONLY public.quotas_packed_10s USING btree (slot) WHERE ((outcome)::text = ANY ((ARRAY['d'::character varying, 'z'::character varying, 'p'::character varying, 'o'::character varying, 'u'::character varying, 'c'::character varying])::text[]));
CREATE INDEX quotas_packed_1m_refused ON ONLY public.quotas_packed_1m USING btree (slot) WHERE ((outcome)::text = ANY ((ARRAY['d'::character varying, 'z'::character varying, 'p'::character varying, 'o'::character varying, 'u'::character varying, 'c'::character varying])::text[]));
CREATE INDEX quotas_policy_endpoint_id_c0ff7d71 ON public.quotas_policy USING btree (endpoint_id);
CREATE INDEX quotas_policy_name_ab09a0a1_like ON public.quotas_policy USING btree (name varchar_pattern_ops);
CREATE INDEX quotas_policy_tenant_id_61478cc5 ON public.quotas_policy USING btree (tenant_id);
CREATE INDEX quotas_policy_tier_id_c1fd84e2 ON public.quotas_policy USING btree (tier_id);
CREATE INDEX quotas_policyevent_pgh_obj_id_fe74b102 ON public.quotas_policyevent USING btree (pgh_obj_id);
CREATE INDEX quotas_quotarequest_override_id_8109d464 ON public.quotas_quotarequest USING btree (override_id);
CREATE INDEX quotas_quotarequest_tenant_id_4717d9cf ON public.quotas_quotarequest USING btree (tenant_id);
CREATE INDEX quotas_quotarequestevent_pgh_obj_id_83bc655a ON public.quotas_quotarequestevent USING btree (pgh_obj_id);
CREATE INDEX quotas_recommendation_change_id_f811aaed ON public.quotas_recommendation USING btree (change_id);
CREATE INDEX quotas_recommendationevent_pgh_obj_id_6fc7a10b ON public.quotas_recommendationevent USING btree (pgh_obj_id);
CREATE INDEX quotas_saved_view_owner_id_6d51c537 ON public.quotas_saved_view USING btree (owner_id);
CREATE INDEX quotas_taskslice_task_id_2b8b849d ON public.quotas_taskslice USING btree (task_id);
CREATE INDEX quotas_usage_1d_refused ON ONLY public.quotas_usage_1d USING btree (start) WHERE ((outcome)::text = ANY ((ARRAY['d'::character varying, 'z'::character varying, 'p'::character varying, 'o'::character varying, 'u'::character varying, 'c'::character varying])::text[]));
CREATE INDEX quotas_usage_1h_refused ON ONLY public.quotas_usage_1h USING btree (start) WHERE ((outcome)::text = ANY ((ARRAY['d'::character varying, 'z'::character varying, 'p'::character varying, 'o'::character varying, 'u'::character varying, 'c'::character varying])::text[]));
CREATE UNIQUE INDEX recommendation_open_once ON public.quotas_recommendation USING btree (policy, "limit", tenant) WHERE ((stage)::text = ANY ((ARRAY['insufficient'::character varying, 'draft'::character varying, 'simulated'::character varying, 'approved'::character varying, 'shadow'::character varying, 'enforced'::character varying])::text[]));
CREATE INDEX recommendation_stage ON public.quotas_recommendation USING btree (stage, id DESC);
CREATE INDEX revision_touched ON public.quotas_revision USING gin (touched);
CREATE INDEX stored_answer_created ON public.api_storedanswer USING btree (created);
CREATE INDEX task_kind ON public.quotas_task USING btree (kind, id DESC);
CREATE INDEX tenant_archived ON public.tenants_tenant USING btree (name) WHERE (archived_at IS NOT NULL);
CREATE INDEX tenant_by_tier ON public.tenants_tenant USING btree (tier_id, name);
CREATE INDEX tenant_handed_over ON public.tenants_tenant USING btree (tier_id) WHERE (NOT (handovers = '[]'::jsonb));
CREATE INDEX tenant_search_grams ON public.quotas_tenant_search USING gin (public.headroom_grams(text));
CREATE INDEX tenant_summary_asked ON public.quotas_tenant_summary USING btree (asked, tenant_id);
CREATE INDEX tenant_summary_denied ON public.quotas_tenant_summary USING btree (denied, tenant_id);
CREATE INDEX tenant_summary_denied_at ON public.quotas_tenant_summary USING btree (denied_at);
CREATE INDEX tenant_summary_last_at ON public.quotas_tenant_summary USING btree (last_at, tenant_id);
CREATE INDEX tenant_summary_share ON public.quotas_tenant_summary USING btree (share, tenant_id);
CREATE INDEX tenant_summary_use ON public.quotas_tenant_summary USING btree (use, tenant_id);
CREATE INDEX tenant_suspended ON public.tenants_tenant USING btree (name) WHERE suspended;
CREATE INDEX tenant_tags ON public.tenants_tenant USING gin (tags);
CREATE INDEX tenants_accountevent_pgh_obj_id_00cdfea7 ON public.tenants_accountevent USING btree (pgh_obj_id);
CREATE INDEX tenants_apikey_key_id_1c7f7fea_like ON public.tenants_apikey USING btree (key_id varchar_pattern_ops);
CREATE INDEX tenants_apikey_successor_id_baa68749 ON public.tenants_apikey USING btree (successor_id);
CREATE INDEX tenants_apikey_tenant_id_93769949 ON public.tenants_apikey USING btree (tenant_id);
CREATE INDEX tenants_apikeyevent_pgh_obj_id_330c81f7 ON public.tenants_apikeyevent USING btree (pgh_obj_id);
CREATE INDEX tenants_apitoken_issuer_id_6a075c9a ON public.tenants_apitoken USING btree (issuer_id);
CREATE INDEX tenants_apitoken_key_id_089f3877_like ON public.tenants_apitoken USING btree (key_id varchar_pattern_ops);
CREATE INDEX tenants_apitoken_tenant_id_f7ecd797 ON public.tenants_apitoken USING btree (tenant_id);
CREATE INDEX tenants_apitokenevent_pgh_obj_id_82f731f0 ON public.tenants_apitokenevent USING btree (pgh_obj_id);
CREATE INDEX tenants_membership_tenant_id_55f75d05 ON public.tenants_membership USING btree (tenant_id);
CREATE INDEX tenants_membershipevent_pgh_obj_id_8ec0ae7f ON public.tenants_membershipevent USING btree (pgh_obj_id);
CREATE INDEX tenants_tenant_name_a74dac10_like ON public.tenants_tenant USING btree (name varchar_pattern_ops);
CREATE INDEX tenants_tenant_tier_id_71b81280 ON public.tenants_tenant USING btree (tier_id);
CREATE INDEX tenants_tenantevent_pgh_obj_id_42801515 ON public.tenants_tenantevent USING btree (pgh_obj_id);
CREATE INDEX tenants_tier_name_ae576263_like ON public.tenants_tier USING btree (name varchar_pattern_ops);
CREATE INDEX tenants_tierevent_pgh_obj_id_05c09b19 ON public.tenants_tierevent USING btree (pgh_obj_id);
CREATE TRIGGER headroom_tenant_added AFTER INSERT ON public.tenants_tenant REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION public.headroom_tenant_rows();
CREATE TRIGGER headroom_tenant_changed AFTER UPDATE ON public.tenants_tenant REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION public.headroom_tenant_rows();
CREATE TRIGGER pgtrigger_append_only_0d822 BEFORE DELETE OR UPDATE ON public.quotas_auditevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_0d822();
COMMENT ON TRIGGER pgtrigger_append_only_0d822 ON public.quotas_auditevent IS 'f5fc567beb4aec16d40d5f611942f6f5e0dedb3d';
CREATE TRIGGER pgtrigger_append_only_10c3b BEFORE DELETE OR UPDATE ON public.quotas_freezeevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_10c3b();
COMMENT ON TRIGGER pgtrigger_append_only_10c3b ON public.quotas_freezeevent IS '4deba136f2a6f8388b77caad05886e9f1d55608c';
CREATE TRIGGER pgtrigger_append_only_20e07 BEFORE DELETE OR UPDATE ON public.quotas_calibrationsettingevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_20e07();
COMMENT ON TRIGGER pgtrigger_append_only_20e07 ON public.quotas_calibrationsettingevent IS '8e47b70f1bfcaef61c53981fccfc35e7b1efe7ae';
CREATE TRIGGER pgtrigger_append_only_2e93f BEFORE DELETE OR UPDATE ON public.quotas_limitnameevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_2e93f();
COMMENT ON TRIGGER pgtrigger_append_only_2e93f ON public.quotas_limitnameevent IS 'f06701fd23614c3d7ac8808435a6cdb1948d77cf';
CREATE TRIGGER pgtrigger_append_only_4c602 BEFORE DELETE OR UPDATE ON public.quotas_alerttargetevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_4c602();
COMMENT ON TRIGGER pgtrigger_append_only_4c602 ON public.quotas_alerttargetevent IS '26e7d9765be876a58bb88d3b0e193faeaef8caf8';
CREATE TRIGGER pgtrigger_append_only_6288a BEFORE DELETE OR UPDATE ON public.quotas_emergencyevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_6288a();
COMMENT ON TRIGGER pgtrigger_append_only_6288a ON public.quotas_emergencyevent IS 'f0e9c57cfca49c983b424a5af7909f77d789305c';
CREATE TRIGGER pgtrigger_append_only_66dc7 BEFORE DELETE OR UPDATE ON public.quotas_quotarequestevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_66dc7();
COMMENT ON TRIGGER pgtrigger_append_only_66dc7 ON public.quotas_quotarequestevent IS 'ced06fb020cba92f1db5e25b4fcae6a00a3c4a00';
CREATE TRIGGER pgtrigger_append_only_6ef26 BEFORE DELETE OR UPDATE ON public.tenants_apikeyevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_6ef26();
COMMENT ON TRIGGER pgtrigger_append_only_6ef26 ON public.tenants_apikeyevent IS '0bc92d29632142ca74254424b210c01843c93054';
CREATE TRIGGER pgtrigger_append_only_6efaa BEFORE DELETE OR UPDATE ON public.quotas_recommendationevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_6efaa();
COMMENT ON TRIGGER pgtrigger_append_only_6efaa ON public.quotas_recommendationevent IS 'ff3ed0db5aec110977ab23040de5c84ecf5048c8';
CREATE TRIGGER pgtrigger_append_only_723aa BEFORE DELETE OR UPDATE ON public.quotas_endpointevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_723aa();
COMMENT ON TRIGGER pgtrigger_append_only_723aa ON public.quotas_endpointevent IS 'f0057356595aa9050f31662f207f6ae8ce92f652';
CREATE TRIGGER pgtrigger_append_only_7659e BEFORE DELETE OR UPDATE ON public.quotas_overrideevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_7659e();
COMMENT ON TRIGGER pgtrigger_append_only_7659e ON public.quotas_overrideevent IS 'ca74f1cf21f6ffdac9265f9ce8da54b987e9d0d5';
CREATE TRIGGER pgtrigger_append_only_79baf BEFORE DELETE OR UPDATE ON public.tenants_apitokenevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_79baf();
COMMENT ON TRIGGER pgtrigger_append_only_79baf ON public.tenants_apitokenevent IS 'd4a196596e619ef89ea6af63f39f5dcb513d213b';
CREATE TRIGGER pgtrigger_append_only_8b4fa BEFORE DELETE OR UPDATE ON public.quotas_approvalevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_8b4fa();
COMMENT ON TRIGGER pgtrigger_append_only_8b4fa ON public.quotas_approvalevent IS 'f1b21401c74e28087f97bc7dca820eca71935697';
CREATE TRIGGER pgtrigger_append_only_ac45c BEFORE DELETE OR UPDATE ON public.tenants_tenantevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_ac45c();
COMMENT ON TRIGGER pgtrigger_append_only_ac45c ON public.tenants_tenantevent IS '362ddd33837ad2cb285c1e084c8fc25051cb0cd6';
CREATE TRIGGER pgtrigger_append_only_b7509 BEFORE DELETE OR UPDATE ON public.quotas_endpointtargetevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_b7509();
COMMENT ON TRIGGER pgtrigger_append_only_b7509 ON public.quotas_endpointtargetevent IS 'dcfeac5d800eb79da5b8dd257ba3ce226f53c5bc';
CREATE TRIGGER pgtrigger_append_only_bd3f0 BEFORE DELETE OR UPDATE ON public.tenants_membershipevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_bd3f0();
COMMENT ON TRIGGER pgtrigger_append_only_bd3f0 ON public.tenants_membershipevent IS 'ebc4220487ad8e722ff3decd26f74b5803020496';
CREATE TRIGGER pgtrigger_append_only_c089f BEFORE DELETE OR UPDATE ON public.quotas_policyevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_c089f();
COMMENT ON TRIGGER pgtrigger_append_only_c089f ON public.quotas_policyevent IS 'b44c57717327d93a65aa7797790d2dc25e55fd56';
CREATE TRIGGER pgtrigger_append_only_de626 BEFORE DELETE OR UPDATE ON public.quotas_changeevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_de626();
COMMENT ON TRIGGER pgtrigger_append_only_de626 ON public.quotas_changeevent IS '2f8f3bafbe945d213be8e268ef103c9ee0bac554';
CREATE TRIGGER pgtrigger_append_only_e576a BEFORE DELETE OR UPDATE ON public.quotas_limitevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_e576a();
COMMENT ON TRIGGER pgtrigger_append_only_e576a ON public.quotas_limitevent IS '68f99fbd84aa75e4bad7080adb04fc700be657f0';
CREATE TRIGGER pgtrigger_append_only_f4fdc BEFORE DELETE OR UPDATE ON public.tenants_accountevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_f4fdc();
COMMENT ON TRIGGER pgtrigger_append_only_f4fdc ON public.tenants_accountevent IS 'cb828e591037a2f9178bbe9e59250db5bb007962';
CREATE TRIGGER pgtrigger_append_only_f5f82 BEFORE DELETE OR UPDATE ON public.tenants_tierevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_f5f82();
COMMENT ON TRIGGER pgtrigger_append_only_f5f82 ON public.tenants_tierevent IS 'bd697d0888170095ec701c0bd11645e20538e0c6';
CREATE TRIGGER pgtrigger_append_only_fd4bb BEFORE DELETE OR UPDATE ON public.quotas_alertsettingevent FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_append_only_fd4bb();
COMMENT ON TRIGGER pgtrigger_append_only_fd4bb ON public.quotas_alertsettingevent IS '011bdfbcfd8f53493c96416d40d8d66a02be8031';
CREATE TRIGGER pgtrigger_delete_delete_1794f AFTER DELETE ON public.quotas_override FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_1794f();
COMMENT ON TRIGGER pgtrigger_delete_delete_1794f ON public.quotas_override IS 'f479d30d858b3c01795661a610a60e8333b08158';
CREATE TRIGGER pgtrigger_delete_delete_26007 AFTER DELETE ON public.quotas_alerttarget FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_26007();
COMMENT ON TRIGGER pgtrigger_delete_delete_26007 ON public.quotas_alerttarget IS 'd0214ec9daee1e0be9b182e9f68538ac23c58fc2';
CREATE TRIGGER pgtrigger_delete_delete_27ae5 AFTER DELETE ON public.quotas_limit FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_27ae5();
COMMENT ON TRIGGER pgtrigger_delete_delete_27ae5 ON public.quotas_limit IS 'aecefe6545ff73a67aef80c9cf8f5da82929d17d';
CREATE TRIGGER pgtrigger_delete_delete_292e5 AFTER DELETE ON public.quotas_quotarequest FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_292e5();
COMMENT ON TRIGGER pgtrigger_delete_delete_292e5 ON public.quotas_quotarequest IS 'c8aa5dbe90126b93de9ecbe56e79c67a5d578ddc';
CREATE TRIGGER pgtrigger_delete_delete_3e4b0 AFTER DELETE ON public.tenants_apitoken FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_3e4b0();
COMMENT ON TRIGGER pgtrigger_delete_delete_3e4b0 ON public.tenants_apitoken IS '7ea835643b2ab63ca1918f13651374df086767d6';
CREATE TRIGGER pgtrigger_delete_delete_3fd8b AFTER DELETE ON public.quotas_limitname FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_3fd8b();
COMMENT ON TRIGGER pgtrigger_delete_delete_3fd8b ON public.quotas_limitname IS '8096c3a90b07c80650db991456dacebf87bd0214';
CREATE TRIGGER pgtrigger_delete_delete_41920 AFTER DELETE ON public.quotas_alertsetting FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_41920();
COMMENT ON TRIGGER pgtrigger_delete_delete_41920 ON public.quotas_alertsetting IS '6fbfc19cb0cfdf0af7b98ca557ca7acbeae4aa0a';
CREATE TRIGGER pgtrigger_delete_delete_44b14 AFTER DELETE ON public.quotas_endpointtarget FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_44b14();
COMMENT ON TRIGGER pgtrigger_delete_delete_44b14 ON public.quotas_endpointtarget IS '7134f710750a29e554de4397b6c98a82d9234d7b';
CREATE TRIGGER pgtrigger_delete_delete_55689 AFTER DELETE ON public.quotas_policy FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_55689();
COMMENT ON TRIGGER pgtrigger_delete_delete_55689 ON public.quotas_policy IS '5acbf819d79787e6f91549446b73d0b2150a5a21';
CREATE TRIGGER pgtrigger_delete_delete_733dc AFTER DELETE ON public.auth_user FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_733dc();
COMMENT ON TRIGGER pgtrigger_delete_delete_733dc ON public.auth_user IS 'd25b21b96659781cad387899fad903799a0e982f';
CREATE TRIGGER pgtrigger_delete_delete_7c182 AFTER DELETE ON public.quotas_freeze FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_7c182();
COMMENT ON TRIGGER pgtrigger_delete_delete_7c182 ON public.quotas_freeze IS 'a39e8c874e7f2299712567822d1073c9c585b8cc';
CREATE TRIGGER pgtrigger_delete_delete_a7533 AFTER DELETE ON public.quotas_recommendation FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_a7533();
COMMENT ON TRIGGER pgtrigger_delete_delete_a7533 ON public.quotas_recommendation IS '23d207695101a19ceb32c5e8a6b5290748c32704';
CREATE TRIGGER pgtrigger_delete_delete_ae3d8 AFTER DELETE ON public.tenants_tier FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_ae3d8();
COMMENT ON TRIGGER pgtrigger_delete_delete_ae3d8 ON public.tenants_tier IS 'e1ac923866ca51c8bb121f334f967207ff1a4d8b';
CREATE TRIGGER pgtrigger_delete_delete_c9c63 AFTER DELETE ON public.quotas_approval FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_c9c63();
COMMENT ON TRIGGER pgtrigger_delete_delete_c9c63 ON public.quotas_approval IS '3dfdd010f2058cfe25d209e36fda13ae70945558';
CREATE TRIGGER pgtrigger_delete_delete_dc7d9 AFTER DELETE ON public.quotas_change FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_dc7d9();
COMMENT ON TRIGGER pgtrigger_delete_delete_dc7d9 ON public.quotas_change IS 'cebabd9b754d4311d87a1c4662f0e3f7f00a9300';
CREATE TRIGGER pgtrigger_delete_delete_dd0a8 AFTER DELETE ON public.quotas_calibrationsetting FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_dd0a8();
COMMENT ON TRIGGER pgtrigger_delete_delete_dd0a8 ON public.quotas_calibrationsetting IS '43a3587d891cb83156d5544bcdc20f72ce342b32';
CREATE TRIGGER pgtrigger_delete_delete_e3c84 AFTER DELETE ON public.tenants_tenant FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_e3c84();
COMMENT ON TRIGGER pgtrigger_delete_delete_e3c84 ON public.tenants_tenant IS '8aa538247beda6470a56b5b3af6a9821f53804f6';
CREATE TRIGGER pgtrigger_delete_delete_ebef7 AFTER DELETE ON public.quotas_emergency FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_ebef7();
COMMENT ON TRIGGER pgtrigger_delete_delete_ebef7 ON public.quotas_emergency IS '0d62658bdc690b5cef2736591f2c142ac41661bd';
CREATE TRIGGER pgtrigger_delete_delete_ed5c2 AFTER DELETE ON public.tenants_apikey FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_ed5c2();
COMMENT ON TRIGGER pgtrigger_delete_delete_ed5c2 ON public.tenants_apikey IS '947f3752486c5ff2b0e351dedfd2951daac1fc93';
CREATE TRIGGER pgtrigger_delete_delete_efc03 AFTER DELETE ON public.tenants_membership FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_efc03();
COMMENT ON TRIGGER pgtrigger_delete_delete_efc03 ON public.tenants_membership IS 'fc3c62e116627ca2611a18083b94e008033bbd13';
CREATE TRIGGER pgtrigger_delete_delete_fbed4 AFTER DELETE ON public.quotas_endpoint FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_delete_delete_fbed4();
COMMENT ON TRIGGER pgtrigger_delete_delete_fbed4 ON public.quotas_endpoint IS '7cd16b00f8eb4c61bbc279488e2bfb7bea8fce42';
CREATE TRIGGER pgtrigger_insert_insert_01476 AFTER INSERT ON public.quotas_alertsetting FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_01476();
COMMENT ON TRIGGER pgtrigger_insert_insert_01476 ON public.quotas_alertsetting IS '49e030cd444e843345ad3f7af4dc94b7e2e49ba6';
CREATE TRIGGER pgtrigger_insert_insert_06afa AFTER INSERT ON public.quotas_policy FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_06afa();
COMMENT ON TRIGGER pgtrigger_insert_insert_06afa ON public.quotas_policy IS '22d737152aec4c84a14481f7f5a48d1691f63f69';
CREATE TRIGGER pgtrigger_insert_insert_0f00f AFTER INSERT ON public.tenants_tenant FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_0f00f();
COMMENT ON TRIGGER pgtrigger_insert_insert_0f00f ON public.tenants_tenant IS 'ebf8d7c85868288c417f3f0402eff060474a8d40';
CREATE TRIGGER pgtrigger_insert_insert_2eeaa AFTER INSERT ON public.tenants_tier FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_2eeaa();
COMMENT ON TRIGGER pgtrigger_insert_insert_2eeaa ON public.tenants_tier IS '52522bbe7637c76c47d46ff0147fd1bb67887a38';
CREATE TRIGGER pgtrigger_insert_insert_4b5e1 AFTER INSERT ON public.quotas_limit FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_4b5e1();
COMMENT ON TRIGGER pgtrigger_insert_insert_4b5e1 ON public.quotas_limit IS '468e75095cd5d7b3831731224eef0de9e2be6212';
CREATE TRIGGER pgtrigger_insert_insert_4c390 AFTER INSERT ON public.quotas_change FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_4c390();
COMMENT ON TRIGGER pgtrigger_insert_insert_4c390 ON public.quotas_change IS '83de6f4925b0093a175ec6fae6bf653c71455bbe';
CREATE TRIGGER pgtrigger_insert_insert_5c32b AFTER INSERT ON public.quotas_alerttarget FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_5c32b();
COMMENT ON TRIGGER pgtrigger_insert_insert_5c32b ON public.quotas_alerttarget IS '5b13b58450b9b48043aef8b335ee74d59dd1d15f';
CREATE TRIGGER pgtrigger_insert_insert_60f00 AFTER INSERT ON public.quotas_approval FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_60f00();
COMMENT ON TRIGGER pgtrigger_insert_insert_60f00 ON public.quotas_approval IS '417dba4553074f70b0fabbaa2abd5af0ed7fbde1';
CREATE TRIGGER pgtrigger_insert_insert_65f0e AFTER INSERT ON public.tenants_membership FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_65f0e();
COMMENT ON TRIGGER pgtrigger_insert_insert_65f0e ON public.tenants_membership IS '7e40ff053cb6bd47438e4693df0d22973ede3d3f';
CREATE TRIGGER pgtrigger_insert_insert_6bfea AFTER INSERT ON public.quotas_calibrationsetting FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_6bfea();
COMMENT ON TRIGGER pgtrigger_insert_insert_6bfea ON public.quotas_calibrationsetting IS '0f24e09c67d16a9d4741c0ca77f71e39b21ec418';
CREATE TRIGGER pgtrigger_insert_insert_75457 AFTER INSERT ON public.quotas_emergency FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_75457();
COMMENT ON TRIGGER pgtrigger_insert_insert_75457 ON public.quotas_emergency IS '29e8c3d1013a15d09c01854c01b79ee61e76b001';
CREATE TRIGGER pgtrigger_insert_insert_84bb4 AFTER INSERT ON public.quotas_endpoint FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_84bb4();
COMMENT ON TRIGGER pgtrigger_insert_insert_84bb4 ON public.quotas_endpoint IS '19b4816f3a4d0c445a55bb8b78a2d3153bf3afde';
CREATE TRIGGER pgtrigger_insert_insert_91c78 AFTER INSERT ON public.quotas_override FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_91c78();
COMMENT ON TRIGGER pgtrigger_insert_insert_91c78 ON public.quotas_override IS '60c111d4adf9f087ec425f5f44e81a96e1252d25';
CREATE TRIGGER pgtrigger_insert_insert_9ca29 AFTER INSERT ON public.quotas_limitname FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_9ca29();
COMMENT ON TRIGGER pgtrigger_insert_insert_9ca29 ON public.quotas_limitname IS '4b0aa994b58734466487f4384952ed0f74b8e760';
CREATE TRIGGER pgtrigger_insert_insert_b7e2f AFTER INSERT ON public.tenants_apikey FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_b7e2f();
COMMENT ON TRIGGER pgtrigger_insert_insert_b7e2f ON public.tenants_apikey IS 'aea5ed7e5037ec95849290148b4367407cd6a14b';
CREATE TRIGGER pgtrigger_insert_insert_b95ee AFTER INSERT ON public.quotas_freeze FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_b95ee();
COMMENT ON TRIGGER pgtrigger_insert_insert_b95ee ON public.quotas_freeze IS '4f03bf4c560f9fb4da7a66771df9a3b6698380af';
CREATE TRIGGER pgtrigger_insert_insert_c1ed3 AFTER INSERT ON public.quotas_quotarequest FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_c1ed3();
COMMENT ON TRIGGER pgtrigger_insert_insert_c1ed3 ON public.quotas_quotarequest IS '3938122b7b40d655f7a098a7ed3a0b8d2f138a73';
CREATE TRIGGER pgtrigger_insert_insert_c6ee7 AFTER INSERT ON public.tenants_apitoken FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_c6ee7();
COMMENT ON TRIGGER pgtrigger_insert_insert_c6ee7 ON public.tenants_apitoken IS 'e729f313e3f629f9f3e8636438eb9405c9c94e55';
CREATE TRIGGER pgtrigger_insert_insert_e8c47 AFTER INSERT ON public.quotas_recommendation FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_e8c47();
COMMENT ON TRIGGER pgtrigger_insert_insert_e8c47 ON public.quotas_recommendation IS 'd0e22ca946f5b368781e94ea6163825cdf4fd112';
CREATE TRIGGER pgtrigger_insert_insert_e966a AFTER INSERT ON public.quotas_endpointtarget FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_e966a();
COMMENT ON TRIGGER pgtrigger_insert_insert_e966a ON public.quotas_endpointtarget IS '971210c1731abd8af94e5b80002e66cdd7780c0a';
CREATE TRIGGER pgtrigger_insert_insert_f6bb6 AFTER INSERT ON public.auth_user FOR EACH ROW EXECUTE FUNCTION public.pgtrigger_insert_insert_f6bb6();
COMMENT ON TRIGGER pgtrigger_insert_insert_f6bb6 ON public.auth_user IS '4a2b958b59b508dc82c23253882567357b0cb970';
CREATE TRIGGER pgtrigger_update_update_1d24b AFTER UPDATE ON public.quotas_endpointtarget FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.pgtrigger_update_update_1d24b();
COMMENT ON TRIGGER pgtrigger_update_update_1d24b ON public.quotas_endpointtarget IS 'b759b626a638502f22a16c24fb1f4c07f304669a';
CREATE TRIGGER pgtrigger_update_update_246bc AFTER UPDATE ON public.tenants_apikey FOR EACH ROW WHEN (((old.created IS DISTINCT FROM new.created) OR (old.expires_at IS DISTINCT FROM new.expires_at) OR (old.id IS DISTINCT FROM new.id) OR ((old.key_id)::text IS DISTINCT FROM (new.key_id)::text) OR ((old.label)::text IS DISTINCT FROM (new.label)::text) OR ((old.lineage)::text IS DISTINCT FROM (new.lineage)::text) OR (old.revoked_at IS DISTINCT FROM new.revoked_at) OR (old.scopes IS DISTINCT FROM new.scopes) OR (old.successor_id IS DISTINCT FROM new.successor_id) OR (old.tenant_id IS DISTINCT FROM new.tenant_id))) EXECUTE FUNCTION public.pgtrigger_update_update_246bc();
COMMENT ON TRIGGER pgtrigger_update_update_246bc ON public.tenants_apikey IS '00df227f6dd86f4bd8cbd679d7650614267a9fbe';
CREATE TRIGGER pgtrigger_update_update_2991e AFTER UPDATE ON public.quotas_emergency FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.pgtrigger_update_update_2991e();
COMMENT ON TRIGGER pgtrigger_update_update_2991e ON public.quotas_emergency IS '1a520d6514e2879904cc9130b7b39009d10ceaa8';
CREATE TRIGGER pgtrigger_update_update_2d6b8 AFTER UPDATE ON public.quotas_calibrationsetting FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.pgtrigger_update_update_2d6b8();
COMMENT ON TRIGGER pgtrigger_update_update_2d6b8 ON public.quotas_calibrationsetting IS 'fa8be46cbcbcffa4df207c91683b6d3a614df07c';
CREATE TRIGGER pgtrigger_update_update_38ec7 AFTER UPDATE ON public.tenants_membership FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.pgtrigger_update_update_38ec7();
COMMENT ON TRIGGER pgtrigger_update_update_38ec7 ON public.tenants_membership IS '247f173058b65c3c6b612f13f2e4e2f6756859ce';
CREATE TRIGGER pgtrigger_update_update_40f69 AFTER UPDATE ON public.quotas_policy FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.pgtrigger_update_update_40f69();
COMMENT ON TRIGGER pgtrigger_update_update_40f69 ON public.quotas_policy IS 'e6a115bd5a53104e0ba53cd4c8b7f634d2b3b6ff';
CREATE TRIGGER pgtrigger_update_update_5036f AFTER UPDATE ON public.quotas_override FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.pgtrigger_update_update_5036f();
COMMENT ON TRIGGER pgtrigger_update_update_5036f ON public.quotas_override IS '8525117c49359dc15d60359741a4b7bd609e1567';
CREATE TRIGGER pgtrigger_update_update_5abae AFTER UPDATE ON public.quotas_limitname FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.pgtrigger_update_update_5abae();
COMMENT ON TRIGGER pgtrigger_update_update_5abae ON public.quotas_limitname IS 'd245205c7d6593331a37447ad8486325a66a89cc';
CREATE TRIGGER pgtrigger_update_update_5b803 AFTER UPDATE ON public.quotas_freeze FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.pgtrigger_update_update_5b803();
COMMENT ON TRIGGER pgtrigger_update_update_5b803 ON public.quotas_freeze IS '0e29ba68434f2c1e6ab762dc920dc0e91b1e3967';
CREATE TRIGGER pgtrigger_update_update_64407 AFTER UPDATE ON public.quotas_alerttarget FOR EACH ROW WHEN ((((old.address)::text IS DISTINCT FROM (new.address)::text) OR (old.alerts IS DISTINCT FROM new.alerts) OR (old.created IS DISTINCT FROM new.created) OR (old.id IS DISTINCT FROM new.id) OR (old.is_on IS DISTINCT FROM new.is_on) OR ((old.kind)::text IS DISTINCT FROM (new.kind)::text) OR ((old.label)::text IS DISTINCT FROM (new.label)::text) OR (old.quiet_from IS DISTINCT FROM new.quiet_from) OR (old.quiet_until IS DISTINCT FROM new.quiet_until) OR ((old.timezone)::text IS DISTINCT FROM (new.timezone)::text))) EXECUTE FUNCTION public.pgtrigger_update_update_64407();
COMMENT ON TRIGGER pgtrigger_update_update_64407 ON public.quotas_alerttarget IS 'e45c076199022f0ace2f2e088d9a3b224a9270d6';
CREATE TRIGGER pgtrigger_update_update_764c1 AFTER UPDATE ON public.tenants_tier FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.pgtrigger_update_update_764c1();
COMMENT ON TRIGGER pgtrigger_update_update_764c1 ON public.tenants_tier IS '3ddab12c95eb84d10ff556e9fd4e2aa8b09a918b';
CREATE TRIGGER pgtrigger_update_update_8ddba AFTER UPDATE ON public.tenants_tenant FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.pgtrigger_update_update_8ddba();
COMMENT ON TRIGGER pgtrigger_update_update_8ddba ON public.tenants_tenant IS '5b95d1e6dfcc7a46f3eb39cd200096592be01ca5';
CREATE TRIGGER pgtrigger_update_update_aa26f AFTER UPDATE ON public.tenants_apitoken FOR EACH ROW WHEN ((((old.author)::text IS DISTINCT FROM (new.author)::text) OR (old.created IS DISTINCT FROM new.created) OR (old.id IS DISTINCT FROM new.id) OR (old.issuer_id IS DISTINCT FROM new.issuer_id) OR ((old.key_id)::text IS DISTINCT FROM (new.key_id)::text) OR ((old.label)::text IS DISTINCT FROM (new.label)::text) OR (old.may_approve IS DISTINCT FROM new.may_approve) OR (old.revoked_at IS DISTINCT FROM new.revoked_at) OR ((old.role)::text IS DISTINCT FROM (new.role)::text) OR (old.scopes IS DISTINCT FROM new.scopes) OR (old.tenant_id IS DISTINCT FROM new.tenant_id))) EXECUTE FUNCTION public.pgtrigger_update_update_aa26f();
COMMENT ON TRIGGER pgtrigger_update_update_aa26f ON public.tenants_apitoken IS 'e0d925931896e14e63d93f1b6e574ede2cb6b2a8';
CREATE TRIGGER pgtrigger_update_update_b38e9 AFTER UPDATE ON public.quotas_limit FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.pgtrigger_update_update_b38e9();
COMMENT ON TRIGGER pgtrigger_update_update_b38e9 ON public.quotas_limit IS 'a5669bfda6efd5b1d891791249cfa77b794e5396';
CREATE TRIGGER pgtrigger_update_update_b6f55 AFTER UPDATE ON public.quotas_quotarequest FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.pgtrigger_update_update_b6f55();
COMMENT ON TRIGGER pgtrigger_update_update_b6f55 ON public.quotas_quotarequest IS 'a9688e994298ff7823c7dd7865a2e309559ee3ae';
CREATE TRIGGER pgtrigger_update_update_c1e45 AFTER UPDATE ON public.quotas_endpoint FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.pgtrigger_update_update_c1e45();
COMMENT ON TRIGGER pgtrigger_update_update_c1e45 ON public.quotas_endpoint IS '2d1a9e5fe6b5132ae8edd764c7ce5c329d9ec2c9';
CREATE TRIGGER pgtrigger_update_update_cf07d AFTER UPDATE ON public.auth_user FOR EACH ROW WHEN (((old.date_joined IS DISTINCT FROM new.date_joined) OR ((old.email)::text IS DISTINCT FROM (new.email)::text) OR ((old.first_name)::text IS DISTINCT FROM (new.first_name)::text) OR (old.id IS DISTINCT FROM new.id) OR (old.is_active IS DISTINCT FROM new.is_active) OR (old.is_staff IS DISTINCT FROM new.is_staff) OR (old.is_superuser IS DISTINCT FROM new.is_superuser) OR ((old.last_name)::text IS DISTINCT FROM (new.last_name)::text) OR ((old.username)::text IS DISTINCT FROM (new.username)::text))) EXECUTE FUNCTION public.pgtrigger_update_update_cf07d();
COMMENT ON TRIGGER pgtrigger_update_update_cf07d ON public.auth_user IS '3075a69d53953b8f496021c4fa001ebada876ee9';
CREATE TRIGGER pgtrigger_update_update_da835 AFTER UPDATE ON public.quotas_alertsetting FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.pgtrigger_update_update_da835();
COMMENT ON TRIGGER pgtrigger_update_update_da835 ON public.quotas_alertsetting IS '61c64ace5da0d63292cb173dc96fbb9bcfe12a64';
CREATE TRIGGER pgtrigger_update_update_f4cab AFTER UPDATE ON public.quotas_approval FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.pgtrigger_update_update_f4cab();
COMMENT ON TRIGGER pgtrigger_update_update_f4cab ON public.quotas_approval IS '093b47e28ced5f6b218c5af12c8bdfc9851215e0';
CREATE TRIGGER pgtrigger_update_update_f8cfc AFTER UPDATE ON public.quotas_recommendation FOR EACH ROW WHEN (((old.askers IS DISTINCT FROM new.askers) OR ((old.binds)::text IS DISTINCT FROM (new.binds)::text) OR (old.change_id IS DISTINCT FROM new.change_id) OR (old.created IS DISTINCT FROM new.created) OR (old.current IS DISTINCT FROM new.current) OR (old.decided_at IS DISTINCT FROM new.decided_at) OR ((old.decider)::text IS DISTINCT FROM (new.decider)::text) OR ((old.decider_identity)::text IS DISTINCT FROM (new.decider_identity)::text) OR ((old.editor)::text IS DISTINCT FROM (new.editor)::text) OR ((old.editor_identity)::text IS DISTINCT FROM (new.editor_identity)::text) OR (old.ended_at IS DISTINCT FROM new.ended_at) OR ((old.endpoint)::text IS DISTINCT FROM (new.endpoint)::text) OR (old.enforced_at IS DISTINCT FROM new.enforced_at) OR (old.id IS DISTINCT FROM new.id) OR ((old.kind)::text IS DISTINCT FROM (new.kind)::text) OR ((old."limit")::text IS DISTINCT FROM (new."limit")::text) OR (old.measured_at IS DISTINCT FROM new.measured_at) OR (old.observed IS DISTINCT FROM new.observed) OR ((old.policy)::text IS DISTINCT FROM (new.policy)::text) OR ((old.problem)::text IS DISTINCT FROM (new.problem)::text) OR (old.proposed IS DISTINCT FROM new.proposed) OR (old.ready_at IS DISTINCT FROM new.ready_at) OR ((old.reason)::text IS DISTINCT FROM (new.reason)::text) OR (old.shadow_at IS DISTINCT FROM new.shadow_at) OR ((old.stage)::text IS DISTINCT FROM (new.stage)::text) OR ((old.summary)::text IS DISTINCT FROM (new.summary)::text) OR ((old.tenant)::text IS DISTINCT FROM (new.tenant)::text) OR ((old.tier)::text IS DISTINCT FROM (new.tier)::text) OR ((old.trust)::text IS DISTINCT FROM (new.trust)::text))) EXECUTE FUNCTION public.pgtrigger_update_update_f8cfc();
COMMENT ON TRIGGER pgtrigger_update_update_f8cfc ON public.quotas_recommendation IS '36675b20375de4223ed1c591d8e5f172f8d57aa4';
CREATE TRIGGER pgtrigger_update_update_faf19 AFTER UPDATE ON public.quotas_change FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.pgtrigger_update_update_faf19();
COMMENT ON TRIGGER pgtrigger_update_update_faf19 ON public.quotas_change IS '07dc7c7421029e3afc27303304fefe3846ff10b8';
CREATE TRIGGER quotas_revision_immutable BEFORE DELETE OR UPDATE ON public.quotas_revision FOR EACH ROW EXECUTE FUNCTION public.quotas_revision_immutable();
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissio_permission_id_84c5c92e_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_b120cbf9_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_2f476e4b_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_group_id_97559544_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_user_id_6a12ed8b_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permi_permission_id_1fbb5f2c_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_user_id_a95ead1b_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_content_type_id_c4bce8eb_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_user_id_c564eba6_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_alertdelivery
    ADD CONSTRAINT quotas_alertdelivery_target_id_41c353a2_fk_quotas_al FOREIGN KEY (target_id) REFERENCES public.quotas_alerttarget(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_approval
    ADD CONSTRAINT quotas_approval_change_id_5a41804e_fk_quotas_change_id FOREIGN KEY (change_id) REFERENCES public.quotas_change(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_change
    ADD CONSTRAINT quotas_change_end_revision_id_cfa8a1c9_fk_quotas_re FOREIGN KEY (end_revision_id) REFERENCES public.quotas_revision(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_change
    ADD CONSTRAINT quotas_change_revert_revision_id_a2c7cf04_fk_quotas_re FOREIGN KEY (revert_revision_id) REFERENCES public.quotas_revision(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_change
    ADD CONSTRAINT quotas_change_start_revision_id_b2d3f911_fk_quotas_re FOREIGN KEY (start_revision_id) REFERENCES public.quotas_revision(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_chart_note
    ADD CONSTRAINT quotas_chart_note_tenant_id_d5ede8f9_fk_tenants_tenant_number FOREIGN KEY (tenant_id) REFERENCES public.tenants_tenant(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_endpointtarget
    ADD CONSTRAINT quotas_endpointtarge_endpoint_number_3d7fb5a7_fk_quotas_en FOREIGN KEY (endpoint_number) REFERENCES public.quotas_endpoint(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_limit
    ADD CONSTRAINT quotas_limit_changed_revision_id_913c40a6_fk_quotas_re FOREIGN KEY (changed_revision_id) REFERENCES public.quotas_revision(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_limit
    ADD CONSTRAINT quotas_limit_name_id_81516213_fk_quotas_limitname_number FOREIGN KEY (name_id) REFERENCES public.quotas_limitname(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_limit
    ADD CONSTRAINT quotas_limit_policy_id_45b72de2_fk_quotas_policy_id FOREIGN KEY (policy_id) REFERENCES public.quotas_policy(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_outbox
    ADD CONSTRAINT quotas_outbox_revision_id_82e25778_fk_quotas_revision_number FOREIGN KEY (revision_id) REFERENCES public.quotas_revision(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_override
    ADD CONSTRAINT quotas_override_cancelled_revision_i_3c7fd6f7_fk_quotas_re FOREIGN KEY (cancelled_revision_id) REFERENCES public.quotas_revision(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_override
    ADD CONSTRAINT quotas_override_created_revision_id_2dc4cd17_fk_quotas_re FOREIGN KEY (created_revision_id) REFERENCES public.quotas_revision(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_override
    ADD CONSTRAINT quotas_override_endpoint_id_870d3d58_fk_quotas_endpoint_number FOREIGN KEY (endpoint_id) REFERENCES public.quotas_endpoint(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_override
    ADD CONSTRAINT quotas_override_tenant_id_4caf4697_fk_tenants_tenant_number FOREIGN KEY (tenant_id) REFERENCES public.tenants_tenant(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_policy
    ADD CONSTRAINT quotas_policy_endpoint_id_c0ff7d71_fk_quotas_endpoint_number FOREIGN KEY (endpoint_id) REFERENCES public.quotas_endpoint(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_policy
    ADD CONSTRAINT quotas_policy_tenant_id_61478cc5_fk_tenants_tenant_number FOREIGN KEY (tenant_id) REFERENCES public.tenants_tenant(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_policy
    ADD CONSTRAINT quotas_policy_tier_id_c1fd84e2_fk_tenants_tier_number FOREIGN KEY (tier_id) REFERENCES public.tenants_tier(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_quotarequest
    ADD CONSTRAINT quotas_quotarequest_override_id_8109d464_fk_quotas_override_id FOREIGN KEY (override_id) REFERENCES public.quotas_override(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_quotarequest
    ADD CONSTRAINT quotas_quotarequest_tenant_id_4717d9cf_fk_tenants_tenant_number FOREIGN KEY (tenant_id) REFERENCES public.tenants_tenant(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_recommendation
    ADD CONSTRAINT quotas_recommendation_change_id_f811aaed_fk_quotas_change_id FOREIGN KEY (change_id) REFERENCES public.quotas_change(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_saved_view
    ADD CONSTRAINT quotas_saved_view_owner_id_6d51c537_fk_auth_user_id FOREIGN KEY (owner_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_taskslice
    ADD CONSTRAINT quotas_taskslice_task_id_2b8b849d_fk_quotas_task_id FOREIGN KEY (task_id) REFERENCES public.quotas_task(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_tenant_search
    ADD CONSTRAINT quotas_tenant_search_tenant_id_7d6b9c94_fk_tenants_t FOREIGN KEY (tenant_id) REFERENCES public.tenants_tenant(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quotas_tenant_summary
    ADD CONSTRAINT quotas_tenant_summar_tenant_id_95017408_fk_tenants_t FOREIGN KEY (tenant_id) REFERENCES public.tenants_tenant(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.tenants_apikey
    ADD CONSTRAINT tenants_apikey_successor_id_baa68749_fk_tenants_apikey_id FOREIGN KEY (successor_id) REFERENCES public.tenants_apikey(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.tenants_apikey
    ADD CONSTRAINT tenants_apikey_tenant_id_93769949_fk_tenants_tenant_number FOREIGN KEY (tenant_id) REFERENCES public.tenants_tenant(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.tenants_apitoken
    ADD CONSTRAINT tenants_apitoken_issuer_id_6a075c9a_fk_auth_user_id FOREIGN KEY (issuer_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.tenants_apitoken
    ADD CONSTRAINT tenants_apitoken_tenant_id_f7ecd797_fk_tenants_tenant_number FOREIGN KEY (tenant_id) REFERENCES public.tenants_tenant(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.tenants_membership
    ADD CONSTRAINT tenants_membership_tenant_id_55f75d05_fk_tenants_tenant_number FOREIGN KEY (tenant_id) REFERENCES public.tenants_tenant(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.tenants_membership
    ADD CONSTRAINT tenants_membership_user_id_2c860192_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.tenants_tenant
    ADD CONSTRAINT tenants_tenant_tier_id_71b81280_fk_tenants_tier_number FOREIGN KEY (tier_id) REFERENCES public.tenants_tier(number) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE public.api_storedanswer ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.auth_user ENABLE ROW LEVEL SECURITY;
CREATE POLICY headroom_tenant ON public.api_storedanswer USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.auth_user USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (EXISTS ( SELECT 1
   FROM public.tenants_membership m
  WHERE (m.user_id = auth_user.id)))));
CREATE POLICY headroom_tenant ON public.quotas_adaptivereading USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_number = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_alertdelivery USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_alertsetting USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_alertsettingevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_alertstate USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_alerttarget USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_alerttargetevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_approval USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_approvalevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_arrival USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_number = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_auditevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_calendar USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_number = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_calibrationsetting USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_calibrationsettingevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_change USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (((state)::text = 'canary'::text) AND (( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif") IS NOT NULL))));
CREATE POLICY headroom_tenant ON public.quotas_changeevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_chart_note USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_denial USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_number = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_emergency USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_emergencyevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_endpointevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_endpointtargetevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_freeze USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_freezeevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_fresh_10s USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_number = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_fresh_1m USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_number = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_keyuse USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_number = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_latency_1h USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_limit USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (EXISTS ( SELECT 1
   FROM public.quotas_policy p
  WHERE (p.id = quotas_limit.policy_id)))));
CREATE POLICY headroom_tenant ON public.quotas_limitevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_limitnameevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_limitneed USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_outbox USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_override USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_id = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_overrideevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_packed_10s USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_number = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_packed_1m USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_number = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_policy USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_id = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif")) OR ((tenant_id IS NULL) AND (( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif") IS NOT NULL))));
CREATE POLICY headroom_tenant ON public.quotas_policyevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_quotarequest USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_id = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_quotarequestevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_id = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_rates_1d USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_number = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_rates_1h USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_number = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_recommendation USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_recommendationevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_revision USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_saved_view USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_seconds USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_number = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_tally USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_task USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_taskslice USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_tenant_1d USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_number = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_tenant_1h USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_number = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_tenant_search USING (
CASE
    WHEN (( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) THEN true
    ELSE (tenant_id = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))
END);
CREATE POLICY headroom_tenant ON public.quotas_tenant_summary USING (
CASE
    WHEN (( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) THEN true
    ELSE (tenant_id = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))
END);
CREATE POLICY headroom_tenant ON public.quotas_tenant_summary_run USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_tier_use USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_total_10s USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_total_1d USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_total_1h USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_total_1m USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.quotas_usage_1d USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_number = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_usage_1h USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_number = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.quotas_usagelog USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.tenants_accountevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.tenants_apikey USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_id = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.tenants_apikeyevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.tenants_apitoken USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_id = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.tenants_apitokenevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.tenants_keyversion USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.tenants_membership USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR (tenant_id = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))));
CREATE POLICY headroom_tenant ON public.tenants_membershipevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.tenants_tenant USING (
CASE
    WHEN (( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) THEN true
    ELSE (number = ( SELECT (NULLIF(NULLIF(current_setting('headroom.tenant'::text, true), '*'::text), ''::text))::bigint AS "nullif"))
END);
CREATE POLICY headroom_tenant ON public.tenants_tenantevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
CREATE POLICY headroom_tenant ON public.tenants_tierevent USING (((( SELECT current_setting('headroom.tenant'::text, true) AS current_setting) = '*'::text) OR false));
ALTER TABLE public.quotas_adaptivereading ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_alertdelivery ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_alertsetting ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_alertsettingevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_alertstate ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_alerttarget ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_alerttargetevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_approval ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_approvalevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_arrival ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_auditevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_calendar ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_calibrationsetting ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_calibrationsettingevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_change ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_changeevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_chart_note ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_denial ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_emergency ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_emergencyevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_endpointevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_endpointtargetevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_freeze ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_freezeevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_fresh_10s ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_fresh_1m ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_keyuse ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_latency_1h ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_limit ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_limitevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_limitnameevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_limitneed ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_outbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_override ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_overrideevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_packed_10s ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_packed_1m ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_policy ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_policyevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_quotarequest ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_quotarequestevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_rates_1d ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_rates_1h ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_recommendation ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_recommendationevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_revision ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_saved_view ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_seconds ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_tally ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_task ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_taskslice ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_tenant_1d ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_tenant_1h ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_tenant_search ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_tenant_summary ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_tenant_summary_run ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_tier_use ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_total_10s ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_total_1d ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_total_1h ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_total_1m ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_usage_1d ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_usage_1h ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.quotas_usagelog ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.tenants_accountevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.tenants_apikey ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.tenants_apikeyevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.tenants_apitoken ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.tenants_apitokenevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.tenants_keyversion ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.tenants_membership ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.tenants_membershipevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.tenants_tenant ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.tenants_tenantevent ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.tenants_tierevent ENABLE ROW LEVEL SECURITY;
