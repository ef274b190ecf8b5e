"""Fetches images: what is here is used as it is, what is missing is pulled, with an end in every case."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from docker import APIClient
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from agentapi.v1 import ErrorCode
from gpuagent.runtime.base import TaskError
from gpuagent.runtime.docker_engine import Engine, engine_errors, new_client
from gpuagent.runtime.shared import SharedWork

log = logging.getLogger(__name__)

_SILENCE_S: Final = 120  # without a word from the engine a pull has failed
_PULL_S: Final = 2 * 3600


class ImageStore:
    """Makes references ready. Several tasks that need the same one wait for the same pull."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._pulls = SharedWork()

    def prepare(self, reference: str, cancelled: threading.Event, on_wait: Callable[[], object]) -> None:
        """TaskError IMAGE_PULL when the image is not here and cannot be had."""
        if not self._is_here(reference):
            on_wait()
            self._pulls.wait_for(reference, lambda: _pull(reference), cancelled)

    def _is_here(self, reference: str) -> bool:
        with engine_errors("looking for the image"):
            try:
                self._engine.client().inspect_image(reference)  # type: ignore[no-untyped-call]  # a gap in the stubs
            except (ImageNotFound, NotFound):
                return False
            except APIError as error:
                if error.status_code == 400:
                    raise TaskError(ErrorCode.IMAGE_PULL, f"{reference[:200]} is not an image reference") from error
                raise
            return True


def _pull(reference: str) -> None:
    log.info("pulling %s", reference)
    client = new_client(_SILENCE_S)
    deadline = time.monotonic() + _PULL_S
    try:
        _follow_pull(client, reference, deadline)
    except (DockerException, RequestException, HTTPError, OSError) as error:
        why = error.explanation if isinstance(error, APIError) else type(error).__name__
        raise TaskError(ErrorCode.IMAGE_PULL, f"{reference} could not be pulled: {str(why)[:300]}") from error
    finally:
        client.close()


def _follow_pull(client: APIClient, reference: str, deadline: float) -> None:
    for line in client.pull(reference, stream=True, decode=True):
        if "error" in line:
            raise TaskError(ErrorCode.IMAGE_PULL, f"{reference} could not be pulled: {str(line['error'])[:300]}")
        if time.monotonic() > deadline:
            raise TaskError(ErrorCode.IMAGE_PULL, f"{reference} could not be pulled within {_PULL_S} s")
