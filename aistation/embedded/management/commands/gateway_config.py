"""`manage.py gateway_config`: what an Envoy of the operator's own is started with."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from aistation.embedded.layout import write_private
from aistation.ingress import files, hosts
from aistation.ingress.envoy import bootstrap, gateway_secret


class Command(BaseCommand):
    help = "Write AISTATION_GATEWAY_DIR/bootstrap.json and the first routes: envoy -c bootstrap.json --drain-time-s 1"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--web", required=True, metavar="HOST:PORT", help="where the web server listens")
        parser.add_argument("--listen", default="0.0.0.0:8000", metavar="IP:PORT")
        parser.add_argument("--trusted-proxies", type=int, default=1, help="of yours before it, which end TLS")

    def handle(self, *args: Any, **options: Any) -> None:
        host, port = _split(options["listen"])
        web_host, web_port = _split(options["web"])
        config = bootstrap(
            listen=(host, port),
            web={"socket_address": {"address": web_host, "port_value": web_port}},
            admin={"socket_address": {"address": "127.0.0.1", "port_value": 9901}},
            watched=Path(settings.GATEWAY_DIR),
            secret=gateway_secret(settings.SECRET_KEY),
            trusted_proxies=options["trusted_proxies"],
        )
        files.prepare(Path(settings.GATEWAY_DIR), hosts.names())
        write_private(Path(settings.GATEWAY_DIR) / "bootstrap.json", json.dumps(config))
        self.stdout.write(f"written to {settings.GATEWAY_DIR}")


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
