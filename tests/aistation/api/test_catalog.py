"""Images, profiles and folders over REST."""

import pytest

from tests.factories.api import Api, World, faults

IMAGE = {
    "name": "torch",
    "reference": "registry.local:5000/ml/torch:2.3",
    "kinds": ["environment", "job"],
    "port": 8888,
}


def test_an_image_of_one_group_is_missing_for_others(world: World) -> None:
    world.root.post("/images", {**IMAGE, "group": "vision"})
    assert world.alice.get("/images/torch")["group"] == "vision"
    assert world.bob.call("GET", "/images/torch").status_code == 404
    assert [image["name"] for image in world.bob.get("/images")["results"]] == ["shell"]
    assert [image["name"] for image in world.alice.get("/images?kind=job")["results"]] == ["shell", "torch"]


def test_an_image_is_changed_and_archived(root: Api) -> None:
    root.post("/images", IMAGE)
    assert root.patch("/images/torch", {"reference": "ml/torch:3"})["reference"] == "ml/torch:3"
    root.delete("/images/torch")
    assert root.call("GET", "/images/torch").status_code == 404
    assert faults(root.post("/images", IMAGE, status=409)) == {"name": "taken"}


@pytest.mark.parametrize(
    "reference", ["", " ", "a b", "x/UPPER", "-x", "x:", "x@sha256:1", "https://x/y", "../x", "x" * 256, "x;rm"]
)
def test_a_reference_that_no_engine_takes_is_refused(root: Api, reference: str) -> None:
    assert "reference" in faults(root.post("/images", {**IMAGE, "reference": reference}, status=400))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"port": None}, "port"),
        ({"port": 65536}, "port"),
        ({"kinds": []}, "kinds"),
        ({"group": "x"}, "group"),
        ({"command": "x"}, "command"),
    ],
)
def test_a_bad_image_is_refused(root: Api, change: dict[str, object], field: str) -> None:
    """B074: a port above 65535, an unknown group."""
    assert field in faults(root.post("/images", {**IMAGE, **change}, status=400))


def test_profiles(world: World) -> None:
    body = {"name": "big", "kinds": ["job"], "resources": {"gpus": 8}}
    made = world.root.post("/profiles", body)
    assert (made["resources"]["gpus"], made["resources"]["cpu_milli"], made["pool"]) == (8, 1000, None)
    assert world.alice.get("/profiles?kind=environment")["results"] == []
    assert world.alice.get("/profiles/big") == made
    assert faults(world.root.post("/profiles", {**body, "pool": "x"}, status=400)) == {"pool": "unknown_pool"}
    world.root.delete("/profiles/big")
    assert world.alice.call("GET", "/profiles/big").status_code == 404


def test_folders_are_a_persons_or_a_groups(world: World) -> None:
    own = world.alice.post("/folders", {"name": "data"})
    common = world.alice.post("/folders", {"name": "data", "group": "vision"})
    assert (own["user"], own["group"], common["user"], common["group"]) == ("alice", None, None, "vision")
    assert [folder["id"] for folder in world.alice.get("/folders")["results"]] == [own["id"], common["id"]]
    assert [folder["id"] for folder in world.viewer.get("/folders")["results"]] == [common["id"]]
    assert [folder["id"] for folder in world.alice.get("/folders?group=vision")["results"]] == [common["id"]]
    assert world.bob.call("GET", f"/folders/{common['id']}").status_code == 404
    assert world.root.call("GET", f"/folders/{own['id']}").status_code == 404
    assert faults(world.alice.post("/folders", {"name": "data"}, status=409)) == {"name": "taken"}
    assert faults(world.alice.post("/folders", {"name": "shared"}, status=400)) == {"name": "reserved_name"}
    assert faults(world.bob.post("/folders", {"name": "x", "group": "vision"}, status=400)) == {
        "group": "unknown_group"
    }
    assert world.viewer.post("/folders", {"name": "x", "group": "vision"}, status=403)["code"] == "forbidden"
