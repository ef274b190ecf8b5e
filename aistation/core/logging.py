"""Log lines that user text cannot break: one record, one line, control characters escaped, 1 KiB of message."""

import logging
import re
from typing import Final

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LONGEST: Final = 1024


def _escape(match: re.Match[str]) -> str:
    return f"\\x{ord(match.group()):02x}"


class OneLineFormatter(logging.Formatter):
    """``2026-01-31T12:00:00Z INFO aistation.jobs message``; a traceback follows on lines of its own, indented."""

    def format(self, record: logging.LogRecord) -> str:
        message = _CONTROL.sub(_escape, record.getMessage())
        if len(message) > _LONGEST:
            message = message[:_LONGEST] + "..."
        stamp = self.formatTime(record, "%Y-%m-%dT%H:%M:%S")
        line = f"{stamp} {record.levelname} {record.name} {message}"
        if record.exc_info:
            line += "\n  " + self.formatException(record.exc_info).replace("\n", "\n  ")
        return line
