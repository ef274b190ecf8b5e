"""The snapshots of the last decisions as files, when an administrator wants them: any of them can be replayed."""

import json
import logging
from pathlib import Path
from typing import Final

from django.conf import settings

from scheduler.model import Snapshot
from scheduler.snapshot_json import dump

logger = logging.getLogger(__name__)
KEPT: Final = 1000


def keep(snapshot: Snapshot) -> None:
    """Write the snapshot into ``settings.SNAPSHOT_DIR``, if there is one, and let go of the oldest. A full disk costs
    the journal, not the decision."""
    if not settings.SNAPSHOT_DIR:
        return
    directory = Path(settings.SNAPSHOT_DIR)
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = directory / f"{snapshot.now_us}-{snapshot.version}.json"
        path.write_text(json.dumps(dump(snapshot), separators=(",", ":")))
        for old in sorted(directory.glob("*.json"))[:-KEPT]:
            old.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("the snapshot could not be kept: %s", error.strerror)
