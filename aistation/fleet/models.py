"""Tables of pools, nodes and cards. CHECK constraints refuse to overbook a node or a card."""

from typing import Any, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Greatest


class Strategy(models.TextChoices):
    PACK = "pack"
    SPREAD = "spread"


class Pool(models.Model):
    """Nodes with the same rules. ``slices_per_gpu`` 0: cards are uncut."""

    name = models.CharField(max_length=63, unique=True)
    kinds: Any = ArrayField(models.CharField(max_length=16))
    slices_per_gpu = models.PositiveSmallIntegerField(default=0)
    gpu_reserve_mib = models.PositiveIntegerField(default=512)
    cpu_overcommit_percent = models.PositiveIntegerField(default=100)
    strategy = models.CharField(max_length=8, choices=Strategy, default=Strategy.PACK)
    priority_gap = models.PositiveSmallIntegerField(
        null=True, help_text="work preempts what is this much lower; null: priority only orders the queue"
    )
    min_run_s = models.PositiveIntegerField(default=300, help_text="before work may be preempted")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(name="pool_slices", condition=Q(slices_per_gpu__lte=64)),
            models.CheckConstraint(name="pool_overcommit", condition=Q(cpu_overcommit_percent__range=(100, 1000))),
        ]

    def __str__(self) -> str:
        return self.name


class TakeBack(models.TextChoices):
    """How lent cards come back. See `scheduler.model.TakeBack`."""

    WAIT = "wait"
    CHECKPOINT = "checkpoint"


class LendingRule(models.Model):
    """Idle cards of one pool run jobs of another pool's queue. ``windows``: pairs of minutes since Monday 00:00 in
    ``time_zone``; none: at any time."""

    name = models.CharField(max_length=63, unique=True)
    lender = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="lends")
    borrower = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="borrows")
    windows = models.JSONField(default=list)
    time_zone = models.CharField(max_length=64, default="UTC")
    keep_free_slices = models.PositiveIntegerField(default=0)
    keep_free_cards = models.PositiveIntegerField(default=0)
    notice_s = models.PositiveIntegerField(default=0)
    take_back = models.CharField(max_length=10, choices=TakeBack, default=TakeBack.WAIT)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(name="lends_to_another_pool", condition=~Q(lender=F("borrower")))]

    def __str__(self) -> str:
        return self.name


class Reserve(models.Model):
    """A warm reserve: during ``windows`` the pool has room for environments of ``slices`` slices, in use or free."""

    name = models.CharField(max_length=63, unique=True)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="reserves")
    slices = models.PositiveIntegerField()
    windows = models.JSONField(default=list)
    time_zone = models.CharField(max_length=64, default="UTC")
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class Duty(models.TextChoices):
    """What the administrator wants of a node."""

    IN_SERVICE = "in_service"
    CORDONED = "cordoned"  # takes nothing new
    DRAINING = "draining"  # takes nothing new, and is emptied
    MAINTENANCE = "maintenance"


class Liveness(models.TextChoices):
    """What the heartbeats say."""

    READY = "ready"
    SUSPECT = "suspect"  # silent for 15 s: nothing new is placed
    LOST = "lost"  # silent for 60 s


class NodeManager(models.Manager["Node"]):
    """Nodes that were not removed. The rows of removed ones stay for the history that points at them."""

    def get_queryset(self) -> models.QuerySet["Node"]:
        return super().get_queryset().filter(removed_at=None)


