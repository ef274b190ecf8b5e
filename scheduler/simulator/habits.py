"""What is usually asked of each pool, learned as in production: a mix is put to use when enough has been seen."""

from dataclasses import dataclass, field

from scheduler.mix import next_refresh, observe
from scheduler.model import Mix, Resources


@dataclass(slots=True)
class _Habit:
    observed: Mix
    used: Mix | None = None
    seen: int = 0
    due: int = field(default_factory=lambda: next_refresh(0))
    ended: int = 0  # since the last look
    submitted: list[tuple[Resources, int]] = field(default_factory=list)


class Habits:
    """The mixes of all pools."""

    def __init__(self) -> None:
        self._habits: dict[str, _Habit] = {}
        self.mixes: tuple[Mix, ...] = ()

    def submit(self, pool_id: str, resources: Resources) -> None:
        habit = self._of(pool_id)
        habit.submitted.append((resources, 1))
        habit.seen += 1
        if habit.seen >= habit.due:
            habit.used = habit.observed = observe(habit.observed, habit.submitted, ended=habit.ended)
            habit.submitted, habit.ended, habit.due = [], 0, next_refresh(habit.seen)
            self.mixes = tuple(one.used for _, one in sorted(self._habits.items()) if one.used is not None)

    def end(self, pool_id: str) -> None:
        self._of(pool_id).ended += 1

    def _of(self, pool_id: str) -> _Habit:
        return self._habits.setdefault(pool_id, _Habit(Mix(pool_id)))
