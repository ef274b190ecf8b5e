"""Users, groups, members."""

from typing import Final

from django import forms
from django.utils.translation import gettext_lazy as _

from aistation.portal.words import ROLES

_PASSWORD: Final = forms.PasswordInput(attrs={"autocomplete": "new-password"})
_NAME_HELP: Final = _("Small letters, digits, and - _ . inside. It stays for good.")
GROUP_ROLES: Final = [(role, ROLES[role]) for role in ("member", "group_admin", "viewer")]


class UserForm(forms.Form):
    username = forms.CharField(label=_("User name"), max_length=63, help_text=_NAME_HELP)
    display_name = forms.CharField(label=_("Full name"), max_length=128, required=False)
    email = forms.EmailField(label=_("E-mail"), required=False, max_length=254)
    password = forms.CharField(
        label=_("Password"),
        strip=False,
        max_length=4096,
        help_text=_("At least 10 characters, not a common one. The person can change it on the profile page."),
        widget=_PASSWORD,
    )
    is_platform_admin = forms.BooleanField(label=_("May administer the whole platform"), required=False)


class NewPasswordForm(forms.Form):
    password = forms.CharField(
        label=_("New password"),
        strip=False,
        max_length=4096,
        help_text=_("At least 10 characters, not a common one."),
        widget=_PASSWORD,
    )


class GroupForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=63, help_text=_NAME_HELP)
    display_name = forms.CharField(label=_("Full name"), max_length=128, required=False)


class MemberForm(forms.Form):
    username = forms.CharField(
        label=_("User name"), max_length=63, widget=forms.TextInput(attrs={"autocomplete": "off"})
    )
    role = forms.ChoiceField(
        label=_("Role"), choices=GROUP_ROLES, error_messages={"invalid_choice": _("Choose from the list.")}
    )
