from django.conf import settings
from django.db import migrations

from tenants.row_security import isolate, of_nobody, of_tenant


class Migration(migrations.Migration):

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('tenants', '0003_history'),
    ]

    operations = [
        of_tenant('tenants_tenant', 'number'),
        of_tenant('tenants_apikey', 'tenant_id'),
        of_tenant('tenants_apitoken', 'tenant_id'),
        of_tenant('tenants_membership', 'tenant_id'),
        isolate('auth_user', 'EXISTS (SELECT 1 FROM tenants_membership AS m WHERE m.user_id = auth_user.id)'),
        of_nobody('tenants_accountevent'),
        of_nobody('tenants_apikeyevent'),
        of_nobody('tenants_apitokenevent'),
        of_nobody('tenants_membershipevent'),
        of_nobody('tenants_tenantevent'),
        of_nobody('tenants_tierevent'),
    ]
