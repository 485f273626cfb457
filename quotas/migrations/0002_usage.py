from typing import Any

from django.db import migrations, models


class CreatePartitioned(migrations.CreateModel):
    """The table that the model says, divided by time; `quotas.usage.partitions` makes the slices."""

    def __init__(self, name: str, fields: Any, options: Any, column: str) -> None:
        super().__init__(name, fields, options)
        self.column = column

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        plain = schema_editor.sql_create_table
        schema_editor.sql_create_table = f'{plain} PARTITION BY RANGE ("{self.column}")'
        try:
            super().database_forwards(app_label, schema_editor, from_state, to_state)
        finally:
            schema_editor.sql_create_table = plain


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0001_initial'),
    ]

    operations = [
        CreatePartitioned(
            name='Arrival',
            fields=[
                ('pk', models.CompositePrimaryKey('tenant_number', 'endpoint_number', 'at', 'subject', blank=True, editable=False, primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
                ('subject', models.BigIntegerField()),
                ('cost', models.BigIntegerField()),
                ('tenant_number', models.IntegerField()),
                ('endpoint_number', models.IntegerField()),
                ('allowed', models.BooleanField()),
            ],
            options={
                'db_table': 'quotas_arrival',
            },
            column='at',
        ),
        CreatePartitioned(
            name='UsageDay',
            fields=[
                ('pk', models.CompositePrimaryKey('start', 'tenant_number', 'endpoint_number', 'outcome', 'limit_number', blank=True, editable=False, primary_key=True, serialize=False)),
                ('start', models.DateTimeField()),
                ('count', models.BigIntegerField()),
                ('cost', models.BigIntegerField()),
                ('tenant_number', models.IntegerField()),
                ('endpoint_number', models.IntegerField()),
                ('limit_number', models.IntegerField()),
                ('outcome', models.CharField(max_length=1)),
            ],
            options={
                'db_table': 'quotas_usage_1d',
            },
            column='start',
        ),
        CreatePartitioned(
            name='UsageHour',
            fields=[
                ('pk', models.CompositePrimaryKey('start', 'tenant_number', 'endpoint_number', 'outcome', 'limit_number', blank=True, editable=False, primary_key=True, serialize=False)),
                ('start', models.DateTimeField()),
                ('count', models.BigIntegerField()),
                ('cost', models.BigIntegerField()),
                ('tenant_number', models.IntegerField()),
                ('endpoint_number', models.IntegerField()),
                ('limit_number', models.IntegerField()),
                ('outcome', models.CharField(max_length=1)),
            ],
            options={
                'db_table': 'quotas_usage_1h',
            },
            column='start',
        ),
        CreatePartitioned(
            name='UsageMinute',
            fields=[
                ('pk', models.CompositePrimaryKey('start', 'tenant_number', 'endpoint_number', 'outcome', 'limit_number', blank=True, editable=False, primary_key=True, serialize=False)),
                ('start', models.DateTimeField()),
                ('count', models.BigIntegerField()),
                ('cost', models.BigIntegerField()),
                ('tenant_number', models.IntegerField()),
                ('endpoint_number', models.IntegerField()),
                ('limit_number', models.IntegerField()),
                ('outcome', models.CharField(max_length=1)),
            ],
            options={
                'db_table': 'quotas_usage_1m',
            },
            column='start',
        ),
        CreatePartitioned(
            name='UsageStep',
            fields=[
                ('pk', models.CompositePrimaryKey('start', 'tenant_number', 'endpoint_number', 'outcome', 'limit_number', blank=True, editable=False, primary_key=True, serialize=False)),
                ('start', models.DateTimeField()),
                ('count', models.BigIntegerField()),
                ('cost', models.BigIntegerField()),
                ('tenant_number', models.IntegerField()),
                ('endpoint_number', models.IntegerField()),
                ('limit_number', models.IntegerField()),
                ('outcome', models.CharField(max_length=1)),
            ],
            options={
                'db_table': 'quotas_usage_10s',
            },
            column='start',
        ),
        CreatePartitioned(
            name='Denial',
            fields=[
                ('pk', models.CompositePrimaryKey('at', 'tenant_number', 'digest', blank=True, editable=False, primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
                ('digest', models.BigIntegerField()),
                ('tenant_number', models.IntegerField()),
                ('endpoint_number', models.IntegerField()),
                ('limit_number', models.IntegerField()),
                ('reason', models.CharField(max_length=32)),
                ('cost', models.BigIntegerField()),
                ('retry_us', models.BigIntegerField()),
                ('revision', models.BigIntegerField()),
                ('subject', models.BinaryField(max_length=16)),
            ],
            options={
                'db_table': 'quotas_denial',
                'indexes': [models.Index(fields=['tenant_number', '-at'], name='denial_of_tenant')],
            },
            column='at',
        ),
        migrations.CreateModel(
            name='DrainBatch',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('shard', models.IntegerField()),
                ('drained_at', models.DateTimeField()),
                ('run_id', models.CharField(max_length=40)),
                ('rows', models.IntegerField()),
            ],
            options={
                'indexes': [models.Index(fields=['shard', 'drained_at'], name='drain_batch_of_shard')],
            },
        ),
        migrations.CreateModel(
            name='DrainState',
            fields=[
                ('id', models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('drained_at', models.DateTimeField()),
                ('run_id', models.CharField(max_length=40)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='one_drain_state')],
            },
        ),
        migrations.CreateModel(
            name='GapRecord',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('start', models.DateTimeField()),
                ('end', models.DateTimeField(db_index=True)),
                ('reason', models.CharField(max_length=200)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('end__gte', models.F('start'))), name='gap_ends_after_start')],
            },
        ),
    ]
