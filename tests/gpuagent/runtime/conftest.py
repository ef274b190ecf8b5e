"""Every runtime under the same tests: plain processes always, Docker where an engine answers."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuagent.runtime.base import ContainerRuntime
from gpuagent.runtime.docker import DockerRuntime
from gpuagent.runtime.process import ProcessRuntime
from gpuagent.runtime.recipes import RecipeBook
from tests.gpuagent.runtime.rig import Rig

_IMAGE_SCRIPT = Path(__file__).parents[2] / "images" / "busybox.sh"


def make_busybox_image() -> None:
    if shutil.which("busybox") is None:
        pytest.fail("tests of the Docker runtime need the package busybox-static")
    subprocess.run([_IMAGE_SCRIPT], check=True, timeout=60)


@pytest.fixture(params=["process", pytest.param("docker", marks=pytest.mark.docker)])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    if request.param == "docker":
        make_busybox_image()
    makers: dict[str, Callable[[], ContainerRuntime]] = {
        "process": lambda: ProcessRuntime(tmp_path / "process", RecipeBook(None, tmp_path / "recipes")),
        "docker": lambda: DockerRuntime("node-1", "127.0.0.1", "1000:1000"),
    }
    rig = Rig(makers[request.param], tmp_path)
    yield rig
    rig.close()


@pytest.fixture
def docker_rig(tmp_path: Path) -> Iterator[Rig]:
    make_busybox_image()
    rig = Rig(lambda: DockerRuntime("node-1", "127.0.0.1", "1000:1000"), tmp_path)
    yield rig
    rig.close()
