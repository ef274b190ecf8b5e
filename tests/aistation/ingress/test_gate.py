"""The rules of who may pass, without a gateway."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aistation.ingress.gate import Asked, Recent, cookies_without

OWN = "http://env-a.localhost:8000"
HTML = "text/html,application/xhtml+xml"


def asked(method: str = "GET", **headers: str) -> Asked:
    return Asked(method, OWN, {name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (asked(accept=HTML), True),
        (asked("HEAD", accept=HTML), True),
        (asked(sec_fetch_mode="navigate"), True),
        (asked(sec_fetch_mode="cors", accept=HTML), False),
        (asked("POST", sec_fetch_mode="navigate", accept=HTML), False),
        (asked(accept="*/*"), False),
        (asked(accept=HTML, sec_websocket_version="13"), False),
        (asked(), False),
    ],
)
def test_only_a_person_going_there_is_worth_a_redirect(request_: Asked, expected: bool) -> None:
    assert request_.is_navigation is expected


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (asked(), True),
        (asked(origin=OWN), True),
        (asked(origin="http://env-b.localhost:8000"), False),
        (asked(origin="http://env-a.localhost:9000"), False),
        (asked(origin="https://env-a.localhost:8000"), False),
        (asked(sec_fetch_site="same-origin"), True),
        (asked(sec_fetch_site="none", sec_fetch_mode="navigate", sec_fetch_dest="document"), True),
        (asked(sec_fetch_site="same-site", sec_fetch_mode="navigate", sec_fetch_dest="document"), True),
        (asked(sec_fetch_site="same-site", sec_fetch_mode="navigate", sec_fetch_dest="iframe"), False),
        (asked(sec_fetch_site="cross-site", sec_fetch_mode="no-cors"), False),
        (asked("POST"), False),
        (asked("POST", origin=OWN), True),
        (asked("POST", origin=OWN, sec_fetch_site="same-origin"), True),
        (asked("DELETE", origin="null"), False),
        (asked("PROPFIND"), False),
        (asked(sec_websocket_version="13"), False),
        (asked(sec_websocket_version="13", origin=OWN), True),
        (asked(sec_websocket_version="13", origin="http://localhost:8000"), False),
    ],
)
def test_what_another_origins_page_may_have_sent_is_refused(request_: Asked, expected: bool) -> None:
    assert request_.is_from_own_page is expected


_words = st.text(st.sampled_from("abcXYZ019_-%|:\"' "), min_size=1, max_size=8).map(str.strip).filter(bool)


@given(st.lists(st.tuples(_words, _words)), st.lists(st.tuples(_words, _words)))
def test_the_containers_own_cookies_stay_as_they_are(
    before: list[tuple[str, str]], after: list[tuple[str, str]]
) -> None:
    own = [f"{name}={value}" for name, value in before if name != "ours"]
    others = [f"{name}={value}" for name, value in after if name != "ours"]
    header = "; ".join([*own, "ours=secret", *others])
    assert cookies_without(header, frozenset({"ours"})) == "; ".join([*own, *others]).strip()


def test_a_recent_answer_ends_and_the_store_stays_small() -> None:
    clock = [0.0]
    recent: Recent[int, str] = Recent(lasts_s=2, size=3, clock=lambda: clock[0])
    recent.put(1, "one")
    assert recent.get(1) == "one"
    clock[0] = 2.0
    assert recent.get(1) is None
    for key in range(20):
        recent.put(key, "x")
        assert recent.get(key) == "x"
    assert sum(recent.get(key) is not None for key in range(20)) <= 3
