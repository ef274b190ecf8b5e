"""Groups: list, create, archive; members and what the group has."""

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from aistation.catalog.selectors import list_folders
from aistation.core.clock import now
from aistation.portal.filling import filled_in
from aistation.portal.forms.people import GROUP_ROLES, GroupForm, MemberForm
from aistation.portal.pages import Request, act, ask_first, show, signed_in
from aistation.quotas.selectors import quota_rows
from aistation.tenancy import services
from aistation.tenancy.policy import ROLE_NAMES, ROLES_BY_NAME, Action, Role, allows
from aistation.tenancy.selectors import access_group, access_member, list_groups, list_members, require
from aistation.workloads.occupancy import count_live
from aistation.workloads.offboarding import retire_group


@signed_in
@require_GET
def groups(request: Request) -> HttpResponse:
    """Those of the person; all for platform admins."""
    actor = request.actor
    rows = []
    for group in list_groups(actor).prefetch_related("memberships"):
        role = actor.role_in(group.pk)
        rows.append((group, len(group.memberships.all()), ROLE_NAMES[role] if role else ""))
    context = {"rows": rows, "manages": allows(actor, Action.MANAGE_GROUPS)}
    return show(request, "groups/group_list.html", context)


@signed_in
@require_http_methods(["GET", "POST"])
def new_group(request: Request) -> HttpResponse:
    actor = request.actor
    require(actor, Action.MANAGE_GROUPS)
    form = GroupForm(request.POST or None)
    if request.method == "POST":
        made = filled_in(
            request,
            form,
            lambda given: services.create_group(**given, now=now(), actor=actor),
            done=_("The group is created. Add its members."),
            to=reverse("portal:groups"),
        )
        if made:
            return made
    return show(request, "groups/group_form.html", {"form": form})


@signed_in
@require_GET
def group(request: Request, name: str) -> HttpResponse:
    return _page(request, name, MemberForm())


def _page(request: Request, name: str, form: MemberForm) -> HttpResponse:
    actor = request.actor
    found = access_group(actor, name)
    members = [(member, ROLE_NAMES[Role(member.role)]) for member in list_members(found.pk)]
    context = {
        "group": found,
        "members": members,
        "roles": GROUP_ROLES,
        "form": form,
        "manages": allows(actor, Action.MANAGE_MEMBERS, group_id=found.pk),
        "archives": allows(actor, Action.MANAGE_GROUPS),
        "folders": list_folders(actor).filter(group_id=found.pk),
        "live": count_live(found.pk),
        "quota": quota_rows(found)[0],
        "topics": f"group.{found.pk}",
    }
    return show(request, "groups/group.html", context, partial="groups/_group_facts.html")


@signed_in
@require_POST
def set_member(request: Request, name: str) -> HttpResponse:
    """Add a person, or give a member another role."""
    actor = request.actor
    found = access_group(actor, name, Action.MANAGE_MEMBERS)
    form = MemberForm(request.POST)
    done = filled_in(
        request,
        form,
        lambda given: services.set_member(
            group=found, username=given["username"], role=ROLES_BY_NAME[given["role"]], now=now(), actor=actor
        ),
        done=_("%(person)s is in the group with this role.") % {"person": request.POST.get("username", "")[:63]},
        to=reverse("portal:group", args=[name]),
    )
    return done or _page(request, name, form)


@signed_in
@require_POST
def remove_member(request: Request, name: str, username: str) -> HttpResponse:
    actor = request.actor
    found, user = access_member(actor, name, username, Action.MANAGE_MEMBERS)
    back = reverse("portal:group", args=[name])
    question = _("Take %(person)s out of %(group)s? Work of this person goes on until somebody of the group ends it.")
    if page := ask_first(request, question % {"person": username, "group": name}, _("Take out"), back=back):
        return page
    return act(
        request,
        lambda: services.remove_member(group=found, user=user, now=now(), actor=actor),
        done=_("%(person)s is out of the group.") % {"person": username},
        to=back,
    )


@signed_in
@require_POST
def archive(request: Request, name: str) -> HttpResponse:
    """Refused while work of the group is live."""
    actor = request.actor
    found = access_group(actor, name, Action.MANAGE_GROUPS)
    back = reverse("portal:group", args=[name])
    question = _("Archive group %(name)s? Nobody sees it any more; its name stays taken.") % {"name": name}
    if page := ask_first(request, question, _("Archive"), back=back):
        return page
    return act(
        request,
        lambda: retire_group(group=found, now=now(), actor=actor),
        done=_("%(name)s is archived.") % {"name": name},
        to=reverse("portal:groups"),
    )
