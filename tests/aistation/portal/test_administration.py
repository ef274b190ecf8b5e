"""Pools, nodes, images, profiles, users and the audit log, for platform admins."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from aistation.catalog.models import Image, Profile
from aistation.core.clock import now
from aistation.fleet.models import Device, Node, Pool
from aistation.fleet.services import enrol_node
from aistation.portal.views.admin_audit import PAGE, changes_of
from aistation.tenancy.models import Membership, User
from aistation.tenancy.policy import Role
from tests.factories.work import submitted
from tests.factories.world import T0, Site

pytestmark = pytest.mark.django_db
Browsers = Callable[[User], Client]
POOL = {
    "kinds": ["environment", "job"],
    "slices_per_gpu": "8",
    "gpu_reserve_mib": "512",
    "cpu_overcommit_percent": "200",
    "strategy": "pack",
}
PAGES = (
    "/pools", "/pools/new", "/pools/default/change", "/nodes", "/nodes/join", "/images", "/images/new",
    "/images/shell/change", "/profiles", "/profiles/new", "/users", "/users/new", "/users/alice/password", "/audit",
)  # fmt: skip
POSTS = (
    "/nodes/n1/cordon", "/nodes/n1/uncordon", "/nodes/n1/drain", "/nodes/n1/remove", "/nodes/tokens/1/revoke",
    "/images/shell/archive", "/users/alice/deactivate", "/users/alice/reactivate", "/users/alice/promote",
    "/users/alice/demote",
)  # fmt: skip


@pytest.fixture
def root(site: Site, make_user: Callable[..., User], browser_of: Browsers) -> Client:
    return browser_of(make_user("root", admin=True))


def text_of(client: Client, path: str, data: Any = None) -> str:
    answer = client.get(path) if data is None else client.post(path, data, follow=True)
    return str(answer.content.decode())


@pytest.mark.parametrize("path", PAGES)
def test_a_platform_admin_sees_each_page(root: Client, path: str) -> None:
    assert root.get(path).status_code == 200


@pytest.mark.parametrize("path", (*PAGES, *POSTS))
def test_nobody_else_does_whatever_the_role_in_a_group(site: Site, browser_of: Browsers, path: str) -> None:
    Membership.objects.update(role=Role.GROUP_ADMIN)
    client = browser_of(site.user)
    answer = client.post(path, {"confirmed": "yes"}) if path in POSTS else client.get(path)
    assert answer.status_code == 403
    assert 'href="/pools"' not in client.get("/").content.decode()
    assert Node.objects.filter(name="n1", duty="in_service").exists()


@pytest.mark.parametrize("path", ["/pools/none/change", "/images/none/change", "/users/none/password"])
def test_what_does_not_exist_is_missing(root: Client, path: str) -> None:
    assert root.get(path).status_code == 404


class TestPools:
    def test_one_is_created_and_changed(self, root: Client) -> None:
        assert root.post("/pools/new", {"name": "train", **POOL}).status_code == 303
        page = text_of(root, "/pools/train/change", {**POOL, "slices_per_gpu": "4"})
        assert "The pool is changed." in page
        pool = Pool.objects.get(name="train")
        assert (pool.slices_per_gpu, pool.cpu_overcommit_percent) == (4, 200)

    def test_errors_stand_by_their_fields(self, root: Client) -> None:
        page = text_of(root, "/pools/new", {**POOL, "name": "No Good", "cpu_overcommit_percent": "50"})
        assert 'id="id_cpu_overcommit_percent_error"' in page
        page = text_of(root, "/pools/new", {**POOL, "name": "No Good"})
        assert 'id="id_name_error"' in page
        assert 'value="No Good"' in page

    def test_the_refusal_to_cut_cards_in_use_is_shown(self, root: Client) -> None:
        Device.objects.filter(uuid="GPU-n1-0").update(taken_milli=125, memory_taken_mib=3999)
        page = text_of(root, "/pools/default/change", {**POOL, "slices_per_gpu": "4"})
        assert "Parts of 1 cards are in use on n1." in page
        assert Pool.objects.get(name="default").slices_per_gpu == 8


class TestNodes:
    def test_duty_is_changed_after_a_question(self, root: Client) -> None:
        asked = root.post("/nodes/n1/drain")
        assert "Drain n1?" in asked.content.decode()
        assert Node.objects.get(name="n1").duty == "in_service"
        for verb, duty in (("drain", "draining"), ("cordon", "cordoned"), ("uncordon", "in_service")):
            assert root.post(f"/nodes/n1/{verb}", {"confirmed": "yes"}).status_code == 303
            assert Node.objects.get(name="n1").duty == duty

    def test_an_empty_node_is_removed(self, root: Client) -> None:
        root.post("/nodes/n1/remove", {"confirmed": "yes"})
        assert not Node.objects.filter(name="n1").exists()

    def test_a_join_token_is_shown_once_and_works(self, root: Client) -> None:
        answer = root.post("/nodes/join", {"pool": "default", "hours": "2"})
        assert answer.status_code == 201
        found = re.search(r"aisj_[A-Za-z0-9_-]+", answer.content.decode())
        assert found is not None
        assert found.group() not in text_of(root, "/nodes")
        node = enrol_node(join_token=found.group(), name="n2", fingerprint="f", agent_version="1", now=now())
        assert node.node.pool.name == "default"

    def test_an_unused_join_token_is_revoked(self, root: Client) -> None:
        root.post("/nodes/join", {"pool": "default", "hours": "2"})
        path = re.search(r"/nodes/tokens/\d+/revoke", text_of(root, "/nodes"))
        assert path is not None
        assert root.post(path.group(), {"confirmed": "yes"}).status_code == 303
        assert "/nodes/tokens/" not in text_of(root, "/nodes")
        assert root.post(path.group(), {"confirmed": "yes"}).status_code == 404

    def test_a_join_token_needs_a_pool_that_exists(self, root: Client) -> None:
        assert 'id="id_pool_error"' in text_of(root, "/nodes/join", {"pool": "none", "hours": "2"})


class TestCatalogue:
    def test_an_image_is_offered_changed_and_archived(self, root: Client) -> None:
        image = {"name": "torch", "reference": "pytorch/pytorch:2", "kinds": ["job"], "command": "python -c 'print(1)'"}
        assert root.post("/images/new", {**image, "group": "vision"}).status_code == 303
        made = Image.objects.get(name="torch")
        assert (made.command, made.group and made.group.name) == (["python", "-c", "print(1)"], "vision")
        root.post("/images/torch/change", {**image, "reference": "pytorch/pytorch:3"})
        assert Image.objects.get(name="torch").reference == "pytorch/pytorch:3"
        root.post("/images/torch/archive", {"confirmed": "yes"})
        assert "torch" not in text_of(root, "/images").replace("torch is archived", "")

    def test_what_the_catalogue_refuses_stands_by_its_field(self, root: Client) -> None:
        page = text_of(root, "/images/new", {"name": "x", "reference": "Not Good", "kinds": ["environment"]})
        assert 'id="id_reference_error"' in page
        assert 'id="id_port_error"' in page

    def test_a_profile_is_offered_and_deleted(self, root: Client) -> None:
        profile = {"name": "small", "kinds": ["environment"], "cpu": "2.5", "memory": "8", "pool": "default"}
        sliced = {"gpu_mode": "slices", "gpus": "1", "gpu_slices": "2"}
        assert root.post("/profiles/new", {**profile, **sliced}).status_code == 303
        made = Profile.objects.get(name="small")
        assert (made.cpu_milli, made.memory_mib, made.gpus, made.gpu_slices) == (2500, 8192, 1, 2)
        root.post("/profiles/small/delete", {"confirmed": "yes"})
        assert not Profile.objects.exists()

    def test_a_profile_of_slices_says_how_many(self, root: Client) -> None:
        profile = {"name": "small", "kinds": ["job"], "cpu": "1", "memory": "1", "gpu_mode": "slices", "gpus": "1"}
        assert 'id="id_gpu_slices_error"' in text_of(root, "/profiles/new", profile)


class TestUsers:
    def test_one_is_created_and_may_sign_in(self, root: Client) -> None:
        person = {"username": "carol", "display_name": "Carol", "password": "correct horse battery"}
        assert root.post("/users/new", person).status_code == 303
        browser = Client()
        assert browser.post("/login", {**person}).status_code == 303

    def test_a_weak_password_is_refused_and_never_sent_back(self, root: Client) -> None:
        page = text_of(root, "/users/new", {"username": "carol", "password": "short"})
        assert 'id="id_password_error"' in page
        assert "short" not in re.sub(r'<div class="invalid-feedback.*?</div></div>', "", page, flags=re.DOTALL)

    def test_rights_come_and_go_after_a_question(self, root: Client) -> None:
        assert "Make alice a platform admin?" in text_of(root, "/users/alice/promote", {})
        root.post("/users/alice/promote", {"confirmed": "yes"})
        assert User.objects.get(username="alice").is_platform_admin
        root.post("/users/alice/demote", {"confirmed": "yes"})
        assert not User.objects.get(username="alice").is_platform_admin
        assert "This is the last platform admin." in text_of(root, "/users/root/demote", {"confirmed": "yes"})

    def test_a_deactivated_person_is_signed_out_and_comes_back(
        self, root: Client, site: Site, browser_of: Browsers
    ) -> None:
        alice = browser_of(site.user)
        root.post("/users/alice/deactivate", {"confirmed": "yes"})
        assert alice.get("/").status_code == 302
        assert "deactivated" in text_of(root, "/users")
        root.post("/users/alice/reactivate")
        assert User.objects.get(username="alice").is_active

    def test_one_with_live_work_is_not_deactivated(self, root: Client, site: Site) -> None:
        submitted(site)
        assert "are live. Cancel or stop them first." in text_of(root, "/users/alice/deactivate", {"confirmed": "yes"})
        assert User.objects.get(username="alice").is_active

    def test_a_new_password_is_set(self, root: Client) -> None:
        root.post("/users/alice/password", {"password": "another horse battery"})
        assert User.objects.get(username="alice").check_password("another horse battery")

    def test_the_list_is_searched_and_goes_on(self, root: Client) -> None:
        User.objects.bulk_create(User(username=f"p{number:03}", created_at=T0) for number in range(120))
        page = text_of(root, "/users")
        assert "p099" not in page
        following = re.search(r'href="(\?[^"]*after=[^"]*)"', page)
        assert following is not None
        assert "p119" in text_of(root, "/users" + following[1].replace("&amp;", "&"))
        assert 'data-user="p007"' in text_of(root, "/users?q=P007")


class TestAudit:
    def test_a_change_is_readable_before_and_after(self, root: Client) -> None:
        root.post("/pools/default/change", {**POOL, "cpu_overcommit_percent": "300"})
        page = text_of(root, "/audit?target_type=pool&target=default")
        assert "<del>100</del>" in page
        assert "<ins>300</ins>" in page

    def test_filters_and_pages(self, root: Client, site: Site) -> None:
        for _ in range(PAGE // 2 + 1):
            root.post("/nodes/n1/cordon", {"confirmed": "yes"})
            root.post("/nodes/n1/uncordon")
        page = text_of(root, "/audit?actor=root")
        older = re.search(r'href="(\?[^"]*before=\d+)"', page)
        assert older is not None
        assert page.count('<td class="mono text-nowrap">') == PAGE
        rest = text_of(root, "/audit" + older[1].replace("&amp;", "&"))
        assert 2 <= rest.count('<td class="mono text-nowrap">') < PAGE
        assert "Names must match exactly." in text_of(root, "/audit?actor=nobody")

    def test_only_what_differs_is_told(self) -> None:
        told = changes_of({"a": 1, "b": [1], "c": "x"}, {"a": 1, "b": [2], "d": None})
        assert [(one.name, one.before, one.after) for one in told] == [
            ("b", "[1]", "[2]"), ("c", "x", None), ("d", None, "none")
        ]  # fmt: skip

    def test_a_key_that_is_none_is_no_error(self, root: Client) -> None:
        assert root.get("/audit?before=x%00&actor=%00").status_code == 200
