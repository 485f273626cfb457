from django.db import migrations, models

from tenants.row_security import of_nobody


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0008_recommendation'),
    ]

    operations = [
        migrations.CreateModel(
            name='TierUse',
            fields=[
                ('pk', models.CompositePrimaryKey('tier_number', 'endpoint_number', blank=True, editable=False, primary_key=True, serialize=False)),
                ('tier_number', models.IntegerField()),
                ('endpoint_number', models.IntegerField()),
                ('measured_at', models.DateTimeField()),
                ('tenants', models.IntegerField()),
                ('asked', models.BigIntegerField()),
                ('denied', models.BigIntegerField()),
                ('busiest', models.IntegerField()),
                ('peaks', models.JSONField()),
                ('calendar', models.JSONField(default=dict)),
                ('leaders', models.JSONField(default=list)),
                ('leaders_at', models.DateTimeField(null=True)),
                ('leaders_tenants', models.IntegerField(default=0)),
                ('leaders_asked', models.BigIntegerField(default=0)),
            ],
            options={
                'db_table': 'quotas_tier_use',
            },
        ),
        of_nobody('quotas_tier_use'),
    ]
