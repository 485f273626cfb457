import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import pghistory.utils
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models

from tenants.row_security import of_nobody


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0009_tier_use'),
    ]

    operations = [
        migrations.CreateModel(
            name='AlertDelivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('body', models.JSONField()),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('due_at', models.DateTimeField()),
                ('tries', models.IntegerField(default=0)),
                ('sent_at', models.DateTimeField(null=True)),
                ('problem', models.CharField(blank=True, default='', max_length=300)),
                ('is_given_up', models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name='AlertSettingEvent',
            fields=[
                ('pgh_created_at', models.DateTimeField(auto_now_add=True)),
                ('pgh_label', models.TextField(help_text='The event label.')),
                ('pgh_id', models.BigAutoField(primary_key=True, serialize=False)),
                ('pgh_context', pghistory.utils.JSONField(null=True)),
                ('name', models.CharField(max_length=40, serialize=False)),
                ('threshold', models.FloatField()),
                ('is_on', models.BooleanField(default=True)),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='AlertState',
            fields=[
                ('pk', models.CompositePrimaryKey('name', 'about', blank=True, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=40)),
                ('about', models.CharField(help_text='what it is about: tenant acme, daily; empty: the platform', max_length=200)),
                ('value', models.FloatField()),
                ('text', models.CharField(max_length=300)),
                ('since', models.DateTimeField()),
                ('seen_at', models.DateTimeField()),
                ('told_at', models.DateTimeField(null=True)),
                ('resolved_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='AlertTarget',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('webhook', 'Webhook'), ('email', 'Email')], max_length=8)),
                ('address', models.CharField(help_text='a URL, or an e-mail address', max_length=500)),
                ('label', models.CharField(blank=True, default='', max_length=200)),
                ('alerts', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=40), blank=True, default=list, help_text='names; empty: all', size=None)),
                ('quiet_from', models.SmallIntegerField(blank=True, help_text='minute of the day in its time zone', null=True)),
                ('quiet_until', models.SmallIntegerField(blank=True, null=True)),
                ('timezone', models.CharField(default='UTC', max_length=64)),
                ('secret', models.BinaryField(default=b'', help_text='sealed; signs what a webhook gets')),
                ('is_on', models.BooleanField(default=True)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
            options={
                'ordering': ['id'],
            },
        ),
        migrations.CreateModel(
            name='AlertTargetEvent',
            fields=[
                ('pgh_created_at', models.DateTimeField(auto_now_add=True)),
                ('pgh_label', models.TextField(help_text='The event label.')),
                ('pgh_id', models.BigAutoField(primary_key=True, serialize=False)),
                ('pgh_context', pghistory.utils.JSONField(null=True)),
                ('id', models.BigIntegerField()),
                ('kind', models.CharField(choices=[('webhook', 'Webhook'), ('email', 'Email')], max_length=8)),
                ('address', models.CharField(help_text='a URL, or an e-mail address', max_length=500)),
                ('label', models.CharField(blank=True, default='', max_length=200)),
                ('alerts', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=40), blank=True, default=list, help_text='names; empty: all', size=None)),
                ('quiet_from', models.SmallIntegerField(blank=True, help_text='minute of the day in its time zone', null=True)),
                ('quiet_until', models.SmallIntegerField(blank=True, null=True)),
                ('timezone', models.CharField(default='UTC', max_length=64)),
                ('is_on', models.BooleanField(default=True)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='Tally',
            fields=[
                ('pk', models.CompositePrimaryKey('endpoint_number', 'outcome', blank=True, editable=False, primary_key=True, serialize=False)),
                ('endpoint_number', models.IntegerField()),
                ('outcome', models.CharField(max_length=1)),
                ('count', models.BigIntegerField()),
                ('cost', models.BigIntegerField()),
            ],
            options={
                'db_table': 'quotas_tally',
            },
        ),
        migrations.CreateModel(
            name='AlertSetting',
            fields=[
                ('name', models.CharField(max_length=40, primary_key=True, serialize=False)),
                ('threshold', models.FloatField()),
                ('is_on', models.BooleanField(default=True)),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.CheckConstraint(condition=models.Q(('threshold__gt', 0)), name='alert_threshold')],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='alertsetting',
            trigger=pgtrigger.compiler.Trigger(name='insert_insert', sql=pgtrigger.compiler.UpsertTriggerSql(func='INSERT INTO "quotas_alertsettingevent" ("is_on", "name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "threshold") VALUES (NEW."is_on", NEW."name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, NOW(), \'insert\', NEW."name", NEW."threshold"); RETURN NULL;', hash='49e030cd444e843345ad3f7af4dc94b7e2e49ba6', operation='INSERT', pgid='pgtrigger_insert_insert_01476', table='quotas_alertsetting', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='alertsetting',
            trigger=pgtrigger.compiler.Trigger(name='update_update', sql=pgtrigger.compiler.UpsertTriggerSql(condition='WHEN (OLD.* IS DISTINCT FROM NEW.*)', func='INSERT INTO "quotas_alertsettingevent" ("is_on", "name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "threshold") VALUES (NEW."is_on", NEW."name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, NOW(), \'update\', NEW."name", NEW."threshold"); RETURN NULL;', hash='61c64ace5da0d63292cb173dc96fbb9bcfe12a64', operation='UPDATE', pgid='pgtrigger_update_update_da835', table='quotas_alertsetting', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='alertsetting',
            trigger=pgtrigger.compiler.Trigger(name='delete_delete', sql=pgtrigger.compiler.UpsertTriggerSql(func='INSERT INTO "quotas_alertsettingevent" ("is_on", "name", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "threshold") VALUES (OLD."is_on", OLD."name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, NOW(), \'delete\', OLD."name", OLD."threshold"); RETURN NULL;', hash='6fbfc19cb0cfdf0af7b98ca557ca7acbeae4aa0a', operation='DELETE', pgid='pgtrigger_delete_delete_41920', table='quotas_alertsetting', when='AFTER')),
        ),
        migrations.AddField(
            model_name='alertsettingevent',
            name='pgh_obj',
            field=models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='events', to='quotas.alertsetting'),
        ),
        migrations.AddIndex(
            model_name='alertstate',
            index=models.Index(condition=models.Q(('resolved_at', None)), fields=['since'], name='alert_firing'),
        ),
        migrations.AddConstraint(
            model_name='alerttarget',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ('webhook', 'email'))), name='alert_target_kind'),
        ),
        migrations.AddConstraint(
            model_name='alerttarget',
            constraint=models.CheckConstraint(condition=models.Q(('address', ''), _negated=True), name='alert_target_address'),
        ),
        migrations.AddConstraint(
            model_name='alerttarget',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('quiet_from', None), ('quiet_until', None)), models.Q(('quiet_from__gte', 0), ('quiet_from__isnull', False), ('quiet_from__lt', 1440), ('quiet_until__gte', 0), ('quiet_until__isnull', False), ('quiet_until__lt', 1440)), _connector='OR'), name='alert_target_quiet'),
        ),
        migrations.AddField(
            model_name='alertdelivery',
            name='target',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='deliveries', to='quotas.alerttarget'),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='alerttarget',
            trigger=pgtrigger.compiler.Trigger(name='insert_insert', sql=pgtrigger.compiler.UpsertTriggerSql(func='INSERT INTO "quotas_alerttargetevent" ("address", "alerts", "created", "id", "is_on", "kind", "label", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "quiet_from", "quiet_until", "timezone") VALUES (NEW."address", NEW."alerts", NEW."created", NEW."id", NEW."is_on", NEW."kind", NEW."label", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, NOW(), \'insert\', NEW."id", NEW."quiet_from", NEW."quiet_until", NEW."timezone"); RETURN NULL;', hash='5b13b58450b9b48043aef8b335ee74d59dd1d15f', operation='INSERT', pgid='pgtrigger_insert_insert_5c32b', table='quotas_alerttarget', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='alerttarget',
            trigger=pgtrigger.compiler.Trigger(name='update_update', sql=pgtrigger.compiler.UpsertTriggerSql(condition='WHEN (OLD."address" IS DISTINCT FROM (NEW."address") OR OLD."alerts" IS DISTINCT FROM (NEW."alerts") OR OLD."created" IS DISTINCT FROM (NEW."created") OR OLD."id" IS DISTINCT FROM (NEW."id") OR OLD."is_on" IS DISTINCT FROM (NEW."is_on") OR OLD."kind" IS DISTINCT FROM (NEW."kind") OR OLD."label" IS DISTINCT FROM (NEW."label") OR OLD."quiet_from" IS DISTINCT FROM (NEW."quiet_from") OR OLD."quiet_until" IS DISTINCT FROM (NEW."quiet_until") OR OLD."timezone" IS DISTINCT FROM (NEW."timezone"))', func='INSERT INTO "quotas_alerttargetevent" ("address", "alerts", "created", "id", "is_on", "kind", "label", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "quiet_from", "quiet_until", "timezone") VALUES (NEW."address", NEW."alerts", NEW."created", NEW."id", NEW."is_on", NEW."kind", NEW."label", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, NOW(), \'update\', NEW."id", NEW."quiet_from", NEW."quiet_until", NEW."timezone"); RETURN NULL;', hash='e45c076199022f0ace2f2e088d9a3b224a9270d6', operation='UPDATE', pgid='pgtrigger_update_update_64407', table='quotas_alerttarget', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='alerttarget',
            trigger=pgtrigger.compiler.Trigger(name='delete_delete', sql=pgtrigger.compiler.UpsertTriggerSql(func='INSERT INTO "quotas_alerttargetevent" ("address", "alerts", "created", "id", "is_on", "kind", "label", "pgh_context", "pgh_created_at", "pgh_label", "pgh_obj_id", "quiet_from", "quiet_until", "timezone") VALUES (OLD."address", OLD."alerts", OLD."created", OLD."id", OLD."is_on", OLD."kind", OLD."label", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, NOW(), \'delete\', OLD."id", OLD."quiet_from", OLD."quiet_until", OLD."timezone"); RETURN NULL;', hash='d0214ec9daee1e0be9b182e9f68538ac23c58fc2', operation='DELETE', pgid='pgtrigger_delete_delete_26007', table='quotas_alerttarget', when='AFTER')),
        ),
        migrations.AddField(
            model_name='alerttargetevent',
            name='pgh_obj',
            field=models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='events', to='quotas.alerttarget'),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='alertsettingevent',
            trigger=pgtrigger.compiler.Trigger(name='append_only', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;", hash='011bdfbcfd8f53493c96416d40d8d66a02be8031', operation='UPDATE OR DELETE', pgid='pgtrigger_append_only_fd4bb', table='quotas_alertsettingevent', when='BEFORE')),
        ),
        migrations.AddIndex(
            model_name='alertdelivery',
            index=models.Index(condition=models.Q(('is_given_up', False), ('sent_at', None)), fields=['due_at'], name='alert_delivery_due'),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='alerttargetevent',
            trigger=pgtrigger.compiler.Trigger(name='append_only', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;", hash='26e7d9765be876a58bb88d3b0e193faeaef8caf8', operation='UPDATE OR DELETE', pgid='pgtrigger_append_only_4c602', table='quotas_alerttargetevent', when='BEFORE')),
        ),
        of_nobody('quotas_alertsetting'),
        of_nobody('quotas_alertsettingevent'),
        of_nobody('quotas_alerttarget'),
        of_nobody('quotas_alerttargetevent'),
        of_nobody('quotas_alertstate'),
        of_nobody('quotas_alertdelivery'),
        of_nobody('quotas_tally'),
    ]
