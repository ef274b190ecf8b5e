"""Images and profiles."""

import shlex
from collections.abc import Sequence
from typing import Any, Final

from django import forms
from django.utils.translation import gettext_lazy as _

from aistation.portal.forms.fields import CoresField, MemoryField
from aistation.portal.words import KINDS

CATALOG_KINDS: Final = [(kind, KINDS[kind]) for kind in ("environment", "job")]
_CHOOSE: Final = {"required": _("Choose at least one."), "invalid_choice": _("Choose from the list.")}
_GPU_MODES: Final = [
    ("none", _("No GPU")),
    ("cards", _("Whole cards")),
    ("slices", _("Slices")),
    ("memory", _("Memory of a card")),
]


def _kinds_field() -> forms.MultipleChoiceField:
    return forms.MultipleChoiceField(
        label=_("Offered for"),
        choices=CATALOG_KINDS,
        initial=["environment", "job"],
        widget=forms.CheckboxSelectMultiple,
        error_messages=_CHOOSE,
    )


def _offer(form: forms.Form, name: str, choices: Sequence[tuple[str, Any]]) -> None:
    field = form.fields[name]
    assert isinstance(field, forms.ChoiceField)  # noqa: S101 - for the type checker
    field.choices = choices


class ImageForm(forms.Form):
    """``name`` and ``group`` are asked for only when the image is made: they never change."""

    name = forms.CharField(label=_("Name"), max_length=63, help_text=_("What people choose in the forms."))
    reference = forms.CharField(
        label=_("Reference"),
        max_length=255,
        help_text=_("What the container engine is asked for, like registry/repository:tag."),
        widget=forms.TextInput(attrs={"class": "mono", "spellcheck": "false"}),
    )
    description = forms.CharField(label=_("Description"), max_length=500, required=False)
    kinds = _kinds_field()
    port = forms.IntegerField(
        label=_("Port"),
        min_value=1,
        max_value=65535,
        required=False,
        help_text=_("Where an environment of this image answers HTTP."),
    )
    command = forms.CharField(
        label=_("Command"),
        max_length=4096,
        required=False,
        help_text=_("Program and arguments. Empty: the image's own."),
        widget=forms.TextInput(attrs={"class": "mono", "spellcheck": "false"}),
    )
    group = forms.ChoiceField(label=_("Who may use it"), required=False)

    def __init__(self, groups: Sequence[str], *args: Any, is_new: bool, **rest: Any) -> None:
        super().__init__(*args, **rest)
        _offer(self, "group", [("", _("everyone")), *((name, name) for name in groups)])
        if not is_new:
            del self.fields["name"], self.fields["group"]

    def clean_command(self) -> list[str]:
        try:
            return shlex.split(self.cleaned_data["command"])
        except ValueError:
            raise forms.ValidationError(_("A quotation mark is open.")) from None


class ProfileForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=63, help_text=_("What people choose in the forms."))
    description = forms.CharField(label=_("Description"), max_length=500, required=False)
    kinds = _kinds_field()
    pool = forms.ChoiceField(label=_("Usual pool"), required=False)
    cpu = CoresField(label=_("CPU cores"), initial=4000)
    memory = MemoryField(label=_("Memory"), initial=16_384)
    gpu_mode = forms.ChoiceField(label=_("GPU"), choices=_GPU_MODES, initial="slices")
    gpus = forms.IntegerField(label=_("Cards"), min_value=1, max_value=1024, required=False, initial=1)
    gpu_slices = forms.IntegerField(
        label=_("Slices of each card"), min_value=1, max_value=64, required=False, initial=1
    )
    gpu_memory = MemoryField(label=_("Memory of each card"), required=False, initial=4096)
    gpu_model = forms.CharField(
        label=_("Card model"), max_length=128, required=False, help_text=_("Empty: any. Like V100 or A100|H100.")
    )

    def __init__(self, pools: Sequence[str], *args: Any, **rest: Any) -> None:
        super().__init__(*args, **rest)
        _offer(self, "pool", [("", _("none")), *((name, name) for name in pools)])

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        needed = {"cards": ["gpus"], "slices": ["gpus", "gpu_slices"], "memory": ["gpus", "gpu_memory"]}
        for name in needed.get(given.get("gpu_mode", ""), []):
            if given.get(name) is None and name not in self.errors:
                self.add_error(name, _("This is needed."))
        return given

    def resources(self) -> dict[str, Any]:
        """What the form asks for, by column. The form is valid."""
        given, mode = self.cleaned_data, self.cleaned_data["gpu_mode"]
        return {
            "cpu_milli": given["cpu"],
            "memory_mib": given["memory"],
            "gpus": 0 if mode == "none" else given["gpus"],
            "gpu_slices": given["gpu_slices"] if mode == "slices" else None,
            "gpu_memory_mib": given["gpu_memory"] if mode == "memory" else None,
            "gpu_compute_milli": None,
            "gpu_model": (given["gpu_model"] or None) if mode != "none" else None,
        }
