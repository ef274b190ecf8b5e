"""What people fill in to ask for an environment or a job."""

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.utils.translation import gettext_lazy as _

from aistation.catalog.selectors import HOME, SHARED
from aistation.core.errors import DomainError
from aistation.portal.forms.errors import add_errors
from aistation.portal.forms.fields import CoresField, EnvField, FoldersField, MemoryField, SpanField
from aistation.portal.forms.fleet import labels_in
from aistation.portal.offer import Offer
from aistation.workloads.lifecycle import Kind
from aistation.workloads.submission import Submission
from scheduler.model import Resources

if TYPE_CHECKING:
    from aistation.catalog.models import Profile
    from aistation.workloads.models import Workload

CUSTOM: Final = ""
_SHELL: Final = ["sh", "-c"]
_RESOURCES: Final = (
    "cpu_milli", "memory_mib", "gpus", "gpu_slices", "gpu_memory_mib", "gpu_compute_milli", "gpu_model",
)  # fmt: skip
_NAMES: Final = {
    "cpu_milli": "cpu",
    "memory_mib": "memory",
    "gpu_memory_mib": "gpu_memory",
    "gpu_compute_milli": "gpu_compute",
    "time_limit_s": "time_limit",
    "lifetime_s": "time_limit",
    "idle_timeout_s": "idle_timeout",
    "kind": "pool",
    "resources": "gpus",
    "same_node": "layout",
    "spread": "layout",
}
"""Where a service's field name differs from the form's."""
GPU_MODES: Final = [
    ("none", _("No GPU")),
    ("cards", _("Whole cards")),
    ("slices", _("Slices")),
    ("memory", _("Memory of a card")),
]