class Node(models.Model):
    """A machine with an agent. The state people see is `state`: a lost node is lost whatever its duty is.

    ``*_over`` is what was taken beyond the capacity when the capacity shrank; it only falls.
    """

    name = models.CharField(max_length=63)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="nodes")
    duty = models.CharField(max_length=12, choices=Duty, default=Duty.IN_SERVICE)
    liveness = models.CharField(max_length=8, choices=Liveness, default=Liveness.LOST)
    token_digest = models.BinaryField(max_length=32, unique=True)
    fingerprint = models.CharField(max_length=128)
    boot_id = models.CharField(max_length=64, blank=True)
    agent_version = models.CharField(max_length=32, blank=True)
    address = models.CharField(max_length=255, blank=True)
    runtime = models.CharField(max_length=16, blank=True)
    runtime_version = models.CharField(max_length=64, blank=True)
    runtime_error = models.CharField(max_length=500, blank=True)
    devices_error = models.CharField(max_length=500, blank=True)
    simulated = models.BooleanField(default=False)
    labels: Any = ArrayField(models.CharField(max_length=127), default=list, help_text="key=value, set by people")
    disk_used_percent = models.PositiveSmallIntegerField(null=True)
    machine_cpu_milli = models.PositiveBigIntegerField(default=0, help_text="as reported, without overcommit")
    cpu_milli = models.PositiveBigIntegerField(default=0, help_text="what may be given out")
    cpu_taken_milli = models.BigIntegerField(default=0)
    cpu_over_milli = models.BigIntegerField(default=0)
    memory_mib = models.PositiveBigIntegerField(default=0)
    memory_taken_mib = models.BigIntegerField(default=0)
    memory_over_mib = models.BigIntegerField(default=0)
    desired_version = models.BigIntegerField(default=1, help_text="rises with each change of what the node should run")
    enrolled_at = models.DateTimeField()
    last_heartbeat_at = models.DateTimeField(null=True)
    state_changed_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)

    objects: ClassVar[NodeManager] = NodeManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name"], name="node_name_once", condition=Q(removed_at=None)),
            models.CheckConstraint(
                name="node_cpu_not_overbooked",
                condition=Q(cpu_taken_milli__gte=0)
                & Q(cpu_taken_milli__lte=Greatest(F("cpu_milli"), F("cpu_over_milli"))),
            ),
            models.CheckConstraint(
                name="node_memory_not_overbooked",
                condition=Q(memory_taken_mib__gte=0)
                & Q(memory_taken_mib__lte=Greatest(F("memory_mib"), F("memory_over_mib"))),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def state(self) -> str:
        """ready, cordoned, draining, suspect, lost or maintenance."""
        if self.liveness != Liveness.READY:
            return self.liveness
        return Liveness.READY if self.duty == Duty.IN_SERVICE else self.duty


class Device(models.Model):
    """A card, known by its UUID wherever it is plugged in. ``taken_milli`` 1000 is all of it.

    ``memory_over_mib`` is what was taken beyond the memory when the card reported less, or none; it only falls.
    """

    uuid = models.CharField(max_length=96, unique=True)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="devices")
    model = models.CharField(max_length=128)
    memory_mib = models.PositiveIntegerField(null=True, help_text="as reported; null: unknown, nothing is placed")
    memory_taken_mib = models.IntegerField(default=0)
    memory_over_mib = models.IntegerField(default=0)
    taken_milli = models.SmallIntegerField(default=0)
    present = models.BooleanField(default=True, help_text="named by the last heartbeat")
    healthy = models.BooleanField(default=True)
    reason = models.CharField(max_length=500, blank=True)
    simulated = models.BooleanField(default=False)
    memory_used_mib = models.PositiveIntegerField(null=True)
    utilisation_percent = models.PositiveSmallIntegerField(null=True)
    temperature_c = models.SmallIntegerField(null=True)
    power_mw = models.PositiveIntegerField(null=True)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(name="device_compute_not_overbooked", condition=Q(taken_milli__range=(0, 1000))),
            models.CheckConstraint(
                name="device_memory_not_overbooked",
                # of an unknown memory nothing may be taken: PostgreSQL's GREATEST passes over NULL
                condition=Q(memory_taken_mib__gte=0)
                & Q(memory_taken_mib__lte=Greatest(F("memory_mib"), F("memory_over_mib"))),
            ),
        ]

    def __str__(self) -> str:
        return self.uuid

    @property
    def usable(self) -> bool:
        return self.present and self.healthy and self.memory_mib is not None


class JoinToken(models.Model):
    """Lets one machine enrol, once, until it expires."""

    digest = models.BinaryField(max_length=32, unique=True)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE)
    created_by = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    node = models.ForeignKey(Node, on_delete=models.SET_NULL, null=True)


class LivenessWatch(models.Model):
    """One row (id 1): what the sweep of the heartbeats must remember from one time to the next."""

    swept_at = models.DateTimeField(null=True)
    grace_until = models.DateTimeField(null=True, help_text="after our own outage no node is declared lost before this")
    frozen_since = models.DateTimeField(null=True, help_text="since when most of the fleet is silent at once")

    class Meta:
        constraints = [models.CheckConstraint(name="one_liveness_watch", condition=Q(id=1))]
