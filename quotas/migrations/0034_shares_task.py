from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0033_endpoint_target'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='task',
            name='task_kind_known',
        ),
        migrations.AlterField(
            model_name='task',
            name='kind',
            field=models.CharField(choices=[('whatif', 'What If'), ('calibrate', 'Calibrate'), ('document', 'Document'), ('shares', 'Shares')], max_length=12),
        ),
        migrations.AddConstraint(
            model_name='task',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ('whatif', 'calibrate', 'document', 'shares'))), name='task_kind_known'),
        ),
    ]
