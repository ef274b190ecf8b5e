"""Pools, nodes, cards and join tokens over REST."""

import pytest

from tests.factories.api import Api, World, faults
from tests.factories.work import placed

POOL = {"name": "training", "kinds": ["job"], "slices_per_gpu": 0, "cpu_overcommit_percent": 200, "strategy": "spread"}


class TestPools:
    def test_a_pool_is_made_and_changed(self, root: Api) -> None:
        made = root.post("/pools", POOL)
        usual = {"gpu_reserve_mib": 512, "priority_gap": None, "min_run_s": 300}
        assert {**POOL, **usual, "created_at": made["created_at"]} == made
        changed = root.patch("/pools/training", {"slices_per_gpu": 4})
        assert (changed["slices_per_gpu"], changed["strategy"]) == (4, "spread")
        assert [pool["name"] for pool in root.get("/pools")["results"]] == ["default", "training"]

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"slices_per_gpu": 65}, "slices_per_gpu"),
            ({"cpu_overcommit_percent": 99}, "cpu_overcommit_percent"),
            ({"strategy": "random"}, "strategy"),
            ({"kinds": []}, "kinds"),
            ({"kinds": ["job", "x"]}, "kinds[1]"),
            ({"name": "other"}, "name"),
        ],
    )
    def test_a_bad_change_is_refused(self, root: Api, change: dict[str, object], field: str) -> None:
        assert field in faults(root.patch("/pools/default", change, status=400))

    def test_a_change_needs_the_version_that_was_read(self, root: Api) -> None:
        seen = root.call("GET", "/pools/default")["ETag"]
        root.patch("/pools/default", {"gpu_reserve_mib": 0}, if_match=seen)
        assert root.patch("/pools/default", {"gpu_reserve_mib": 1}, status=412, if_match=seen)["status"] == 412

    def test_cards_in_use_are_not_cut_anew(self, world: World) -> None:
        placed(world.site, 0)
        world.root.patch("/pools/default", {"slices_per_gpu": 4})


class TestNodes:
    def test_a_node_shows_state_and_room(self, world: World) -> None:
        placed(world.site, 0)
        node = world.alice.get("/nodes/n1")
        assert (node["state"], node["gpus"], node["gpus_free"], node["cpu_taken_milli"]) == ("ready", 8, 7, 1000)
        assert world.alice.get("/nodes?pool=default")["results"] == [node]
        assert world.alice.get("/nodes?pool=other")["results"] == []
        cards = world.alice.get("/gpus?node=n1&limit=3")
        assert [card["taken_milli"] for card in cards["results"]] == [1000, 0, 0]
        assert len(world.alice.get(cards["next"])["results"]) == 3

    def test_cordon_drain_and_uncordon(self, root: Api) -> None:
        for verb, state in [
            ("cordon", "cordoned"),
            ("cordon", "cordoned"),
            ("drain", "draining"),
            ("uncordon", "ready"),
        ]:
            assert root.post(f"/nodes/n1/{verb}", status=200)["state"] == state

    def test_a_node_goes_only_when_it_is_empty(self, world: World) -> None:
        placed(world.site, 0)
        assert world.root.call("DELETE", "/nodes/n1").json()["code"] == "conflict"

    def test_a_join_token_is_shown_once(self, world: World) -> None:
        made = world.root.post("/join-tokens", {"pool": "default"})
        listed = world.root.call("GET", "/join-tokens")
        assert made["token"] not in listed.content.decode()
        assert listed.json()["results"][0]["pool"] == "default"
        world.root.delete(f"/join-tokens/{made['id']}")
        assert world.root.call("DELETE", f"/join-tokens/{made['id']}").status_code == 404
        assert faults(world.root.post("/join-tokens", {"pool": "x"}, status=400)) == {"pool": "unknown_pool"}
        assert world.root.call("DELETE", f"/join-tokens/{10**17}").status_code == 404
