"""Every released message stays readable: the files in golden/ are what peers of that version send.

A new field gets a default and a new file besides the old ones; an old file is never changed.
"""

import json
from pathlib import Path
from typing import Final

import pytest

from agentapi import v1

_GOLDEN: Final = Path(__file__).parent / "golden" / "v1"
_MAPS: Final = {"env", "stored"}  # no messages, but maps of names
_MESSAGES: Final[dict[str, type[v1.Message]]] = {
    "enrol_request": v1.EnrolRequest,
    "enrol_reply": v1.EnrolReply,
    "heartbeat": v1.Heartbeat,
    "heartbeat_minimal": v1.Heartbeat,
    "heartbeat_reply": v1.HeartbeatReply,
    "desired": v1.Desired,
    "desired_minimal": v1.Desired,
    "report": v1.Report,
    "report_minimal": v1.Report,
    "report_reply": v1.ReportReply,
    "log_batch": v1.LogBatch,
    "log_reply": v1.LogReply,
}


def _read(name: str) -> str:
    return (_GOLDEN / f"{name}.json").read_text(encoding="utf-8")


def test_every_file_is_tested() -> None:
    assert {path.stem for path in _GOLDEN.iterdir()} == set(_MESSAGES)


@pytest.mark.parametrize("name", _MESSAGES)
def test_a_stored_message_is_read_and_nothing_of_it_is_lost(name: str) -> None:
    message = _MESSAGES[name].model_validate_json(_read(name))
    said_again = json.loads(message.model_dump_json())
    assert _is_part(json.loads(_read(name)), said_again)


@pytest.mark.parametrize("name", _MESSAGES)
def test_what_a_newer_peer_adds_is_passed_over(name: str) -> None:
    stored = json.loads(_read(name))
    newer = json.dumps(_with_extras(stored))
    model = _MESSAGES[name]
    assert model.model_validate_json(newer) == model.model_validate_json(_read(name))


def test_words_of_a_newer_peer_are_unknown_and_no_error() -> None:
    report = {"task_id": "t", "nonce": "n", "phase": "levitating", "error": "moonlight"}
    read = v1.TaskReport.model_validate(report)
    assert (read.phase, read.error) == (v1.ContainerPhase.UNKNOWN, v1.ErrorCode.UNKNOWN)


def test_log_bytes_survive_whatever_they_are() -> None:
    data = bytes(range(256)) * 4
    chunk = v1.LogChunk.model_construct(task_id="t", nonce="n", stream=v1.Stream.STDERR, offset=7, data=data)
    sent = v1.LogBatch(chunks=(chunk,)).model_dump_json()
    assert v1.LogBatch.model_validate_json(sent).chunks[0].data == data


def _is_part(stored: object, said: object) -> bool:
    """True when all that ``stored`` holds is in ``said`` too; base64 may be wrapped otherwise."""
    if isinstance(stored, dict) and isinstance(said, dict):
        return all(key in said and _is_part(value, said[key]) for key, value in stored.items())
    if isinstance(stored, list) and isinstance(said, list):
        return len(stored) == len(said) and all(map(_is_part, stored, said))
    if isinstance(stored, str) and isinstance(said, str):
        return stored.replace("\n", "") == said.replace("\n", "")
    return stored == said


def _with_extras(value: object) -> object:
    """The same with a field more in each message."""
    if isinstance(value, dict):
        inner = {key: one if key in _MAPS else _with_extras(one) for key, one in value.items()}
        return {**inner, "from_the_future": {"a": [1]}}
    return [_with_extras(one) for one in value] if isinstance(value, list) else value
