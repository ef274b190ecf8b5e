"""Sign-in, password, tokens."""

from django import forms
from django.utils.translation import gettext_lazy as _

from aistation.tenancy.policy import Scope


class SignInForm(forms.Form):
    username = forms.CharField(
        label=_("User name"),
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none", "autofocus": True}),
    )
    password = forms.CharField(
        label=_("Password"),
        strip=False,
        max_length=4096,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )


class PasswordForm(forms.Form):
    """A new password, with the present one as proof."""

    current = forms.CharField(
        label=_("Present password"),
        strip=False,
        max_length=4096,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
    password = forms.CharField(
        label=_("New password"),
        strip=False,
        max_length=4096,
        help_text=_("At least 10 characters, not a common one."),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    again = forms.CharField(
        label=_("New password again"),
        strip=False,
        max_length=4096,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def clean(self) -> dict[str, object]:
        cleaned: dict[str, object] = super().clean() or {}
        if cleaned.get("password") and cleaned.get("again") and cleaned["password"] != cleaned["again"]:
            self.add_error("again", _("The two new passwords differ."))
        return cleaned


SCOPES = [
    (Scope.READ, _("read")),
    (Scope.WRITE, _("submit and control work")),
    (Scope.ADMIN, _("administer")),
]


class TokenForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=63, help_text=_("What it is for, e.g. laptop."))
    expires_in_days = forms.IntegerField(label=_("Expires in"), min_value=1, max_value=90, initial=30)
    scopes = forms.MultipleChoiceField(
        label=_("May be used to"),
        choices=SCOPES,
        required=False,
        initial=[Scope.READ, Scope.WRITE],
        widget=forms.CheckboxSelectMultiple,
        error_messages={"invalid_choice": _("Choose from the list.")},
    )

    def clean_scopes(self) -> list[str]:
        scopes: list[str] = self.cleaned_data["scopes"]
        if not scopes:
            raise forms.ValidationError(_("Choose at least one."))
        return scopes


class LookForm(forms.Form):
    """Language and colours; each alone is fine."""

    language = forms.CharField(required=False, max_length=16)
    theme = forms.ChoiceField(required=False, choices=[("light", "light"), ("dark", "dark")])
