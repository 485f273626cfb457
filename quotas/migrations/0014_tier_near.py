from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0013_recommendation_editor'),
    ]

    operations = [
        migrations.AddField(
            model_name='tieruse',
            name='denied_by',
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name='tieruse',
            name='near',
            field=models.IntegerField(default=0),
        ),
        migrations.AddField(
            model_name='tieruse',
            name='nearest',
            field=models.JSONField(default=list),
        ),
    ]
