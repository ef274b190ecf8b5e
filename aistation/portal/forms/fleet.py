"""Pools, and the command with which a node joins one."""

import re
from collections.abc import Sequence
from typing import Any, Final

from django import forms
from django.utils.translation import gettext_lazy as _

from aistation.portal.forms.fields import SpanField
from aistation.portal.words import KINDS

POOL_KINDS: Final = [(kind, KINDS[kind]) for kind in ("environment", "job", "replica")]
STRATEGIES: Final = [
    ("pack", _("pack: fill one node before the next")),
    ("spread", _("spread: use all nodes evenly")),
]
_CHOOSE: Final = {"required": _("Choose at least one."), "invalid_choice": _("Choose from the list.")}


class PoolForm(forms.Form):
    """``name`` is asked for only when the pool is made: it never changes."""

    name = forms.CharField(
        label=_("Name"), max_length=63, help_text=_("Small letters, digits, and - _ . inside. It stays for good.")
    )
    kinds = forms.MultipleChoiceField(
        label=_("Takes"),
        choices=POOL_KINDS,
        initial=["environment", "job"],
        widget=forms.CheckboxSelectMultiple,
        error_messages=_CHOOSE,
    )
    slices_per_gpu = forms.IntegerField(
        label=_("Slices of each card"),
        min_value=0,
        max_value=64,
        initial=0,
        help_text=_("0: cards are not cut; people ask for whole cards or for memory."),
    )
    gpu_reserve_mib = forms.IntegerField(
        label=_("Reserve of each card"),
        min_value=0,
        max_value=1 << 20,
        initial=512,
        help_text=_("GPU memory that is never given out. The rest is cut into equal slices."),
    )
    cpu_overcommit_percent = forms.IntegerField(
        label=_("CPU overcommit"),
        min_value=100,
        max_value=1000,
        initial=100,
        help_text=_("100: each core is given out once. 200: twice."),
    )
    strategy = forms.ChoiceField(label=_("Placement"), choices=STRATEGIES, initial="pack")
    priority_gap = forms.IntegerField(
        label=_("Priority gap"),
        min_value=1,
        max_value=100,
        required=False,
        help_text=_("Work interrupts what is so much lower in priority. Empty: priority only orders the queue."),
    )
    min_run = SpanField(
        label=_("Runs at least"),
        unit="min",
        required=False,
        initial=300,
        help_text=_("Before it may be interrupted. Like 5 min. Empty: not at all."),
    )

    def __init__(self, *args: Any, is_new: bool, **rest: Any) -> None:
        super().__init__(*args, **rest)
        if not is_new:
            del self.fields["name"]

    def values(self) -> dict[str, Any]:
        """As `fleet.services` takes them. The form is valid."""
        given = dict(self.cleaned_data)
        min_run_s = given.pop("min_run") or 0
        return {**given, "min_run_s": min_run_s}


class LabelsForm(forms.Form):
    labels = forms.CharField(
        label=_("Labels"),
        required=False,
        max_length=5000,
        help_text=_("One a line or parted by commas, like rack=7. Jobs can ask for nodes that have them."),
        widget=forms.Textarea(attrs={"rows": 5, "class": "mono", "spellcheck": "false"}),
    )

    def clean_labels(self) -> list[str]:
        return labels_in(self.cleaned_data["labels"])


def labels_in(text: str) -> list[str]:
    """Labels parted by commas or white space, each once, in the order in which they were written."""
    return list(dict.fromkeys(label for label in re.split(r"[\s,，]+", text) if label))


class JoinForm(forms.Form):
    pool = forms.ChoiceField(label=_("Pool"), error_messages={"invalid_choice": _("Choose from the list.")})
    hours = forms.IntegerField(
        label=_("Good for"), min_value=1, max_value=720, initial=24, help_text=_("Then an unused token expires.")
    )

    def __init__(self, pools: Sequence[str], *args: Any, **rest: Any) -> None:
        super().__init__(*args, **rest)
        field = self.fields["pool"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - for the type checker
        field.choices = [(name, name) for name in pools]
