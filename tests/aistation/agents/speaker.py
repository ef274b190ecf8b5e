"""A node that speaks the wire through Django's test client."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpResponse
from django.test import Client

from agentapi.v1 import Message
from aistation.fleet.models import Node
from aistation.fleet.services import digest_of

TOKEN = "aisn_of-this-node"


@dataclass
class Agent:
    """Posts messages, or anything else, as one node."""

    node: Node | None = None
    token: str = TOKEN
    client: Client = field(default_factory=Client)

    def post(self, path: str, body: Message | Mapping[str, Any] | bytes) -> HttpResponse:
        data = body.model_dump_json().encode() if isinstance(body, Message) else body
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        answer: Any = self.client.post(f"/agent/v1/{path}", data, content_type="application/json", headers=headers)
        return answer  # type: ignore[no-any-return]

    def get(self, path: str) -> HttpResponse:
        answer: Any = self.client.get(f"/agent/v1/{path}", headers={"Authorization": f"Bearer {self.token}"})
        return answer  # type: ignore[no-any-return]

    def report(self, *tasks: Mapping[str, Any], version: int = 0, **rest: Any) -> HttpResponse:
        assert self.node is not None
        return self.post("report", {"fingerprint": self.node.fingerprint, "version": version, "tasks": tasks, **rest})


def agent_of(node: Node, token: str = TOKEN) -> Agent:
    """Give the node this credential and speak for it."""
    Node.objects.filter(pk=node.pk).update(token_digest=digest_of(token))
    return Agent(node, token)


def a_heartbeat() -> dict[str, Any]:
    """A complete heartbeat of the node ``n1``, as JSON."""
    return {
        "protocol": 1,
        "fingerprint": "n1",
        "boot_id": "b",
        "agent_version": "1.0",
        "address": "10.0.0.5",
        "inventory": {
            "hostname": "n1",
            "cpu_milli": 48_000,
            "memory_mib": 393_216,
            "runtime": "docker",
            "devices": [{"uuid": "GPU-n1-0", "model": "Tesla V100-SXM2-32GB", "memory_mib": 32_510}],
        },
    }
