"""Events that would repeat with every heartbeat, noted once a minute."""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction

from aistation.audit.models import AuditEvent
from aistation.audit.services import agent_of, record
from aistation.fleet.models import Node

logger = logging.getLogger(__name__)

RARELY: Final = timedelta(minutes=1)


@transaction.atomic
def note_rarely(*, node_id: int, action: str, now: datetime, after: Mapping[str, Any]) -> None:
    """An audit event and a log line about a node, unless the same kind was noted within a minute."""
    node = Node.objects.select_for_update(no_key=True).filter(pk=node_id).first()
    if node is None:
        return
    same = AuditEvent.objects.filter(target_type="node", target=node.name, action=action)
    if same.filter(at__gt=now - RARELY).exists():
        return
    record(agent_of(node.name), now, action, "node", node.name, after=after)
    logger.warning("%s on node %s: %s", action, node.name, dict(after))