class WorkloadForm(forms.Form):
    """Common to both kinds. The offer limits the choices, so that another group's names cannot be tried out."""

    kind: Kind

    name = forms.CharField(label=_("Name"), max_length=128)
    image = forms.ChoiceField(label=_("Image"))
    group = forms.ChoiceField(label=_("Group"))
    pool = forms.ChoiceField(label=_("Pool"), required=False)
    profile = forms.ChoiceField(label=_("Resources"), required=False)
    cpu = CoresField(label=_("CPU cores"), required=False, initial=4000)
    memory = MemoryField(label=_("Memory"), required=False, initial=16_384)
    gpu_mode = forms.ChoiceField(label=_("GPU"), choices=GPU_MODES, required=False, initial="slices")
    gpus = forms.IntegerField(label=_("Cards"), min_value=1, max_value=1024, required=False, initial=1)
    gpu_slices = forms.IntegerField(
        label=_("Slices of each card"), min_value=1, max_value=64, required=False, initial=1
    )
    gpu_memory = MemoryField(label=_("Memory of each card"), required=False, initial=4096)
    gpu_compute = forms.IntegerField(
        label=_("Compute of each card"),
        min_value=1,
        max_value=1000,
        required=False,
        help_text=_("In thousandths. Empty: in proportion to the memory."),
    )
    gpu_model = forms.CharField(
        label=_("Card model"), max_length=128, required=False, help_text=_("Empty: any. Like V100 or A100|H100.")
    )
    env = EnvField(label=_("Environment variables"))
    folders = FoldersField(label=_("Folders"))
    priority = forms.IntegerField(
        label=_("Priority"), min_value=0, max_value=100, initial=50, help_text=_("0 to 100, higher first.")
    )

    def __init__(self, offer: Offer, *args: Any, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self.offer = offer
        self._choices("image", [(image.name, image.name) for image in offer.images])
        self._choices("group", [(name, name) for name in offer.groups])
        self._choices("pool", [("", _("Usual pool of the choice below")), *offer.pools])
        self._choices("profile", [*[(profile.name, profile.name) for profile in offer.profiles], (CUSTOM, _("Custom"))])
        self.initial.setdefault("group", offer.usual_group)
        self.initial.setdefault("pool", offer.usual_pool)
        self.initial.setdefault("profile", self._usual_profile())

    def _usual_profile(self) -> str:
        """People rarely need a whole card to work at: an environment starts from the first profile with a share."""
        names = [profile.name for profile in self.offer.profiles]
        shares = [profile.name for profile in self.offer.profiles if profile.gpu_slices or profile.gpu_memory_mib]
        return next(iter(shares if shares and self.kind is Kind.ENVIRONMENT else names), CUSTOM)

    def _choices(self, name: str, choices: Sequence[tuple[Any, Any]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - for the type checker
        field.choices = choices

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if self.fields["profile"].label and not cleaned.get("profile") and "profile" not in self.errors:
            self._demand(cleaned)
        return cleaned

    def _demand(self, cleaned: Mapping[str, Any]) -> None:
        """Custom resources: what the chosen kind of GPU needs."""
        needed = ["cpu", "memory"]
        mode = cleaned.get("gpu_mode") or "none"
        needed += [] if mode == "none" else ["gpus"]
        needed += ["gpu_slices"] if mode == "slices" else []
        needed += ["gpu_memory"] if mode == "memory" and not cleaned.get("gpu_compute") else []
        for name in needed:
            if cleaned.get(name) is None and name not in self.errors:
                self.add_error(name, _("This is needed."))

    def chosen_profile(self) -> "Profile | None":
        name = self.cleaned_data.get("profile")
        return next((profile for profile in self.offer.profiles if profile.name == name), None)

    def resources(self) -> Resources:
        profile = self.chosen_profile()
        if profile is not None:
            return Resources(**{name: getattr(profile, name) for name in _RESOURCES})
        given, mode = self.cleaned_data, self.cleaned_data.get("gpu_mode") or "none"
        return Resources(
            cpu_milli=given["cpu"],
            memory_mib=given["memory"],
            gpus=0 if mode == "none" else given["gpus"],
            gpu_slices=given["gpu_slices"] if mode == "slices" else None,
            gpu_memory_mib=given["gpu_memory"] if mode == "memory" else None,
            gpu_compute_milli=given["gpu_compute"] if mode == "memory" else None,
            gpu_model=(given["gpu_model"] or None) if mode != "none" else None,
        )

    def submission(self) -> Submission:
        """What was asked for. The form is valid."""
        given = self.cleaned_data
        profile = self.chosen_profile()
        usual = profile.pool.name if profile and profile.pool else None
        return Submission(
            kind=self.kind,
            name=given["name"],
            image=given["image"],
            group=given["group"],
            pool=given["pool"] or usual,
            resources=self.resources(),
            env=given["env"],
            folders=given["folders"],
            priority=given["priority"],
            **self.own_fields(),
        )

    def own_fields(self) -> dict[str, Any]:
        """What only this kind has."""
        raise NotImplementedError

    def show_errors(self, error: DomainError) -> None:
        """A service's refusal, each part by its field. With a profile chosen its numbers are the profile's fault."""
        names = dict(_NAMES)
        if self.cleaned_data.get("profile"):
            names |= dict.fromkeys(_RESOURCES, "profile") | {"resources": "profile"}
        add_errors(self, error, names)


class JobForm(WorkloadForm):
    kind = Kind.JOB

    command = forms.CharField(
        label=_("Command"),
        required=False,
        max_length=131_000,
        strip=False,
        help_text=_("Empty: what the image does by itself."),
        widget=forms.Textarea(attrs={"rows": 4, "class": "mono", "spellcheck": "false"}),
    )
    command_mode = forms.ChoiceField(
        label=_("Run as"),
        choices=[("script", _("shell script (sh)")), ("arguments", _("program and arguments, no shell"))],
        initial="script",
    )
    tasks = forms.IntegerField(
        label=_("Tasks"), min_value=1, max_value=1024, initial=1, help_text=_("Equal ones that start together.")
    )
    preemptible = forms.BooleanField(
        label=_("May be interrupted for others and start again"), required=False, initial=True
    )
    time_limit = SpanField(label=_("Time limit"), required=False, help_text=_("Like 12 h or 90 min. Empty: none."))
    layout = forms.ChoiceField(
        label=_("Tasks go"),
        choices=[
            ("", _("wherever they fit")),
            ("same_node", _("all on one node")),
            ("spread", _("each on a node of its own")),
        ],
        required=False,
    )
    node_labels = forms.CharField(
        label=_("Node labels"),
        required=False,
        max_length=2000,
        help_text=_("Only nodes that have all of these, like rack=7. Parted by commas."),
        widget=forms.TextInput(attrs={"class": "mono", "spellcheck": "false", "autocomplete": "off"}),
    )
    max_retries = forms.IntegerField(
        label=_("Retries"), min_value=0, max_value=100, initial=0, help_text=_("After a failure or a lost node.")
    )

    def clean_command(self) -> str:
        text: str = self.cleaned_data["command"].replace("\r\n", "\n")
        if self.data.get("command_mode") == "arguments":
            try:
                shlex.split(text)
            except ValueError:
                raise forms.ValidationError(_("A quotation mark is open.")) from None
        return text

    def own_fields(self) -> dict[str, Any]:
        given = self.cleaned_data
        return {
            "command": _command(given["command"], given["command_mode"]),
            "tasks": given["tasks"],
            "preemptible": given["preemptible"],
            "time_limit_s": given["time_limit"],
            "max_retries": given["max_retries"],
            "same_node": given["layout"] == "same_node",
            "spread": given["layout"] == "spread",
            "node_labels": labels_in(given["node_labels"]),
        }

    @property
    def has_advanced(self) -> bool:
        """Something in the advanced part is filled in or wrong, so it must be seen."""
        return any(self[name].value() or self[name].errors for name in ("layout", "node_labels"))


class EnvironmentForm(WorkloadForm):
    kind = Kind.ENVIRONMENT

    idle_timeout = SpanField(label=_("Stop when idle for"), required=False, help_text=_("Like 2 h. Empty: never."))
    time_limit = SpanField(label=_("Lifetime"), required=False, help_text=_("Empty: as long as your quota allows."))

    def own_fields(self) -> dict[str, Any]:
        given = self.cleaned_data
        return {
            "preemptible": False,
            "idle_timeout_s": given["idle_timeout"],
            "time_limit_s": given["time_limit"],
        }


def _command(text: str, mode: str) -> list[str]:
    if not text.strip():
        return []
    return [*_SHELL, text] if mode == "script" else shlex.split(text)


def command_text(command: Sequence[str]) -> tuple[str, str]:
    """A command as the form takes it: text and mode."""
    if list(command[:2]) == _SHELL and len(command) == 3:
        return command[2], "script"
    return shlex.join(command), "arguments" if command else "script"


def job_again(job: "Workload") -> dict[str, Any]:
    """What the form starts from when a job is submitted again. The values of variables are nobody's to read."""
    text, mode = command_text(job.command)
    return {
        "name": job.name,
        "image": job.image.name,
        "group": job.group.name,
        "pool": job.pool.name,
        "profile": CUSTOM,
        "command": text,
        "command_mode": mode,
        "cpu": job.cpu_milli,
        "memory": job.memory_mib,
        "gpu_mode": _gpu_mode(job),
        "gpus": job.gpus or 1,
        "gpu_slices": job.gpu_slices or 1,
        "gpu_memory": job.gpu_memory_mib,
        "gpu_compute": job.gpu_compute_milli,
        "gpu_model": job.gpu_model or "",
        "env": [(name, "") for name in job.env],
        "folders": [(_folder_key(mount), mount["path"], mount["mode"]) for mount in job.mounts],
        "tasks": job.tasks_count,
        "priority": job.priority,
        "preemptible": job.preemptible,
        "time_limit": job.time_limit_s,
        "max_retries": job.max_retries,
        "layout": "same_node" if job.same_node else "spread" if job.spread else "",
        "node_labels": ", ".join(job.node_labels),
    }


def _gpu_mode(job: "Workload") -> str:
    if not job.gpus:
        return "none"
    if job.gpu_slices:
        return "slices"
    return "memory" if job.gpu_memory_mib or job.gpu_compute_milli else "cards"


def _folder_key(mount: Mapping[str, str]) -> str:
    return mount["name"] if mount["name"] in (HOME, SHARED) else mount["folder"]
