"""Groups, members, users and quotas over REST."""

from typing import Any

import pytest

from aistation.audit.models import AuditEvent
from tests.factories.api import JOB, Api, World, faults
from tests.factories.work import placed, submitted


class TestGroups:
    def test_people_see_their_groups_and_admins_all(self, world: World) -> None:
        assert [group["name"] for group in world.alice.get("/groups")["results"]] == ["vision"]
        assert [group["name"] for group in world.root.get("/groups")["results"]] == ["speech", "vision"]

    @pytest.mark.parametrize("name", ["", "A", "a..b", "-a", "a" * 64, "api", "a/b", "ü", "a b"])
    def test_a_bad_name_is_refused(self, root: Api, name: str) -> None:
        assert "name" in faults(root.post("/groups", {"name": name}, status=400))

    def test_a_name_that_is_taken_is_a_conflict_that_names_the_field(self, root: Api) -> None:
        root.post("/groups", {"name": "new"})
        assert faults(root.post("/groups", {"name": "new"}, status=409)) == {"name": "taken"}

    def test_members_come_change_and_go(self, world: World) -> None:
        members = "/groups/vision/members"
        made = world.group_admin.post(members, {"username": "bob", "role": "viewer"}, status=200)
        assert (made["username"], made["role"]) == ("bob", "viewer")
        assert world.group_admin.post(members, {"username": "bob"}, status=200)["role"] == "member"
        names = [member["username"] for member in world.bob.get(members)["results"]]
        assert names == ["alice", "bob", "gina", "vera"]
        world.group_admin.delete(f"{members}/bob")
        assert world.bob.call("GET", members).status_code == 404
        assert world.group_admin.call("DELETE", f"{members}/bob").status_code == 404

    def test_a_group_with_live_work_is_not_deleted_and_its_work_is_named(self, world: World) -> None:
        """B071."""
        job = submitted(world.site)
        problem = world.root.call("DELETE", "/groups/vision").json()
        assert (problem["code"], problem["live"]) == ("conflict", [job.uid])
        world.alice.post(f"/jobs/{job.uid}/cancel", status=200)
        world.root.delete("/groups/vision")
        assert world.alice.call("GET", "/groups/vision").status_code == 404
        assert world.alice.call("POST", "/jobs", JOB).status_code == 400
        assert faults(world.root.post("/groups", {"name": "vision"}, status=409)) == {"name": "taken"}


class TestUsers:
    def test_an_admin_makes_changes_and_deactivates_people(self, world: World) -> None:
        body = {"username": "zoe", "password": "a long enough one", "email": "zoe@example.org"}
        assert world.root.post("/users", body)["is_active"] is True
        assert world.root.patch("/users/zoe", {"is_platform_admin": True})["is_platform_admin"] is True
        assert world.root.patch("/users/zoe", {"is_active": False})["is_active"] is False
        names = [user["username"] for user in world.root.get("/users?limit=2")["results"]]
        assert names == ["alice", "bob"]

    def test_passwords_are_checked_and_shown_nowhere(self, world: World) -> None:
        problem = world.root.post("/users", {"username": "zoe", "password": "short"}, status=400)
        assert "password" in faults(problem)
        assert b"short" not in world.root.call("GET", "/audit").content
        assert "password" not in world.root.post("/users", {"username": "zoe", "password": "a long enough one"})

    @pytest.mark.parametrize("email", ["x", "a@b", "a" * 300 + "@example.org", 1])
    def test_a_bad_address_is_refused(self, root: Api, email: object) -> None:
        assert "email" in faults(root.post("/users", {"username": "zoe", "email": email}, status=400))

    def test_the_last_admin_stays(self, root: Api) -> None:
        assert root.patch("/users/root", {"is_platform_admin": False}, status=409)["code"] == "conflict"
        assert root.call("DELETE", "/users/root").status_code == 409

    def test_a_person_with_live_work_stays_until_it_has_ended(self, world: World) -> None:
        """B071: 409 with a list; then tokens are dead at once, history stays, other tenants are untouched."""
        job = submitted(world.site)
        problem = world.root.call("DELETE", "/users/alice").json()
        assert (problem["code"], problem["live"], problem["live_count"]) == ("conflict", [job.uid], 1)
        world.root.post(f"/jobs/{job.uid}/cancel", status=200)
        world.root.delete("/users/alice")
        assert world.alice.call("GET", "/me").status_code == 401
        assert world.root.get(f"/jobs/{job.uid}")["user"] == "alice"
        assert world.bob.get("/me")["username"] == "bob"
        world.root.delete("/users/alice")


