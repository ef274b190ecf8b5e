"""Single values of a scenario set from outside: ``lending.nights.keep_free_slices=4``."""

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from scheduler.simulator.scenario import ScenarioError


def override(data: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """A copy of the scenario's plain values with each ``path=value`` applied, in order.

    A step of the path is a key, or in a list the place (from 0) or the ``name`` of an entry, or ``*`` for all of them.
    The value is JSON, or text where it is not. The last step may be a key that is not there yet: whether it may be is
    for the scenario to say. Raises ScenarioError.
    """
    changed = deepcopy(dict(data))
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path:
            raise ScenarioError(f"{setting!r}: not path=value")
        *steps, last = path.split(".")
        for target in _reach([changed], steps, path):
            _put(target, last, _value(text), path)
    return changed


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _reach(targets: list[Any], steps: Iterable[str], path: str) -> list[Any]:
    for step in steps:
        found: list[Any] = []
        for target in targets:
            if isinstance(target, dict) and step in target:
                found.append(target[step])
            elif isinstance(target, list):
                found += [target[place] for place in _places(target, step)]
        if not found:
            raise ScenarioError(f"{path}: there is no {step!r}")
        targets = found
    return targets


def _put(target: Any, step: str, value: Any, path: str) -> None:
    if isinstance(target, dict):
        target[step] = value
        return
    places = _places(target, step) if isinstance(target, list) else []
    if not places:
        raise ScenarioError(f"{path}: there is no {step!r}")
    for place in places:
        target[place] = value


def _places(rows: list[Any], step: str) -> list[int]:
    if step == "*":
        return list(range(len(rows)))
    named = [place for place, row in enumerate(rows) if isinstance(row, dict) and row.get("name") == step]
    if named or not step.isdecimal():
        return named
    return [int(step)] if int(step) < len(rows) else []
