"""The virtual clock: takes event after event, has `decide` answer, and does what the plan says."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from scheduler.decide import decide
from scheduler.model import Cause, Kind, Placement, Plan, Preemption, Request, Running, Snapshot
from scheduler.simulator.agenda import Agenda, Event
from scheduler.simulator.fleet import Fleet
from scheduler.simulator.habits import Habits
from scheduler.simulator.measure import Meter, mean_results
from scheduler.simulator.scenario import Saturated, Scenario
from scheduler.simulator.streams import Backlog, EnvironmentStream, JobStream, Slots, Work, local_us
from scheduler.windows import SECOND_US, next_opening_us, span_at

_MOST_DECISIONS_AT_ONCE: Final = 1_000
_PATIENCE_US: Final = 601 * SECOND_US


def simulate(scenario: Scenario) -> dict[str, Any]:
    """The results of all runs of the scenario, their mean. Same scenario in, same results out."""
    return mean_results([Simulation(scenario, scenario.seed + run).run() for run in range(scenario.runs)])


class Simulation:
    """One run with one seed."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario = scenario
        zone = ZoneInfo(scenario.time_zone)
        weeks = scenario.warmup_weeks + scenario.weeks
        self._start_us = local_us(scenario.start, 0, zone)
        self._end_us = local_us(scenario.start + timedelta(weeks=weeks), 0, zone)
        measured_us = local_us(scenario.start + timedelta(weeks=scenario.warmup_weeks), 0, zone)
        self._zone = zone
        self.fleet = Fleet(scenario)
        self.meter = Meter(scenario, measured_us, self._end_us, self._hour_of_week)
        self._agenda = Agenda()
        self._habits = Habits()
        self._work: dict[str, Work] = {}
        self._waiting: dict[str, Request] = {}
        self._running: dict[str, Running] = {}
        self._backlogs = [
            Backlog(JobStream(scenario, part, seed), part.arrivals.backlog_per_group)
            for part in scenario.jobs
            if isinstance(part.arrivals, Saturated)
        ]
        self._slots = {part.name: Slots(part) for part in scenario.environments}
        self._stream_of: dict[str, str] = {}  # by environment: whose slot it takes
        self._lent: dict[str, bool] = {}  # by running work: whether it is on lent cards
        self._promised: dict[str, int] = {}  # by waiting job: the first start that was reserved for it
        self._users_count = any(quota.per_user for group in scenario.groups for quota in group.quotas)
        self._has_guarantees = any(quota.guaranteed_milli for group in scenario.groups for quota in group.quotas)
        self._has_gaps = any(pool.priority_gap is not None for pool in scenario.pools)
        self._has_endless = not all(part.has_time_limit for part in scenario.jobs)
        self._lenders = {rule.lender for rule in scenario.lending}
        self.decide_calls = 0
        self._draw_arrivals(seed, weeks)

    def run(self) -> dict[str, Any]:
        self._fill_backlogs(self._start_us)
        self._look_at_edges(self._start_us)
        self._decide(self._start_us)
        while (now_us := self._agenda.next_us) is not None and now_us < self._end_us:
            if self._take_in_all(now_us):
                self._decide(now_us)
        self._close()
        return self.meter.results(self.fleet.cards, self.decide_calls)

    # Events

    def _draw_arrivals(self, seed: int, weeks: int) -> None:
        for part in self._scenario.environments:
            for work in EnvironmentStream(self._scenario, part, seed, weeks).arrivals():
                self._stream_of[work.id] = part.name
                self._expect(work)
        for jobs in self._scenario.jobs:
            stream = JobStream(self._scenario, jobs, seed)
            for at_us in stream.arrival_times(self._scenario.start, weeks):
                self._expect(stream.draw(at_us))

    def _expect(self, work: Work) -> None:
        self._work[work.id] = work
        self._agenda.add(work.arrives_us, Event.ARRIVE, work.id)

    def _take_in_all(self, now_us: int) -> bool:
        """Let all happen that happens now; true when there is something to decide."""
        needs_decision = False
        for entry in self._agenda.due(now_us):
            needs_decision |= self._take_in(entry.event, entry.name, entry.attempt, now_us)
        return needs_decision

    def _take_in(self, event: Event, name: str, attempt: int, now_us: int) -> bool:
        """Let it happen; true when there is something to decide."""
        if event is Event.LOOK:
            if name == "edge":
                self._look_at_edges(now_us)
            return bool(self._waiting or self._running)
        if event is Event.ARRIVE:
            return self._arrive(self._work[name], now_us)
        if event is Event.LEFT:
            return self._leave(self._work[name], now_us)
        return self._end(name, attempt, now_us)

    def _arrive(self, work: Work, now_us: int) -> bool:
        slots = self._slots.get(self._stream_of.get(work.id, ""))
        if slots is not None:
            if not slots.take():
                del self._work[work.id]
                return False
            self._agenda.add(now_us + work.length_us, Event.END, work.id)
        return self._queue(work, now_us)

    def _queue(self, work: Work, now_us: int) -> bool:
        """Put it in the queue; false when its like waits ahead of it, so that nothing can come of it now."""
        if work.attempt == 0:
            self._habits.submit(work.pool_id, work.resources)
        request = self._request(work)
        likeness = self._likeness(request)
        has_like = any(self._likeness(other) == likeness for other in self._waiting.values())
        self._waiting[work.id] = request
        if self._has_endless:
            self._agenda.add(now_us + _PATIENCE_US, Event.LOOK)
        return not has_like

    def _likeness(self, request: Request) -> tuple[object, ...]:
        return (
            request.kind,
            request.group_id,
            request.user_id if self._users_count else "",
            request.pool_id,
            request.resources,
            request.priority,
            request.preemptible,
            request.time_limit_s,
        )

    def _request(self, work: Work) -> Request:
        limit_us = None if work.limit_us is None else work.limit_us - work.kept_us
        if limit_us is not None and work.attempt:
            limit_us += work.resume_us
        return Request(
            id=work.id,
            kind=work.kind,
            group_id=work.group_id,
            user_id=work.user_id,
            pool_id=work.pool_id,
            resources=work.resources,
            priority=work.priority,
            queued_at_us=work.arrives_us,
            preemptible=work.preemptible,
            time_limit_s=None if limit_us is None else -(-limit_us // SECOND_US),
        )

    def _end(self, name: str, attempt: int, now_us: int) -> bool:
        work = self._work.get(name)
        if work is None:
            return False
        if work.kind is Kind.ENVIRONMENT:
            return self._close_environment(work, now_us)
        running = self._running.get(name)
        if running is None or running.is_leaving or work.attempt != attempt:
            return False
        self._account(work, now_us, lost_us=0)
        self.meter.jobs_done += self.meter.is_measured(now_us)
        self._free(work, now_us)
        self._habits.end(work.pool_id)
        del self._work[name]
        return True

    def _close_environment(self, work: Work, now_us: int) -> bool:
        """Its user goes at the planned time, however long the environment waited."""
        self._slots[self._stream_of.pop(work.id)].give_back()
        self._habits.end(work.pool_id)
        del self._work[work.id]
        if work.id in self._running:
            self._free(work, now_us)
            is_wanted = any(request.pool_id == work.pool_id for request in self._waiting.values())
            return is_wanted or work.pool_id in self._lenders
        del self._waiting[work.id]
        if self.meter.is_measured(work.arrives_us):
            self.meter.environment_waits_us.append(now_us - work.arrives_us)
            self.meter.unserved += 1
        return True

    def _leave(self, work: Work, now_us: int) -> bool:
        """A preempted job is gone, and back in the queue."""
        self._free(work, now_us)
        self._queue(work, now_us)
        return True

    def _free(self, work: Work, now_us: int) -> None:
        running = self._running.pop(work.id)
        self.fleet.give_back(work, running, now_us)
        self.meter.hold(work, running.tasks, now_us, -1)

    # Decisions

    def _decide(self, now_us: int) -> None:
        for _ in range(_MOST_DECISIONS_AT_ONCE):
            plan = decide(self.snapshot(now_us))
            self.decide_calls += 1
            for reservation in plan.reservations:
                if reservation.starts_at_us is not None:
                    promised_us = self._promised.setdefault(reservation.request_id, reservation.starts_at_us)
                    waiting = self._waiting[reservation.request_id]
                    self._waiting[reservation.request_id] = replace(waiting, promised_us=promised_us)
            for preemption in plan.preemptions:
                self._preempt(preemption, now_us)
            for placement in plan.placements:
                self._start(placement, now_us)
            needs_more = bool(plan.placements) and self._fill_backlogs(now_us)
            if not self._take_in_all(now_us) and not needs_more:
                self._look_later(plan, now_us)
                return
        raise RuntimeError(f"decisions at {now_us} come to no end")

    def snapshot(self, now_us: int) -> Snapshot:
        """What the scheduler sees now."""
        return Snapshot(
            version=1,
            now_us=now_us,
            pools=self.fleet.pools,
            nodes=self.fleet.nodes(),
            scopes=self.fleet.scopes(now_us),
            pending=tuple(self._waiting.values()),
            running=tuple(self._seen(running, now_us) for running in self._running.values()),
            lending=self.fleet.lending,
            reserves=self.fleet.reserves,
            with_estimates=False,
            mixes=self._habits.mixes,
        )

    def _seen(self, running: Running, now_us: int) -> Running:
        work = self._work[running.id]
        if work.save_interval_us <= 0 or running.is_leaving:
            return running
        unsaved_us = work.done_us(now_us) - work.saved_us(now_us)
        return replace(running, saved_at_us=now_us - unsaved_us) if unsaved_us < now_us - work.begins_us else running

    def _start(self, placement: Placement, now_us: int) -> None:
        request, work = self._waiting.pop(placement.request_id), self._work[placement.request_id]
        work.attempt += 1
        work.begins_us = now_us + self._scenario.start_s * SECOND_US
        work.kept_at_start_us = work.kept_us
        self.fleet.take(work, placement, now_us)
        self.meter.hold(work, placement.tasks, now_us, 1)
        self._running[work.id] = Running(
            id=work.id,
            kind=work.kind,
            group_id=work.group_id,
            user_id=work.user_id,
            pool_id=work.pool_id,
            resources=work.resources,
            tasks=placement.tasks,
            priority=work.priority,
            queued_at_us=work.arrives_us,
            started_at_us=work.begins_us,
            ends_at_us=None if request.time_limit_s is None else work.begins_us + request.time_limit_s * SECOND_US,
            preemptible=work.preemptible,
            card_milli=placement.card_milli,
        )
        self._lent[work.id] = placement.lent_by is not None
        if work.first_start_us is None:
            work.first_start_us = now_us
            self._count_wait(work, now_us)
        if work.kind is Kind.JOB:
            resume_us = work.resume_us if work.attempt > 1 else 0
            self._agenda.add(
                work.begins_us + resume_us + work.length_us - work.kept_us, Event.END, work.id, work.attempt
            )

    def _count_wait(self, work: Work, now_us: int) -> None:
        waits = self.meter.job_waits_us if work.kind is Kind.JOB else self.meter.environment_waits_us
        promised_us = self._promised.pop(work.id, None)
        if self.meter.is_measured(now_us if work.kind is Kind.JOB else work.arrives_us):
            waits.append(now_us - work.arrives_us)
            if promised_us is not None:
                self.meter.reserved += 1
                self.meter.late_starts += now_us > promised_us

    def _preempt(self, preemption: Preemption, now_us: int) -> None:
        work, running = self._work[preemption.workload_id], self._running[preemption.workload_id]
        if work.kind is not Kind.JOB or not work.preemptible or running.is_leaving:
            raise RuntimeError(f"{work.id} must not be asked to leave")
        done_us = work.done_us(now_us)
        work.kept_us = done_us if work.saves else work.saved_us(now_us)
        save_us = work.save_us if work.saves and done_us > work.kept_at_start_us else 0
        self._account(work, now_us, done_us - work.kept_us)
        self.meter.waste(work, now_us, now_us + save_us)
        self._running[work.id] = replace(running, is_leaving=True)
        self._agenda.add(now_us + save_us, Event.LEFT, work.id)
        if self.meter.is_measured(now_us):
            self.meter.preemptions += 1
            self.meter.reclaims += preemption.cause is Cause.RECLAIMED

    def _account(self, work: Work, now_us: int, lost_us: int) -> None:
        """Count what this attempt of a job has done by now."""
        resume_us = work.resume_us if work.attempt > 1 else 0
        computes_us = min(now_us, work.begins_us + resume_us)
        self.meter.waste(work, min(now_us, work.begins_us), computes_us)
        self.meter.compute(work, computes_us, now_us, lost_us)
        if self._lent.pop(work.id, False):
            self.meter.lent_us += self.meter.within(work.begins_us, now_us) * work.cards

    # The rest

    def _fill_backlogs(self, now_us: int) -> bool:
        """Saturated streams submit anew; true when there is something to decide."""
        counted: dict[tuple[str, str], int] = {}
        for request in self._waiting.values():
            key = request.id.rpartition("-")[0], request.group_id
            counted[key] = counted.get(key, 0) + 1
        needs_decision = False
        for backlog in self._backlogs:
            for work in backlog.refill(counted, now_us):
                self._work[work.id] = work
                needs_decision |= self._queue(work, now_us)
        return needs_decision

    def _look_at_edges(self, now_us: int) -> None:
        """Come back when the next window opens, closes, or is about to close."""
        edges: list[int] = []
        for windows, notice_s in self.fleet.edges:
            span = span_at(windows, self._scenario.time_zone, now_us)
            closes = [] if span is None or span.closes_us is None else [span.closes_us]
            opens = next_opening_us(windows, self._scenario.time_zone, now_us)
            edges += [*closes, *(one - notice_s * SECOND_US for one in closes), *([] if opens is None else [opens])]
        if later := [edge for edge in edges if edge > now_us]:
            self._agenda.add(min(later), Event.LOOK, "edge")

    def _look_later(self, plan: Plan, now_us: int) -> None:
        """Work just started may be preempted, once it has run for its minimum, by what waits with a higher claim."""
        started = [self._running[one.request_id].priority for one in plan.placements if one.request_id in self._running]
        highest = max((request.priority for request in self._waiting.values()), default=-1)
        if started and ((self._has_gaps and highest > min(started)) or (self._has_guarantees and self._waiting)):
            for seconds in {pool.min_run_s for pool in self.fleet.pools}:
                self._agenda.add(now_us + (self._scenario.start_s + seconds) * SECOND_US, Event.LOOK)

    def _hour_of_week(self, at_us: int) -> int:
        local = datetime.fromtimestamp(at_us // SECOND_US, UTC).astimezone(self._zone)
        return local.weekday() * 24 + local.hour

    def _close(self) -> None:
        self.meter.advance(self._end_us)
        for running in self._running.values():
            work = self._work[running.id]
            if work.kind is Kind.JOB and not running.is_leaving:
                self._account(work, self._end_us, lost_us=0)
