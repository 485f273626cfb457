import django.db.models.functions.datetime
from django.db import migrations, models

from tenants.row_security import of_nobody


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0005_identity'),
    ]

    operations = [
        migrations.CreateModel(
            name='KeyVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('purpose', models.CharField(choices=[('api_keys', 'hashes the secrets of API keys and tokens; published to enforcers'), ('sealing', "encrypts webhooks' secrets and the subjects of calendar quotas"), ('subjects', 'hashes the subjects of denials')], max_length=16)),
                ('version', models.IntegerField()),
                ('wrapped', models.BinaryField()),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('retired_at', models.DateTimeField(blank=True, help_text='nothing needs it any more; deleted soon after', null=True)),
            ],
            options={
                'ordering': ['purpose', 'version'],
            },
        ),
        migrations.AddField(
            model_name='apikey',
            name='next_hash',
            field=models.CharField(blank=True, db_default='', max_length=64),
        ),
        migrations.AddField(
            model_name='apikey',
            name='secret_version',
            field=models.IntegerField(db_default=1, help_text='of the key of that HMAC'),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='next_hash',
            field=models.CharField(blank=True, db_default='', max_length=64),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='secret_version',
            field=models.IntegerField(db_default=1, help_text='of the key of that HMAC'),
        ),
        migrations.AddConstraint(
            model_name='apikey',
            constraint=models.CheckConstraint(condition=models.Q(('next_hash__regex', '^(([0-9a-f]{64}|due)?)$')), name='api_key_next_hash'),
        ),
        migrations.AddConstraint(
            model_name='apitoken',
            constraint=models.CheckConstraint(condition=models.Q(('next_hash__regex', '^(([0-9a-f]{64}|due)?)$')), name='api_token_next_hash'),
        ),
        migrations.AddConstraint(
            model_name='keyversion',
            constraint=models.UniqueConstraint(fields=('purpose', 'version'), name='key_version_once'),
        ),
        migrations.AddConstraint(
            model_name='keyversion',
            constraint=models.CheckConstraint(condition=models.Q(('purpose__in', ('api_keys', 'sealing', 'subjects'))), name='key_version_purpose'),
        ),
        migrations.AddConstraint(
            model_name='keyversion',
            constraint=models.CheckConstraint(condition=models.Q(('version__gt', 0)), name='key_version_number'),
        ),
        of_nobody('tenants_keyversion'),
    ]
