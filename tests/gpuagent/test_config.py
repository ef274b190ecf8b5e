"""The command line's own little languages."""

import pytest

from gpuagent.config import GpuChoice, GpuKind, is_safe_id, parse_gpus, parse_user


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("auto", GpuChoice(GpuKind.AUTO)),
        ("nvml", GpuChoice(GpuKind.NVML)),
        ("none", GpuChoice(GpuKind.NONE)),
        ("simulated:8xV100-32GB", GpuChoice(GpuKind.SIMULATED, 8, "V100-32GB")),
        ("simulated:0xT4-16GB", GpuChoice(GpuKind.SIMULATED, 0, "T4-16GB")),
    ],
)
def test_gpus_are_understood(text: str, choice: GpuChoice) -> None:
    assert parse_gpus(text) == choice


@pytest.mark.parametrize(
    "text", ["", "simulated", "simulated:8", "simulated:x", "simulated:-1xA", "8xV100-32GB", "AUTO"]
)
def test_anything_else_about_gpus_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is none of"):
        parse_gpus(text)


def test_users_are_figures_or_the_images_own() -> None:
    assert (parse_user("1000:100"), parse_user("image")) == ("1000:100", "")
    for text in ("root", "1000", "", "-1:0", "0:0:0"):
        with pytest.raises(ValueError, match="neither"):
            parse_user(text)


@pytest.mark.parametrize("name", ["t1", "a-b_c.d", "0", "x" * 128])
def test_ordinary_ids_are_safe_file_names(name: str) -> None:
    assert is_safe_id(name)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "a\0b", "a\n", "-x", "x" * 129, "ä"])
def test_other_ids_are_not(name: str) -> None:
    assert not is_safe_id(name)
