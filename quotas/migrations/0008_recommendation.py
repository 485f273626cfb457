import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.lookups
import pghistory.utils
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models

from tenants.row_security import of_nobody


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0007_rates'),
    ]

    operations = [
        migrations.CreateModel(
            name='CalibrationSetting',
            fields=[
                ('name', models.CharField(max_length=40, primary_key=True, serialize=False)),
                ('value', models.FloatField()),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='CalibrationSettingEvent',
            fields=[
                ('pgh_created_at', models.DateTimeField(auto_now_add=True)),
                ('pgh_label', models.TextField(help_text='The event label.')),
                ('pgh_id', models.BigAutoField(primary_key=True, serialize=False)),
                ('pgh_context', pghistory.utils.JSONField(null=True)),
                ('name', models.CharField(max_length=40, serialize=False)),
                ('value', models.FloatField()),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='Recommendation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('tier', 'Tier'), ('tenant', 'Tenant'), ('override', 'Override')], max_length=8)),
                ('stage', models.CharField(choices=[('insufficient', 'Insufficient'), ('draft', 'Draft'), ('simulated', 'Simulated'), ('approved', 'Approved'), ('shadow', 'Shadow'), ('enforced', 'Enforced'), ('evaluated', 'Evaluated'), ('rolled_back', 'Rolled Back'), ('dismissed', 'Dismissed'), ('superseded', 'Superseded')], default='draft', max_length=12)),
                ('policy', models.CharField(max_length=63)),
                ('limit', models.CharField(max_length=80)),
                ('tier', models.CharField(blank=True, default='', max_length=63)),
                ('tenant', models.CharField(blank=True, default='', max_length=63)),
                ('endpoint', models.CharField(help_text='or `*`', max_length=128)),
                ('current', models.JSONField(help_text='algorithm and parameters that hold')),
                ('proposed', models.JSONField(blank=True, help_text='algorithm and parameters; null: too little is known', null=True)),
                ('is_edited', models.BooleanField(default=False, help_text='`proposed` is what a person wrote, not what was measured')),
                ('summary', models.CharField(blank=True, default='', help_text='in one sentence', max_length=300)),
                ('evidence', models.JSONField(blank=True, default=dict)),
                ('forecast', models.JSONField(blank=True, default=dict)),
                ('observed', models.JSONField(blank=True, default=dict, help_text='what shadow or enforcement has shown so far')),
                ('trust', models.CharField(choices=[('high', 'High'), ('medium', 'Medium'), ('low', 'Low')], default='low', max_length=6)),
                ('binds', models.CharField(default='demand', help_text='demand or capacity', max_length=8)),
                ('ready_at', models.DateTimeField(blank=True, help_text='when there will be enough data', null=True)),
                ('problem', models.CharField(blank=True, default='', help_text='why it does not go on', max_length=500)),
                ('decider', models.CharField(blank=True, default='', help_text='who approved or dismissed it last', max_length=150)),
                ('reason', models.CharField(blank=True, default='', max_length=500)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('measured_at', models.DateTimeField(help_text='the end of the data that it rests on')),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('shadow_at', models.DateTimeField(blank=True, null=True)),
                ('enforced_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='RecommendationEvent',
            fields=[
                ('pgh_created_at', models.DateTimeField(auto_now_add=True)),
                ('pgh_label', models.TextField(help_text='The event label.')),
                ('pgh_id', models.BigAutoField(primary_key=True, serialize=False)),
                ('pgh_context', pghistory.utils.JSONField(null=True)),
                ('id', models.BigIntegerField()),
                ('kind', models.CharField(choices=[('tier', 'Tier'), ('tenant', 'Tenant'), ('override', 'Override')], max_length=8)),
                ('stage', models.CharField(choices=[('insufficient', 'Insufficient'), ('draft', 'Draft'), ('simulated', 'Simulated'), ('approved', 'Approved'), ('shadow', 'Shadow'), ('enforced', 'Enforced'), ('evaluated', 'Evaluated'), ('rolled_back', 'Rolled Back'), ('dismissed', 'Dismissed'), ('superseded', 'Superseded')], default='draft', max_length=12)),
                ('policy', models.CharField(max_length=63)),
                ('limit', models.CharField(max_length=80)),
                ('tier', models.CharField(blank=True, default='', max_length=63)),
                ('tenant', models.CharField(blank=True, default='', max_length=63)),
                ('endpoint', models.CharField(help_text='or `*`', max_length=128)),
                ('current', models.JSONField(help_text='algorithm and parameters that hold')),
                ('proposed', models.JSONField(blank=True, help_text='algorithm and parameters; null: too little is known', null=True)),
                ('is_edited', models.BooleanField(default=False, help_text='`proposed` is what a person wrote, not what was measured')),
                ('summary', models.CharField(blank=True, default='', help_text='in one sentence', max_length=300)),
                ('observed', models.JSONField(blank=True, default=dict, help_text='what shadow or enforcement has shown so far')),
                ('trust', models.CharField(choices=[('high', 'High'), ('medium', 'Medium'), ('low', 'Low')], default='low', max_length=6)),
                ('binds', models.CharField(default='demand', help_text='demand or capacity', max_length=8)),
                ('ready_at', models.DateTimeField(blank=True, help_text='when there will be enough data', null=True)),
                ('problem', models.CharField(blank=True, default='', help_text='why it does not go on', max_length=500)),
                ('decider', models.CharField(blank=True, default='', help_text='who approved or dismissed it last', max_length=150)),
                ('reason', models.CharField(blank=True, default='', max_length=500)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('measured_at', models.DateTimeField(help_text='the end of the data that it rests on')),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('shadow_at', models.DateTimeField(blank=True, null=True)),
                ('enforced_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='Task',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('whatif', 'What If'), ('calibrate', 'Calibrate')], max_length=12)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed')], default='waiting', max_length=8)),
                ('author', models.CharField(max_length=150)),
                ('asked', models.JSONField(default=dict, help_text='what it was asked to do')),
                ('percent', models.SmallIntegerField(default=0)),
                ('doing', models.CharField(blank=True, default='', help_text='in a word: replaying', max_length=60)),
                ('result', models.JSONField(blank=True, null=True)),
                ('problem', models.CharField(blank=True, default='', help_text='why it failed, and what to change', max_length=500)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('changed', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='calibrationsetting',
            trigger=pgtrigger.compiler.Trigger(name='insert_insert', sql=pgtrigger.compiler.UpsertTriggerSql(func='INSERT INTO "quotas_calibrationsettingevent" ("name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "value") VALUES (NEW."name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, NOW(), \'insert\', NEW."name", NEW."value"); RETURN NULL;', hash='c47d91640218236cfd385d90ce345cb5bb671b0e', operation='INSERT', pgid='pgtrigger_insert_insert_6bfea', table='quotas_calibrationsetting', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='calibrationsetting',
            trigger=pgtrigger.compiler.Trigger(name='update_update', sql=pgtrigger.compiler.UpsertTriggerSql(condition='WHEN (OLD.* IS DISTINCT FROM NEW.*)', func='INSERT INTO "quotas_calibrationsettingevent" ("name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "value") VALUES (NEW."name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, NOW(), \'update\', NEW."name", NEW."value"); RETURN NULL;', hash='a6ce5f9e94c051696adff5c7dd849205984cc509', operation='UPDATE', pgid='pgtrigger_update_update_2d6b8', table='quotas_calibrationsetting', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='calibrationsetting',
            trigger=pgtrigger.compiler.Trigger(name='delete_delete', sql=pgtrigger.compiler.UpsertTriggerSql(func='INSERT INTO "quotas_calibrationsettingevent" ("name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "value") VALUES (OLD."name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, NOW(), \'delete\', OLD."name", OLD."value"); RETURN NULL;', hash='2a0bc0db6959dcc11d943a97ede9d95bbfb7d169', operation='DELETE', pgid='pgtrigger_delete_delete_dd0a8', table='quotas_calibrationsetting', when='AFTER')),
        ),
        migrations.AddField(
            model_name='calibrationsettingevent',
            name='pgh_obj',
            field=models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='events', to='quotas.calibrationsetting'),
        ),
        migrations.AddField(
            model_name='recommendation',
            name='change',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='quotas.change'),
        ),
        migrations.AddField(
            model_name='recommendationevent',
            name='change',
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', related_query_name='+', to='quotas.change'),
        ),
        migrations.AddField(
            model_name='recommendationevent',
            name='pgh_obj',
            field=models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='events', to='quotas.recommendation'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(fields=['kind', '-id'], name='task_kind'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ('whatif', 'calibrate'))), name='task_kind_known'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ('waiting', 'running', 'done', 'failed'))), name='task_state'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.CheckConstraint(condition=models.Q(('percent__gte', 0), ('percent__lte', 100)), name='task_percent'),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.CheckConstraint(condition=models.Q(('author', ''), _negated=True), name='task_author'),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='calibrationsettingevent',
            trigger=pgtrigger.compiler.Trigger(name='append_only', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;", hash='8e47b70f1bfcaef61c53981fccfc35e7b1efe7ae', operation='UPDATE OR DELETE', pgid='pgtrigger_append_only_20e07', table='quotas_calibrationsettingevent', when='BEFORE')),
        ),
        migrations.AddIndex(
            model_name='recommendation',
            index=models.Index(fields=['stage', '-id'], name='recommendation_stage'),
        ),
        migrations.AddConstraint(
            model_name='recommendation',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ('tier', 'tenant', 'override'))), name='recommendation_kind'),
        ),
        migrations.AddConstraint(
            model_name='recommendation',
            constraint=models.CheckConstraint(condition=models.Q(('stage__in', ('insufficient', 'draft', 'simulated', 'approved', 'shadow', 'enforced', 'evaluated', 'rolled_back', 'dismissed', 'superseded'))), name='recommendation_stage_known'),
        ),
        migrations.AddConstraint(
            model_name='recommendation',
            constraint=models.CheckConstraint(condition=models.Q(('trust__in', ('high', 'medium', 'low'))), name='recommendation_trust'),
        ),
        migrations.AddConstraint(
            model_name='recommendation',
            constraint=models.CheckConstraint(condition=models.Q(('binds__in', ('demand', 'capacity'))), name='recommendation_binds'),
        ),
        migrations.AddConstraint(
            model_name='recommendation',
            constraint=models.CheckConstraint(condition=django.db.models.lookups.Exact(models.Func(models.F('current'), function='jsonb_typeof', output_field=models.CharField()), models.Value('object')), name='recommendation_current'),
        ),
        migrations.AddConstraint(
            model_name='recommendation',
            constraint=models.CheckConstraint(condition=django.db.models.lookups.Exact(models.Func(models.F('proposed'), function='jsonb_typeof', output_field=models.CharField()), models.Value('object')), name='recommendation_proposed'),
        ),
        migrations.AddConstraint(
            model_name='recommendation',
            constraint=models.CheckConstraint(condition=django.db.models.lookups.Exact(models.Func(models.F('evidence'), function='jsonb_typeof', output_field=models.CharField()), models.Value('object')), name='recommendation_evidence'),
        ),
        migrations.AddConstraint(
            model_name='recommendation',
            constraint=models.UniqueConstraint(condition=models.Q(('stage__in', ('insufficient', 'draft', 'simulated', 'approved', 'shadow', 'enforced'))), fields=('policy', 'limit', 'tenant'), name='recommendation_open_once'),
        ),
        migrations.AddConstraint(
            model_name='recommendation',
            constraint=models.CheckConstraint(condition=models.Q(('stage__in', ['insufficient', 'superseded']), ('proposed__isnull', False), _connector='OR'), name='recommendation_proposes'),
        ),
        migrations.AddConstraint(
            model_name='recommendation',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('stage__in', ['dismissed', 'rolled_back']), _negated=True), models.Q(models.Q(('decider', ''), _negated=True), models.Q(('reason', ''), _negated=True)), _connector='OR'), name='recommendation_end_reason'),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='recommendation',
            trigger=pgtrigger.compiler.Trigger(name='insert_insert', sql=pgtrigger.compiler.UpsertTriggerSql(func='INSERT INTO "quotas_recommendationevent" ("binds", "change_id", "created", "current", "decided_at", "decider", "ended_at", "endpoint", "enforced_at", "id", "is_edited", "kind", "limit", "measured_at", "observed", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "policy", "problem", "proposed", "ready_at", "reason", "shadow_at", "stage", "summary", "tenant", "tier", "trust") VALUES (NEW."binds", NEW."change_id", NEW."created", NEW."current", NEW."decided_at", NEW."decider", NEW."ended_at", NEW."endpoint", NEW."enforced_at", NEW."id", NEW."is_edited", NEW."kind", NEW."limit", NEW."measured_at", NEW."observed", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, NOW(), \'insert\', NEW."id", NEW."policy", NEW."problem", NEW."proposed", NEW."ready_at", NEW."reason", NEW."shadow_at", NEW."stage", NEW."summary", NEW."tenant", NEW."tier", NEW."trust"); RETURN NULL;', hash='59aa81b11c17270b4e65d32443ebb62f895f2dc2', operation='INSERT', pgid='pgtrigger_insert_insert_e8c47', table='quotas_recommendation', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='recommendation',
            trigger=pgtrigger.compiler.Trigger(name='update_update', sql=pgtrigger.compiler.UpsertTriggerSql(condition='WHEN (OLD."binds" IS DISTINCT FROM (NEW."binds") OR OLD."change_id" IS DISTINCT FROM (NEW."change_id") OR OLD."created" IS DISTINCT FROM (NEW."created") OR OLD."current" IS DISTINCT FROM (NEW."current") OR OLD."decided_at" IS DISTINCT FROM (NEW."decided_at") OR OLD."decider" IS DISTINCT FROM (NEW."decider") OR OLD."ended_at" IS DISTINCT FROM (NEW."ended_at") OR OLD."endpoint" IS DISTINCT FROM (NEW."endpoint") OR OLD."enforced_at" IS DISTINCT FROM (NEW."enforced_at") OR OLD."id" IS DISTINCT FROM (NEW."id") OR OLD."is_edited" IS DISTINCT FROM (NEW."is_edited") OR OLD."kind" IS DISTINCT FROM (NEW."kind") OR OLD."limit" IS DISTINCT FROM (NEW."limit") OR OLD."measured_at" IS DISTINCT FROM (NEW."measured_at") OR OLD."observed" IS DISTINCT FROM (NEW."observed") OR OLD."policy" IS DISTINCT FROM (NEW."policy") OR OLD."problem" IS DISTINCT FROM (NEW."problem") OR OLD."proposed" IS DISTINCT FROM (NEW."proposed") OR OLD."ready_at" IS DISTINCT FROM (NEW."ready_at") OR OLD."reason" IS DISTINCT FROM (NEW."reason") OR OLD."shadow_at" IS DISTINCT FROM (NEW."shadow_at") OR OLD."stage" IS DISTINCT FROM (NEW."stage") OR OLD."summary" IS DISTINCT FROM (NEW."summary") OR OLD."tenant" IS DISTINCT FROM (NEW."tenant") OR OLD."tier" IS DISTINCT FROM (NEW."tier") OR OLD."trust" IS DISTINCT FROM (NEW."trust"))', func='INSERT INTO "quotas_recommendationevent" ("binds", "change_id", "created", "current", "decided_at", "decider", "ended_at", "endpoint", "enforced_at", "id", "is_edited", "kind", "limit", "measured_at", "observed", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "policy", "problem", "proposed", "ready_at", "reason", "shadow_at", "stage", "summary", "tenant", "tier", "trust") VALUES (NEW."binds", NEW."change_id", NEW."created", NEW."current", NEW."decided_at", NEW."decider", NEW."ended_at", NEW."endpoint", NEW."enforced_at", NEW."id", NEW."is_edited", NEW."kind", NEW."limit", NEW."measured_at", NEW."observed", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, NOW(), \'update\', NEW."id", NEW."policy", NEW."problem", NEW."proposed", NEW."ready_at", NEW."reason", NEW."shadow_at", NEW."stage", NEW."summary", NEW."tenant", NEW."tier", NEW."trust"); RETURN NULL;', hash='785e5f15f71ced7981b77db606a3a04fb67e8f80', operation='UPDATE', pgid='pgtrigger_update_update_f8cfc', table='quotas_recommendation', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='recommendation',
            trigger=pgtrigger.compiler.Trigger(name='delete_delete', sql=pgtrigger.compiler.UpsertTriggerSql(func='INSERT INTO "quotas_recommendationevent" ("binds", "change_id", "created", "current", "decided_at", "decider", "ended_at", "endpoint", "enforced_at", "id", "is_edited", "kind", "limit", "measured_at", "observed", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "policy", "problem", "proposed", "ready_at", "reason", "shadow_at", "stage", "summary", "tenant", "tier", "trust") VALUES (OLD."binds", OLD."change_id", OLD."created", OLD."current", OLD."decided_at", OLD."decider", OLD."ended_at", OLD."endpoint", OLD."enforced_at", OLD."id", OLD."is_edited", OLD."kind", OLD."limit", OLD."measured_at", OLD."observed", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, NOW(), \'delete\', OLD."id", OLD."policy", OLD."problem", OLD."proposed", OLD."ready_at", OLD."reason", OLD."shadow_at", OLD."stage", OLD."summary", OLD."tenant", OLD."tier", OLD."trust"); RETURN NULL;', hash='4435200061de19a67214313a1c936aa45dc9f411', operation='DELETE', pgid='pgtrigger_delete_delete_a7533', table='quotas_recommendation', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='recommendationevent',
            trigger=pgtrigger.compiler.Trigger(name='append_only', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;", hash='ff3ed0db5aec110977ab23040de5c84ecf5048c8', operation='UPDATE OR DELETE', pgid='pgtrigger_append_only_6efaa', table='quotas_recommendationevent', when='BEFORE')),
        ),
        of_nobody('quotas_recommendation'),
        of_nobody('quotas_recommendationevent'),
        of_nobody('quotas_calibrationsetting'),
        of_nobody('quotas_calibrationsettingevent'),
        of_nobody('quotas_task'),
    ]
