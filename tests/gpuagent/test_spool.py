"""The log file of a task: exact for any bytes, any cuts and any crash."""

import resource
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuagent.spool import MAX_FRAME, STDERR, STDOUT, SpoolReader, SpoolWriter

_pieces = st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), st.binary(max_size=300)), max_size=20)
_LIMIT = 1 << 30


def _write(path: Path, pieces: list[tuple[int, bytes]], limit: int = _LIMIT) -> SpoolWriter:
    writer = SpoolWriter(path, limit)
    for stream, data in pieces:
        writer.write(stream, data)
    writer.close()
    return writer


def _read_all(reader: SpoolReader, step: int) -> list[tuple[int, int, bytes]]:
    runs = []
    while found := reader.read(step):
        runs += found
    return runs


def _per_stream(pieces: list[tuple[int, bytes]]) -> dict[int, bytes]:
    return {stream: b"".join(data for kind, data in pieces if kind == stream) for stream in (STDOUT, STDERR)}


@settings(deadline=None)
@given(_pieces, st.integers(1, 500))
def test_what_was_written_is_read_in_order_whatever_the_step(pieces: list[tuple[int, bytes]], step: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "log"
        _write(path, pieces)
        reader = SpoolReader(path)
        runs = _read_all(reader, step)
        reader.close()
    offset = 0
    for _, run_offset, data in runs:
        assert run_offset == offset
        assert 0 < len(data) <= step
        offset += len(data)
    assert _per_stream([(stream, data) for stream, _, data in runs]) == _per_stream(pieces)
    assert b"".join(data for _, _, data in runs) == b"".join(data for _, data in pieces)


@settings(deadline=None)
@given(_pieces, st.integers(0, 7000), st.integers(1, 500))
def test_reading_goes_on_from_any_offset(pieces: list[tuple[int, bytes]], offset: int, step: int) -> None:
    whole = b"".join(data for _, data in pieces)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "log"
        _write(path, pieces)
        reader = SpoolReader(path)
        _read_all(reader, step)
        reader.seek(offset)
        assert reader.offset == min(offset, len(whole))
        assert b"".join(data for _, _, data in _read_all(reader, step)) == whole[offset:]
        reader.seek(offset)
        other = SpoolReader(path, reader.position, reader.frame_offset)
        other.seek(offset)
        assert b"".join(data for _, _, data in _read_all(other, step)) == whole[offset:]
        reader.close()
        other.close()


@settings(deadline=None)
@given(_pieces, st.integers(1, 400), _pieces)
def test_a_writer_that_died_in_a_frame_is_followed_by_one_that_cuts_it_off(
    before: list[tuple[int, bytes]], torn: int, after: list[tuple[int, bytes]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "log"
        _write(path, [*before, (STDOUT, b"x" * 400)])
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - torn)
        reader = SpoolReader(path)
        runs = _read_all(reader, 1000)
        writer = SpoolWriter(path, _LIMIT)
        assert writer.size == sum(len(data) for _, data in before)
        for stream, data in after:
            writer.write(stream, data)
        writer.close()
        runs += _read_all(reader, 1000)
        reader.close()
    assert b"".join(data for _, _, data in runs) == b"".join(data for _, data in [*before, *after])


@settings(deadline=None)
@given(_pieces, st.integers(0, 2000))
def test_a_log_is_cut_exactly_at_its_limit_and_says_so(pieces: list[tuple[int, bytes]], limit: int) -> None:
    whole = b"".join(data for _, data in pieces)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "log"
        writer = _write(path, pieces, limit)
        assert writer.is_truncated is (len(whole) > limit)
        again = SpoolWriter(path, limit)
        again.write(STDOUT, b"more") if again.is_truncated else None
        assert (again.size, again.is_truncated) == (writer.size, writer.is_truncated)
        again.close()
        reader = SpoolReader(path)
        assert b"".join(data for _, _, data in _read_all(reader, 100)) == whole[:limit]
        reader.skip_to_end()
        assert reader.is_truncated is writer.is_truncated
        reader.close()


def test_large_pieces_are_several_frames_and_one_run(tmp_path: Path) -> None:
    data = bytes(range(256)) * 1024
    assert len(data) > 3 * MAX_FRAME
    _write(tmp_path / "log", [(STDOUT, data)])
    reader = SpoolReader(tmp_path / "log")
    assert reader.read(len(data)) == [(STDOUT, 0, data)]
    assert reader.stream_sizes == {STDOUT: len(data)}
    reader.close()


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    """B046."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = SpoolWriter(tmp_path / "log", _LIMIT)
    writer.write(STDOUT, b"before")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # a file that cannot grow: as on a full disk
    try:
        with pytest.raises(OSError, match="File too large"):
            writer.write(STDOUT, b"after" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    writer.write(STDOUT, b" and behind")
    writer.close()
    reader = SpoolReader(tmp_path / "log")
    assert reader.read(100) == [(STDOUT, 0, b"before and behind")]
    reader.close()


def test_the_tail_of_one_stream_can_be_read_back(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path / "log", _LIMIT)
    for number in range(100):
        writer.write(STDOUT if number % 2 else STDERR, b"%03d" % number)
    assert writer.read_tail(STDOUT, 6) == b"097099"
    assert writer.read_tail(STDERR, 3) == b"098"
    assert writer.read_tail(STDOUT, 0) == b""
    writer.close()
