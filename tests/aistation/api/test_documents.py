"""OpenAPI, its page, metrics."""

import json

import pytest
from django.core.management import call_command
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from tests.architecture.route_table import API as ROUTES
from tests.factories.api import Api, World
from tests.factories.work import placed, submitted


class TestOpenApi:
    def test_the_document_is_valid_and_made_without_a_warning(self, tmp_path: object) -> None:
        call_command("spectacular", "--validate", "--fail-on-warn", "--file", f"{tmp_path}/openapi.yaml")

    def test_it_describes_every_route_and_method_and_no_other(self, alice: Api) -> None:
        described = {
            (path, method.upper()) for path, item in alice.get("/api/schema/")["paths"].items() for method in item
        }
        listed = {
            (path.replace("join_token_id", "token_id"), row.method)
            for path, rows in ROUTES.items()
            if path.startswith("/api/v1/")
            for row in rows
        }
        assert described == listed

    def test_every_operation_says_which_problems_it_answers_with(self, alice: Api) -> None:
        document = alice.get("/api/schema/")
        for path, item in document["paths"].items():
            for method, operation in item.items():
                answers = operation["responses"]
                assert {"400", "401", "403", "404", "429", "503"} <= set(answers), (method, path)
                assert answers["401"]["content"] == {
                    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                }
                if method == "post":
                    assert "Idempotency-Key" in [parameter["name"] for parameter in operation["parameters"]]
                    assert {"409", "413", "415"} <= set(answers)

    def test_operations_have_names_of_their_own(self, alice: Api) -> None:
        ids = [
            operation["operationId"]
            for item in alice.get("/api/schema/")["paths"].values()
            for operation in item.values()
        ]
        assert len(ids) == len(set(ids))
        assert all(name.isidentifier() for name in ids)

    def test_inputs_take_no_unknown_field(self, alice: Api) -> None:
        schemas = alice.get("/api/schema/")["components"]["schemas"]
        assert schemas["JobInputRequest"]["additionalProperties"] is False
        assert schemas["ResourcesInputRequest"]["properties"]["gpus"] | {"description": ""} == {
            "type": "integer", "minimum": 0, "maximum": 32767, "default": 0, "description": "",
        }  # fmt: skip


class TestThePage:
    def test_it_asks_for_sign_in(self, db: None) -> None:
        answer = Client().get("/api/docs/")
        assert (answer.status_code, answer["Location"]) == (302, "/login?next=/api/docs/")

    def test_it_keeps_the_content_security_policy(self, world: World) -> None:
        browser = Client()
        browser.force_login(world.site.user)
        answer = browser.get("/api/docs/")
        page = answer.content.decode()
        assert answer.status_code == 200
        assert "unsafe-inline" not in answer["Content-Security-Policy"].replace("style-src 'self' 'unsafe-inline'", "")
        assert "<script>" not in page
        assert "onload=" not in page
        assert "swagger-ui-bundle.js" in page


class TestMetrics:
    @pytest.mark.parametrize("path", ["/metrics", "/api/v1/metrics"])
    def test_they_are_prometheus_text_with_the_present_numbers(self, world: World, path: str) -> None:
        placed(world.site, 0, 1)
        submitted(world.site)
        answer = world.root.call("GET", path, accept="application/openmetrics-text")
        assert answer["Content-Type"].startswith("text/plain; version=")
        samples = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(answer.content.decode())
            for sample in family.samples
        }
        assert samples["aistation_workloads", (("kind", "job"), ("state", "scheduled"))] == 1
        assert samples["aistation_queue_length", (("pool", "default"),)] == 1
        assert samples["aistation_pool_gpus_free", (("pool", "default"),)] == 6
        assert samples["aistation_nodes", (("pool", "default"), ("state", "ready"))] == 1
        card = (("node", "n1"), ("pool", "default"), ("uuid", "GPU-n1-0"))
        assert samples["aistation_gpu_taken_milli", card] == 1000
        assert samples["aistation_group_gpu_milli_used", (("group", "vision"),)] == 2000
        assert ("aistation_scheduler_epoch", ()) in samples

    def test_what_a_card_does_not_report_is_absent_and_not_zero(self, root: Api) -> None:
        assert b"gpu_temperature_celsius{" not in root.call("GET", "/metrics").content

    def test_no_label_names_a_job_or_a_person(self, world: World) -> None:
        job = placed(world.site, 0, name="very-special-name")
        text = world.root.call("GET", "/metrics").content.decode()
        for word in (job.uid, "very-special-name", "alice"):
            assert word not in text


def test_what_the_document_says_of_a_job_is_what_a_job_answers(alice: Api) -> None:
    schema = alice.get("/api/schema/")["components"]["schemas"]["JobOutput"]
    job = alice.post("/jobs", {"image": "shell"})
    assert set(schema["properties"]) == set(job)
    assert json.dumps(job)
