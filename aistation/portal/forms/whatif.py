"""A load for the simulator, and one lending rule as it would be."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from aistation.portal.forms.lending import WindowsField
from aistation.scheduling.whatif import Change, Load


class WhatIfForm(forms.Form):
    job_pool = forms.ChoiceField(
        label=gettext_lazy("Jobs wait in pool"),
        required=False,
        help_text=gettext_lazy("Each group always has jobs of one card waiting there."),
    )
    job_hours = forms.IntegerField(
        label=gettext_lazy("Hours of each job"), min_value=1, max_value=168, initial=12, required=False
    )
    environment_pool = forms.ChoiceField(
        label=gettext_lazy("Environments open in pool"),
        required=False,
        help_text=gettext_lazy("On workdays from 9:00, for 8.6 hours."),
    )
    environments = forms.IntegerField(
        label=gettext_lazy("Environments a day"), min_value=0, max_value=2000, initial=0, required=False
    )
    slices = forms.IntegerField(
        label=gettext_lazy("Slices of each"), min_value=1, max_value=64, initial=1, required=False
    )
    lender = forms.ChoiceField(label=gettext_lazy("What if cards of pool"), required=False)
    borrower = forms.ChoiceField(label=gettext_lazy("ran jobs of the queue of pool"), required=False)
    windows = WindowsField(label=gettext_lazy("When"))
    take_back = forms.ChoiceField(
        label=gettext_lazy("How cards come back"),
        choices=[
            ("checkpoint", gettext_lazy("checkpoint: jobs are asked to save, leave, and go on later")),
            ("wait", gettext_lazy("wait: only jobs that end in time are let in")),
        ],
        initial="checkpoint",
        widget=forms.RadioSelect,
    )
    keep_free_slices = forms.IntegerField(
        label=gettext_lazy("Slices that stay free"), min_value=0, max_value=1 << 20, initial=0, required=False
    )

    def __init__(
        self, pools: Sequence[str], job_pools: Sequence[str], environment_pools: Sequence[str], *args: Any, **rest: Any
    ) -> None:
        super().__init__(*args, **rest)
        self._choose("job_pool", job_pools, _("no jobs"))
        self._choose("environment_pool", environment_pools, _("no environments"))
        self._choose("lender", pools, _("no change: only as it is"))
        self._choose("borrower", job_pools, "–")

    def _choose(self, name: str, names: Sequence[str], none: str) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - for the type checker
        field.choices = [("", none), *((one, one) for one in names)]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        lender, borrower = cleaned.get("lender"), cleaned.get("borrower")
        if lender and not borrower:
            self.add_error("borrower", _("Choose the pool whose jobs would use the cards."))
        if lender and lender == borrower:
            self.add_error("borrower", _("A pool lends to another pool."))
        if not cleaned.get("job_pool") and not (cleaned.get("environment_pool") and cleaned.get("environments")):
            self.add_error("job_pool", _("Without jobs and environments nothing would happen. Choose some load."))
        return cleaned

    def load(self) -> Load:
        given = self.cleaned_data
        return Load(
            job_pool=given["job_pool"],
            job_hours=given["job_hours"] or 12,
            environment_pool=given["environment_pool"],
            environments=given["environments"] or 0,
            slices=given["slices"] or 1,
        )

    def change(self) -> Change | None:
        given = self.cleaned_data
        if not given["lender"]:
            return None
        return Change(
            lender=given["lender"],
            borrower=given["borrower"],
            windows=given["windows"],
            take_back=given["take_back"],
            keep_free_slices=given["keep_free_slices"] or 0,
        )
