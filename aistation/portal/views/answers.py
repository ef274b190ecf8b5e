"""The live answer under a form: starts now, waits because, or cannot be."""

from django.http import HttpResponse

from aistation.core.clock import now
from aistation.core.errors import DomainError
from aistation.portal.forms.workloads import WorkloadForm
from aistation.portal.pages import Request, show
from aistation.portal.reasons import Told, tell
from aistation.scheduling.dryrun import dry_run


def answer_to(request: Request, form: WorkloadForm) -> HttpResponse:
    """A partial; it is only ever a part of a form's page."""
    form.fields["name"].required = False  # it changes nothing about the answer
    if not form.is_valid():
        return show(request, "portal/_answer.html", {"is_incomplete": True})
    try:
        answer = dry_run(actor=request.actor, submission=form.submission(), now=now())
    except DomainError as error:
        messages = [found.message for found in error.errors] or [error.message]
        return show(request, "portal/_answer.html", {"refusals": list(dict.fromkeys(messages))})
    reasons: list[Told] = [
        tell({"code": reason.code.value, "message": reason.message, "numbers": dict(reason.numbers)})
        for reason in answer.reasons
    ]
    nodes = sorted({task.node_id for task in answer.tasks})
    context = {"answer": answer, "reasons": reasons, "nodes": nodes}
    return show(request, "portal/_answer.html", context)
