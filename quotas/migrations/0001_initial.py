import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.lookups
from django.db import migrations, models


# A revision says what happened: nothing about it may change but the first time it was published.
IMMUTABLE_REVISION = """
CREATE FUNCTION quotas_revision_immutable() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.published_us IS NULL
       AND to_jsonb(NEW) - 'published_us' = to_jsonb(OLD) - 'published_us' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'revision % cannot be changed or deleted', OLD.number USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER quotas_revision_immutable BEFORE UPDATE OR DELETE ON quotas_revision
    FOR EACH ROW EXECUTE FUNCTION quotas_revision_immutable();
"""
MUTABLE_REVISION = """
DROP TRIGGER quotas_revision_immutable ON quotas_revision;
DROP FUNCTION quotas_revision_immutable();
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Heartbeat',
            fields=[
                ('name', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
                ('detail', models.CharField(blank=True, default='', max_length=200)),
            ],
        ),
        migrations.CreateModel(
            name='AuditEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=40)),
                ('detail', models.JSONField(default=dict)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
            options={
                'ordering': ['-id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('kind', ''), _negated=True), name='audit_event_kind')],
            },
        ),
        migrations.CreateModel(
            name='Endpoint',
            fields=[
                ('number', models.IntegerField(primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=128, unique=True)),
                ('method', models.CharField(default='*', max_length=7)),
                ('path', models.CharField(blank=True, default='', help_text='a template: /v1/rides/{id}', max_length=512)),
                ('default_cost', models.BigIntegerField(default=1)),
                ('hints', models.JSONField(blank=True, default=dict)),
                ('retired', models.BooleanField(default=False)),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.CheckConstraint(condition=models.Q(('name__regex', '^([a-z0-9][a-z0-9_.-]*:[a-z0-9][a-z0-9_.-]*)$')), name='endpoint_name'), models.CheckConstraint(condition=models.Q(('number__gt', 0), ('number__lt', 46656)), name='endpoint_number'), models.CheckConstraint(condition=models.Q(('default_cost__gte', 1), ('default_cost__lte', 1000000000)), name='endpoint_default_cost'), models.CheckConstraint(condition=models.Q(('method__in', ('GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', '*'))), name='endpoint_method'), models.CheckConstraint(condition=django.db.models.lookups.Exact(models.Func(models.F('hints'), function='jsonb_typeof', output_field=models.CharField()), models.Value('object')), name='endpoint_hints'), models.CheckConstraint(condition=models.Q(('path', ''), ('path__startswith', '/'), _connector='OR'), name='endpoint_path'), models.UniqueConstraint(condition=models.Q(('retired', False), models.Q(('path', ''), _negated=True)), fields=('method', 'path'), name='endpoint_route')],
            },
        ),
        migrations.CreateModel(
            name='LimitName',
            fields=[
                ('number', models.IntegerField(primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=80, unique=True)),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.CheckConstraint(condition=models.Q(('name__regex', '^([a-z0-9][a-z0-9_.-]{0,62}(~candidate)?)$')), name='limit_name'), models.CheckConstraint(condition=models.Q(('number__gt', 0), ('number__lt', 65536)), name='limit_name_number')],
            },
        ),
        migrations.CreateModel(
            name='Policy',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=63, unique=True)),
                ('service', models.CharField(blank=True, default='', max_length=126)),
                ('endpoint', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='policies', to='quotas.endpoint')),
                ('tenant', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='policies', to='tenants.tenant')),
                ('tier', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='policies', to='tenants.tier')),
            ],
            options={
                'verbose_name_plural': 'policies',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Revision',
            fields=[
                ('number', models.BigIntegerField(primary_key=True, serialize=False)),
                ('author', models.CharField(max_length=150)),
                ('reason', models.CharField(max_length=500)),
                ('action', models.CharField(help_text='the service function: policy_update', max_length=40)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('touched', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=140), size=None)),
                ('before', models.JSONField(help_text='touched object → its state, null: it was not there')),
                ('after', models.JSONField()),
                ('published_us', models.BigIntegerField(blank=True, help_text='Redis time of the first publish, microseconds', null=True)),
            ],
            options={
                'ordering': ['-number'],
                'indexes': [django.contrib.postgres.indexes.GinIndex(fields=['touched'], name='revision_touched')],
                'constraints': [models.CheckConstraint(condition=models.Q(('number__gt', 0)), name='revision_number'), models.CheckConstraint(condition=models.Q(models.Q(('author', ''), _negated=True), models.Q(('reason', ''), _negated=True)), name='revision_author_and_reason'), models.CheckConstraint(condition=models.Q(('touched__len__gt', 0)), name='revision_touches_something'), models.CheckConstraint(condition=django.db.models.lookups.Exact(models.Func(models.F('before'), function='jsonb_typeof', output_field=models.CharField()), models.Value('object')), name='revision_before'), models.CheckConstraint(condition=django.db.models.lookups.Exact(models.Func(models.F('after'), function='jsonb_typeof', output_field=models.CharField()), models.Value('object')), name='revision_after'), models.CheckConstraint(condition=models.Q(('published_us', None), ('published_us__gt', 0), _connector='OR'), name='revision_published')],
            },
        ),
        migrations.CreateModel(
            name='Override',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('start', models.DateTimeField()),
                ('end', models.DateTimeField(blank=True, help_text='empty: until cancelled', null=True)),
                ('limits', models.JSONField(blank=True, default=dict, help_text='limit name → the fields it changes')),
                ('multiplier_numerator', models.IntegerField(blank=True, null=True)),
                ('multiplier_denominator', models.IntegerField(blank=True, null=True)),
                ('carry', models.CharField(default='keep', max_length=12)),
                ('reason', models.CharField(max_length=500)),
                ('author', models.CharField(max_length=150)),
                ('cancelled_at', models.DateTimeField(blank=True, null=True)),
                ('endpoint', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='overrides', to='quotas.endpoint')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='overrides', to='tenants.tenant')),
                ('cancelled_revision', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='quotas.revision')),
                ('created_revision', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='quotas.revision')),
            ],
            options={
                'ordering': ['id'],
            },
        ),
        migrations.CreateModel(
            name='Outbox',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('revision', 'Revision'), ('api_keys', 'Api Keys')], max_length=16)),
                ('touched', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=140), size=None)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('revision', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='outbox', to='quotas.revision')),
            ],
            options={
                'verbose_name_plural': 'outbox',
                'ordering': ['id'],
            },
        ),
        migrations.CreateModel(
            name='Limit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('algorithm', models.CharField(max_length=32)),
                ('parameters', models.JSONField(help_text="as the algorithm's describe() gives them")),
                ('subject', models.CharField(default='tenant', max_length=200)),
                ('unit', models.CharField(default='requests', max_length=8)),
                ('mode', models.CharField(default='enforce', max_length=8)),
                ('on_failure', models.CharField(default='open', max_length=8)),
                ('carry', models.CharField(default='keep', max_length=12)),
                ('past', models.JSONField(blank=True, default=list)),
                ('candidate', models.JSONField(blank=True, help_text='algorithm and parameters under trial', null=True)),
                ('adopts_candidate', models.BooleanField(default=False, help_text="its parameters were its candidate's")),
                ('name', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='limits', to='quotas.limitname')),
                ('policy', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='limits', to='quotas.policy')),
                ('changed_revision', models.ForeignKey(help_text='gave it its present parameters', on_delete=django.db.models.deletion.PROTECT, related_name='+', to='quotas.revision')),
            ],
            options={
                'ordering': ['policy', 'name'],
            },
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.CheckConstraint(condition=models.Q(('name__regex', '^([a-z0-9][a-z0-9_.-]{0,62})$')), name='policy_name'),
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.CheckConstraint(condition=models.Q(('tier', None), ('tenant', None), _connector='OR'), name='policy_tier_or_tenant'),
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.CheckConstraint(condition=models.Q(('endpoint', None), ('service', ''), _connector='OR'), name='policy_endpoint_or_service'),
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.CheckConstraint(condition=models.Q(('service', ''), models.Q(('tenant', None), ('tier', None)), _connector='OR'), name='policy_service_is_global'),
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.CheckConstraint(condition=models.Q(('service__regex', '^([a-z0-9][a-z0-9_.-]*|)$')), name='policy_service'),
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.UniqueConstraint(fields=('tier', 'tenant', 'endpoint', 'service'), name='policy_attached_once', nulls_distinct=False),
        ),
        migrations.AddIndex(
            model_name='override',
            index=models.Index(fields=['tenant', 'end'], name='override_tenant_end'),
        ),
        migrations.AddConstraint(
            model_name='override',
            constraint=models.CheckConstraint(condition=models.Q(('end', None), ('end__gt', models.F('start')), _connector='OR'), name='override_ends_after_start'),
        ),
        migrations.AddConstraint(
            model_name='override',
            constraint=models.CheckConstraint(condition=django.db.models.lookups.Exact(models.Func(models.F('limits'), function='jsonb_typeof', output_field=models.CharField()), models.Value('object')), name='override_limits'),
        ),
        migrations.AddConstraint(
            model_name='override',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('multiplier_denominator', None), ('multiplier_numerator', None), models.Q(('limits', {}), _negated=True)), models.Q(('limits', {}), ('multiplier_denominator__isnull', False), ('multiplier_denominator__range', (1, 1000000)), ('multiplier_numerator__isnull', False), ('multiplier_numerator__range', (1, 1000000))), _connector='OR'), name='override_limits_or_multiplier'),
        ),
        migrations.AddConstraint(
            model_name='override',
            constraint=models.CheckConstraint(condition=models.Q(('carry__in', ('keep', 'proportional', 'reset'))), name='override_carry'),
        ),
        migrations.AddConstraint(
            model_name='override',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('reason', ''), _negated=True), models.Q(('author', ''), _negated=True)), name='override_reason_and_author'),
        ),
        migrations.AddConstraint(
            model_name='override',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('cancelled_at', None), ('cancelled_revision', None)), models.Q(('cancelled_at__isnull', False), ('cancelled_revision__isnull', False)), _connector='OR'), name='override_cancelled_by_a_revision'),
        ),
        migrations.AddConstraint(
            model_name='outbox',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('kind', 'revision'), ('revision__isnull', False)), models.Q(('kind', 'api_keys'), ('revision', None)), _connector='OR'), name='outbox_kind'),
        ),
        migrations.AddConstraint(
            model_name='limit',
            constraint=models.UniqueConstraint(fields=('policy', 'name'), name='limit_once_per_policy'),
        ),
        migrations.AddConstraint(
            model_name='limit',
            constraint=models.CheckConstraint(condition=models.Q(('algorithm__in', ('token_bucket', 'gcra', 'leaky_bucket', 'fixed_window', 'sliding_log', 'sliding_counter', 'concurrency', 'calendar_quota'))), name='limit_algorithm'),
        ),
        migrations.AddConstraint(
            model_name='limit',
            constraint=models.CheckConstraint(condition=models.Q(('unit__in', ('requests', 'cost'))), name='limit_unit'),
        ),
        migrations.AddConstraint(
            model_name='limit',
            constraint=models.CheckConstraint(condition=models.Q(('mode__in', ('enforce', 'shadow', 'off'))), name='limit_mode'),
        ),
        migrations.AddConstraint(
            model_name='limit',
            constraint=models.CheckConstraint(condition=models.Q(('on_failure__in', ('open', 'closed', 'local'))), name='limit_on_failure'),
        ),
        migrations.AddConstraint(
            model_name='limit',
            constraint=models.CheckConstraint(condition=models.Q(('carry__in', ('keep', 'proportional', 'reset'))), name='limit_carry'),
        ),
        migrations.AddConstraint(
            model_name='limit',
            constraint=models.CheckConstraint(condition=models.Q(('subject', ''), _negated=True), name='limit_subject'),
        ),
        migrations.AddConstraint(
            model_name='limit',
            constraint=models.CheckConstraint(condition=django.db.models.lookups.Exact(models.Func(models.F('parameters'), function='jsonb_typeof', output_field=models.CharField()), models.Value('object')), name='limit_parameters'),
        ),
        migrations.AddConstraint(
            model_name='limit',
            constraint=models.CheckConstraint(condition=django.db.models.lookups.Exact(models.Func(models.F('candidate'), function='jsonb_typeof', output_field=models.CharField()), models.Value('object')), name='limit_candidate'),
        ),
        migrations.AddConstraint(
            model_name='limit',
            constraint=models.CheckConstraint(condition=django.db.models.lookups.Exact(models.Func(models.F('past'), function='jsonb_typeof', output_field=models.CharField()), models.Value('array')), name='limit_past'),
        ),
        migrations.AddConstraint(
            model_name='limit',
            constraint=models.CheckConstraint(condition=django.db.models.lookups.LessThanOrEqual(models.Func(models.F('past'), function='jsonb_array_length', output_field=models.IntegerField()), models.Value(8)), name='limit_past_length'),
        ),
        migrations.RunSQL(IMMUTABLE_REVISION, MUTABLE_REVISION),
    ]
