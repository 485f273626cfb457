from importlib import import_module

from django.db import migrations, models

from tenants.row_security import of_nobody, of_tenant

CreatePartitioned = import_module('quotas.migrations.0002_usage').CreatePartitioned
isolation = import_module('quotas.migrations.0005_isolation')

NEW = ('quotas_seconds', 'quotas_rates_1h', 'quotas_rates_1d', 'quotas_latency_1h')


def check(tables):
    """Which tables the application may have slices made and dropped of."""
    names = ', '.join(f"'{name}'" for name in tables)
    return f"""
CREATE OR REPLACE FUNCTION headroom_slice_check(parent text, slice text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF parent <> ALL (ARRAY[{names}]) OR slice !~ ('^' || parent || '_[0-9]{{8}}t[0-9]{{2}}$') THEN
        RAISE EXCEPTION '% is no slice of %', slice, parent USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0006_calendar'),
    ]

    operations = [
        migrations.CreateModel(
            name='FoldState',
            fields=[
                ('name', models.CharField(max_length=32, primary_key=True, serialize=False)),
                ('position', models.BigIntegerField(default=0)),
                ('until', models.DateTimeField()),
                ('rest', models.BinaryField(default=b'')),
            ],
        ),
        migrations.CreateModel(
            name='JobSlot',
            fields=[
                ('job', models.CharField(max_length=100, primary_key=True, serialize=False)),
                ('slot', models.BigIntegerField()),
                ('task_id', models.CharField(max_length=64)),
                ('is_done', models.BooleanField(default=False)),
                ('at', models.DateTimeField()),
            ],
        ),
        CreatePartitioned(
            name='LatencyHour',
            fields=[
                ('pk', models.CompositePrimaryKey('endpoint_number', 'start', 'load', blank=True, editable=False, primary_key=True, serialize=False)),
                ('start', models.DateTimeField()),
                ('answers', models.BigIntegerField()),
                ('errors', models.BigIntegerField()),
                ('total_us', models.BigIntegerField()),
                ('seconds', models.IntegerField()),
                ('load', models.SmallIntegerField()),
                ('endpoint_number', models.IntegerField()),
                ('latency', models.BinaryField()),
            ],
            options={
                'db_table': 'quotas_latency_1h',
            },
            column='start',
        ),
        CreatePartitioned(
            name='PackedSeconds',
            fields=[
                ('pk', models.CompositePrimaryKey('tenant_number', 'endpoint_number', 'start', blank=True, editable=False, primary_key=True, serialize=False)),
                ('start', models.DateTimeField()),
                ('tenant_number', models.IntegerField()),
                ('endpoint_number', models.IntegerField()),
                ('packed', models.BinaryField()),
            ],
            options={
                'db_table': 'quotas_seconds',
            },
            column='start',
        ),
        CreatePartitioned(
            name='RatesDay',
            fields=[
                ('pk', models.CompositePrimaryKey('tenant_number', 'endpoint_number', 'start', blank=True, editable=False, primary_key=True, serialize=False)),
                ('start', models.DateTimeField()),
                ('allowed', models.BigIntegerField()),
                ('denied', models.BigIntegerField()),
                ('peak_1s', models.BigIntegerField()),
                ('peak_10s', models.BigIntegerField()),
                ('peak_60s', models.BigIntegerField()),
                ('cost_1s', models.BigIntegerField(null=True)),
                ('cost_10s', models.BigIntegerField(null=True)),
                ('cost_60s', models.BigIntegerField(null=True)),
                ('tenant_number', models.IntegerField()),
                ('endpoint_number', models.IntegerField()),
                ('requests', models.BinaryField()),
                ('cost', models.BinaryField(null=True)),
            ],
            options={
                'db_table': 'quotas_rates_1d',
            },
            column='start',
        ),
        CreatePartitioned(
            name='RatesHour',
            fields=[
                ('pk', models.CompositePrimaryKey('tenant_number', 'endpoint_number', 'start', blank=True, editable=False, primary_key=True, serialize=False)),
                ('start', models.DateTimeField()),
                ('allowed', models.BigIntegerField()),
                ('denied', models.BigIntegerField()),
                ('peak_1s', models.BigIntegerField()),
                ('peak_10s', models.BigIntegerField()),
                ('peak_60s', models.BigIntegerField()),
                ('cost_1s', models.BigIntegerField(null=True)),
                ('cost_10s', models.BigIntegerField(null=True)),
                ('cost_60s', models.BigIntegerField(null=True)),
                ('tenant_number', models.IntegerField()),
                ('endpoint_number', models.IntegerField()),
                ('requests', models.BinaryField()),
                ('cost', models.BinaryField(null=True)),
            ],
            options={
                'db_table': 'quotas_rates_1h',
            },
            column='start',
        ),
        migrations.CreateModel(
            name='UsageLog',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
                ('cells', models.BinaryField()),
                ('observed', models.BinaryField(default=b'')),
            ],
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('task_id', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('job', models.CharField(max_length=100)),
                ('times', models.IntegerField()),
                ('at', models.DateTimeField()),
                ('is_set_aside', models.BooleanField(default=False)),
            ],
            options={
                'indexes': [models.Index(fields=['is_set_aside', '-at'], name='delivery_set_aside')],
            },
        ),
        *(of_tenant(name, 'tenant_number') for name in NEW if name != 'quotas_latency_1h'),
        of_nobody('quotas_latency_1h'),
        of_nobody('quotas_usagelog'),
        migrations.RunSQL(check(isolation.PARTITIONED + NEW), check(isolation.PARTITIONED)),
    ]
