import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.lookups
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Tier',
            fields=[
                ('number', models.BigAutoField(primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=63, unique=True)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.CheckConstraint(condition=models.Q(('name__regex', '^([a-z0-9][a-z0-9_.-]{0,62})$')), name='tier_name')],
            },
        ),
        migrations.CreateModel(
            name='Tenant',
            fields=[
                ('number', models.BigAutoField(primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=63, unique=True)),
                ('label', models.CharField(blank=True, default='', help_text='the name people use', max_length=200)),
                ('timezone', models.CharField(default='UTC', max_length=64)),
                ('suspended', models.BooleanField(default=False)),
                ('suspended_reason', models.CharField(blank=True, default='', max_length=500)),
                ('handovers', models.JSONField(blank=True, default=list)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('tier', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='tenants', to='tenants.tier')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key_id', models.CharField(max_length=32, unique=True)),
                ('secret_hash', models.CharField(help_text='HMAC-SHA-256, hexadecimal', max_length=64)),
                ('label', models.CharField(blank=True, default='', max_length=200)),
                ('scopes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=32), size=None)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='api_keys', to='tenants.tenant')),
            ],
            options={
                'ordering': ['-created'],
                'constraints': [models.CheckConstraint(condition=models.Q(('key_id__regex', '^([a-z0-9]{8,32})$')), name='api_key_id'), models.CheckConstraint(condition=models.Q(('secret_hash__regex', '^([0-9a-f]{64})$')), name='api_key_secret_hash'), models.CheckConstraint(condition=models.Q(('scopes__len__gt', 0)), name='api_key_scopes'), models.CheckConstraint(condition=models.Q(('revoked_at', None), ('revoked_at__gte', models.F('created')), _connector='OR'), name='api_key_revoked_after_created')],
            },
        ),
        migrations.AddIndex(
            model_name='tenant',
            index=models.Index(condition=models.Q(('handovers', []), _negated=True), fields=['tier'], name='tenant_handed_over'),
        ),
        migrations.AddConstraint(
            model_name='tenant',
            constraint=models.CheckConstraint(condition=models.Q(('name__regex', '^([a-z0-9][a-z0-9-]{0,62})$')), name='tenant_name'),
        ),
        migrations.AddConstraint(
            model_name='tenant',
            constraint=models.CheckConstraint(condition=models.Q(('number__gt', 0), ('number__lt', 60466176)), name='tenant_number'),
        ),
        migrations.AddConstraint(
            model_name='tenant',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('suspended', True), models.Q(('suspended_reason', ''), _negated=True)), models.Q(('suspended', False), ('suspended_reason', '')), _connector='OR'), name='tenant_suspended_with_reason'),
        ),
        migrations.AddConstraint(
            model_name='tenant',
            constraint=models.CheckConstraint(condition=models.Q(('timezone', ''), _negated=True), name='tenant_timezone'),
        ),
        migrations.AddConstraint(
            model_name='tenant',
            constraint=models.CheckConstraint(condition=django.db.models.lookups.Exact(models.Func(models.F('handovers'), function='jsonb_typeof', output_field=models.CharField()), models.Value('array')), name='tenant_handovers'),
        ),
    ]
