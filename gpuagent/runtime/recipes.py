"""Images for plain processes: a recipe is a command with pinned Python packages, made ready once per node.

A recipe is a folder ``images/<name>`` with ``recipe.json``:
``{"command": ["jupyter", "lab"], "requirements": "requirements.txt"}``; both keys may be missing. What it needs is
installed into a virtual environment named by the hash of the requirements, so that an unchanged recipe is
never installed twice and a changed one never alters an environment that is in use.
"""

import fcntl
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from agentapi.v1 import ErrorCode, Message
from gpuagent.config import is_safe_id
from gpuagent.runtime.base import TaskError
from gpuagent.runtime.shared import SharedWork

log = logging.getLogger(__name__)

_INSTALL_TIMEOUT_S: Final = 1200


class Recipe(Message):
    """What ``recipe.json`` says. Without a command the task must bring one."""

    command: tuple[str, ...] = ()
    requirements: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A recipe that can run: its command, and the environment's folder when it has one."""

    command: tuple[str, ...] = ()
    venv: Path | None = None
    requirements: Path | None = None


class RecipeBook:
    """Finds recipes by image name and installs them. Several agents may share ``installed``."""

    def __init__(self, images: Path | None, installed: Path) -> None:
        self._images = images
        self._installed = installed
        self._installations = SharedWork()

    def find(self, image: str) -> Prepared:
        """The recipe of an image, as it will be when prepared. An unknown image is a plain host command."""
        folder = self._folder(image)
        if folder is None:
            return Prepared()
        try:
            recipe = Recipe.model_validate_json((folder / "recipe.json").read_bytes())
        except (OSError, ValidationError) as error:
            raise TaskError(ErrorCode.IMAGE_PULL, f"the recipe of image {image} cannot be read") from error
        if not recipe.requirements:
            return Prepared(recipe.command)
        requirements = folder / recipe.requirements
        return Prepared(recipe.command, self._venv(image, requirements), requirements)

    def prepare(self, image: str, cancelled: threading.Event, on_wait: Callable[[], object] = lambda: None) -> None:
        """Install what the image needs; at once when it is installed. Others that wait share one installation."""
        prepared = self.find(image)
        if prepared.venv is None or _is_complete(prepared.venv):
            return
        on_wait()
        self._installations.wait_for(prepared.venv.name, lambda: _install_or_fail(image, prepared), cancelled)

    def _folder(self, image: str) -> Path | None:
        if self._images is None or not is_safe_id(image):
            return None
        folder = self._images / image
        return folder if (folder / "recipe.json").is_file() else None

    def _venv(self, image: str, requirements: Path) -> Path:
        try:
            pins = requirements.read_bytes()
        except OSError as error:
            raise TaskError(ErrorCode.IMAGE_PULL, f"the requirements of image {image} cannot be read") from error
        digest = hashlib.sha256(pins + sys.version.encode() + sys.prefix.encode()).hexdigest()[:16]
        return self._installed / f"{image}-{digest}"


def _install_or_fail(image: str, prepared: Prepared) -> None:
    try:
        if prepared.venv is not None and prepared.requirements is not None:
            _install(prepared.venv, prepared.requirements)
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("installing %s failed: %s", prepared.requirements, error)
        why = str(error) if isinstance(error, OSError) else type(error).__name__
        raise TaskError(ErrorCode.IMAGE_PULL, f"image {image} could not be installed: {why}") from error


def _install(venv: Path, requirements: Path) -> None:
    """Make the environment, whole or not at all: the mark that it is complete comes last."""
    venv.parent.mkdir(parents=True, exist_ok=True)
    with _exclusive(venv.with_suffix(".lock")):
        if _is_complete(venv):
            return
        shutil.rmtree(venv, ignore_errors=True)
        log.info("installing %s into %s", requirements, venv)
        for command in _install_commands(venv, requirements):
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_INSTALL_TIMEOUT_S, check=False
            )
            if done.returncode != 0:
                last_line = (done.stderr or done.stdout).decode(errors="replace").strip().rpartition("\n")[2]
                raise OSError(f"{Path(command[0]).name} ended with {done.returncode}: {last_line[:300]}")
        _mark(venv).touch()


def _install_commands(venv: Path, requirements: Path) -> Iterator[Sequence[str]]:
    python = str(venv / "bin" / "python")
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    if uv := shutil.which("uv", path=beside):
        yield (uv, "venv", "--quiet", "--python", sys.executable, str(venv))
        yield (uv, "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", str(requirements))
    else:
        yield (sys.executable, "-m", "venv", str(venv))
        yield (python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(requirements))


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _mark(venv: Path) -> Path:
    return venv / ".complete"


def _is_complete(venv: Path) -> bool:
    return _mark(venv).exists()