class TestQuotas:
    def test_numbers_are_set_and_shown_beside_the_use(self, world: World) -> None:
        placed(world.site, 0, 1)
        submitted(world.site)
        body = [
            {"gpu_milli": {"guaranteed": 1000, "limit": 6000}, "max_queued_jobs": 5},
            {"pool": "default", "cpu_milli": {"limit": 0}},
        ]
        rows = world.root.put("/groups/vision/quotas", body)
        everywhere, pool = rows
        assert (everywhere["pool"], pool["pool"]) == (None, "default")
        assert everywhere["gpu_milli"] == {"guaranteed": 1000, "limit": 6000, "used": 2000, "free": 4000}
        assert (everywhere["max_queued_jobs"], everywhere["queued_jobs"], everywhere["running_jobs_used"]) == (5, 1, 1)
        assert pool["cpu_milli"] == {"guaranteed": 0, "limit": 0, "used": 2000, "free": 0}
        assert pool["over"] == ["cpu_milli"]
        assert world.viewer.get("/groups/vision/quotas") == rows

    def test_a_limit_below_use_shows_over_and_never_negative_room(self, world: World) -> None:
        """B006."""
        placed(world.site, *range(6))
        for limit in (4000, 2000):
            row = world.root.put("/groups/vision/quotas", [{"gpu_milli": {"limit": limit}}])[0]
            assert row["gpu_milli"] == {"guaranteed": 0, "limit": limit, "used": 6000, "free": 0}
            assert row["over"] == ["gpu_milli"]
        raised = world.root.put("/groups/vision/quotas", [{"gpu_milli": {"limit": 7000}}])[0]
        assert (raised["gpu_milli"]["free"], raised["over"]) == (1000, [])

    def test_absent_stays_null_is_unlimited_zero_is_nothing(self, world: World) -> None:
        """B011: each form has one meaning, and what was read can be written back."""
        path = "/groups/vision/users/alice/quotas"
        put = world.group_admin.put
        assert put(path, [{"cpu_milli": {"limit": 5}, "max_priority": 70}])[0]["cpu_milli"]["limit"] == 5
        same: list[list[dict[str, Any]]] = [[], [{}], [{"cpu_milli": {}}], [{"pool": None}]]
        for unchanged in same:
            row = put(path, unchanged)[0]
            assert (row["cpu_milli"]["limit"], row["max_priority"]) == (5, 70)
        read = world.group_admin.get(path)
        assert put(path, read) == read
        row = put(path, [{"cpu_milli": {"limit": None}, "memory_mib": {"limit": 0}, "max_priority": None}])[0]
        assert (row["cpu_milli"]["limit"], row["memory_mib"]["limit"], row["max_priority"]) == (None, 0, None)

    @pytest.mark.parametrize("value", ["2.5", 2.5, 2.50, 1e3, True, -1, 2**53, [], {}])
    def test_a_limit_has_one_form(self, root: Api, value: Any) -> None:
        """B011."""
        problem = root.put("/groups/vision/quotas", [{"gpu_milli": {"limit": value}}], status=400)
        assert faults(problem)["[0].gpu_milli.limit"] in ("invalid_type", "out_of_range")

    def test_faults_carry_their_place(self, root: Api) -> None:
        body = [{}, {"pool": "none-such"}, {"pool": None}, {"gpu_mili": {}}]
        assert faults(root.put("/groups/vision/quotas", body, status=400)) == {"[3].gpu_mili": "unknown_field"}
        problem = root.put("/groups/vision/quotas", body[:3], status=400)
        assert faults(problem) == {"[1].pool": "unknown_pool", "[2].pool": "duplicate_key"}
        above = [{"gpu_milli": {"guaranteed": 2, "limit": 1}}]
        assert "gpu_milli.guaranteed" in str(root.put("/groups/vision/quotas", above, status=400))
        assert faults(root.put("/groups/vision/quotas", {}, status=400)) == {"body": "invalid_type"}

    def test_two_who_read_the_same_cannot_both_write(self, world: World) -> None:
        seen = world.root.call("GET", "/groups/vision/quotas")["ETag"]
        world.root.put("/groups/vision/quotas", [{"max_priority": 1}], if_match=seen)
        late = world.root.put("/groups/vision/quotas", [{"max_priority": 2}], status=412, if_match=seen)
        assert late["code"] == "precondition_failed"

    def test_a_change_is_audited_with_before_and_after(self, world: World) -> None:
        world.root.put("/groups/vision/quotas", [{"gpu_milli": {"limit": 3000}}])
        event = AuditEvent.objects.get(action="quota.set")
        assert (event.actor, event.group, event.before, event.after) == (
            "root", "vision", {"gpu_milli_limit": None}, {"gpu_milli_limit": 3000},
        )  # fmt: skip

    def test_usage_shows_what_is_held_in_the_callers_groups(self, world: World) -> None:
        placed(world.site, 0)
        rows = world.alice.get("/usage")["results"]
        shown = {(row["user"], row["pool"]): row["gpu_milli"] for row in rows}
        assert shown == {(user, pool): 1000 for user in (None, "alice") for pool in (None, "default")}
        assert len(world.alice.get("/usage?user=alice")["results"]) == 2
        assert world.bob.get("/usage")["results"] == []
