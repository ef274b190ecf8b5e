"""Recipes: images of the process runtime."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentapi.v1 import ErrorCode
from gpuagent.runtime.base import CancelledError, TaskError
from gpuagent.runtime.recipes import Prepared, RecipeBook
from tests.gpuagent.waiting import wait_until

_never = threading.Event()


def _recipe(images: Path, name: str, recipe: object, requirements: str | None = None) -> None:
    (images / name).mkdir(parents=True)
    (images / name / "recipe.json").write_text(json.dumps(recipe), encoding="utf-8")
    if requirements is not None:
        (images / name / "requirements.txt").write_text(requirements, encoding="ascii")


@pytest.fixture
def installer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for uv that makes the folder, notes each call and waits while a file says so."""
    tool = tmp_path / "bin" / "uv"
    tool.parent.mkdir()
    tool.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n'
        f"while [ -e {tmp_path}/wait ]; do sleep 0.02; done\n"
        f"[ ! -e {tmp_path}/fail ] || {{ echo 'no such package' >&2; exit 3; }}\n"
        'if [ "$1" = venv ]; then for last; do :; done; mkdir -p "$last/bin"; fi\n',
        encoding="ascii",
    )
    tool.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tool.parent / "python"))  # uv is looked for beside it
    return tmp_path


def _calls(tmp_path: Path) -> int:
    path = tmp_path / "calls"
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


def test_an_unknown_image_is_a_plain_host_command(tmp_path: Path) -> None:
    book = RecipeBook(tmp_path, tmp_path / "installed")
    book.prepare("pytorch-2", _never)
    assert book.find("pytorch-2") == Prepared()
    assert book.find("../../etc") == Prepared()
    assert RecipeBook(None, tmp_path).find("shell") == Prepared()


def test_a_recipe_without_requirements_is_ready_at_once(tmp_path: Path) -> None:
    _recipe(tmp_path, "hello", {"command": ["echo", "hi"], "later": "field"})
    book = RecipeBook(tmp_path, tmp_path / "installed")
    book.prepare("hello", _never)
    assert book.find("hello").command == ("echo", "hi")
    assert not (tmp_path / "installed").exists()


def test_many_tasks_install_a_recipe_once(installer: Path) -> None:
    _recipe(installer / "images", "lab", {"requirements": "requirements.txt"}, "pinned==1\n")
    book = RecipeBook(installer / "images", installer / "installed")
    (installer / "wait").touch()
    threads = [threading.Thread(target=book.prepare, args=("lab", _never)) for _ in range(5)]
    for thread in threads:
        thread.start()
    wait_until(lambda: _calls(installer) == 1)
    (installer / "wait").unlink()
    for thread in threads:
        thread.join(30)
    book.prepare("lab", _never)
    RecipeBook(installer / "images", installer / "installed").prepare("lab", _never)
    assert _calls(installer) == 2  # the environment, and what goes into it
    venv = book.find("lab").venv
    assert venv is not None
    assert (venv / ".complete").exists()


def test_changed_requirements_get_an_environment_of_their_own(installer: Path) -> None:
    _recipe(installer / "images", "lab", {"requirements": "requirements.txt"}, "pinned==1\n")
    book = RecipeBook(installer / "images", installer / "installed")
    before = book.find("lab").venv
    (installer / "images" / "lab" / "requirements.txt").write_text("pinned==2\n", encoding="ascii")
    assert book.find("lab").venv != before


def test_a_waiting_task_can_be_stopped_and_the_installation_goes_on(installer: Path) -> None:
    """B018."""
    _recipe(installer / "images", "lab", {"requirements": "requirements.txt"}, "pinned==1\n")
    book = RecipeBook(installer / "images", installer / "installed")
    (installer / "wait").touch()
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(CancelledError):
        book.prepare("lab", stopped)
    (installer / "wait").unlink()
    book.prepare("lab", _never)


def test_a_failed_installation_says_why_and_is_tried_again(installer: Path) -> None:
    _recipe(installer / "images", "lab", {"requirements": "requirements.txt"}, "pinned==1\n")
    book = RecipeBook(installer / "images", installer / "installed")
    (installer / "fail").touch()
    with pytest.raises(TaskError, match="no such package") as caught:
        book.prepare("lab", _never)
    assert caught.value.code == ErrorCode.IMAGE_PULL
    (installer / "fail").unlink()
    book.prepare("lab", _never)


@pytest.mark.parametrize("text", ["", "[]", '{"command": 5}'])
def test_a_broken_recipe_is_an_image_that_cannot_be_had(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "recipe.json").write_text(text, encoding="ascii")
    with pytest.raises(TaskError) as caught:
        RecipeBook(tmp_path, tmp_path / "installed").find("bad")
    assert caught.value.code == ErrorCode.IMAGE_PULL


def test_pip_does_it_where_there_is_no_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is to be installed, so no index is asked."""
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    _recipe(tmp_path / "images", "empty", {"requirements": "requirements.txt"}, "# nothing\n")
    book = RecipeBook(tmp_path / "images", tmp_path / "installed")
    book.prepare("empty", _never)
    venv = book.find("empty").venv
    assert venv is not None
    done = subprocess.run(
        [venv / "bin" / "python", "-m", "pip", "--version"], capture_output=True, check=True, timeout=60
    )
    assert str(venv).encode() in done.stdout
