from quotas.models.health import Heartbeat as Heartbeat
