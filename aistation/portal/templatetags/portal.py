"""The pieces that pages are put together from: ``{% load portal %}``."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django import template
from django.forms import BoundField, CheckboxInput, RadioSelect, Select, Textarea
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

from aistation.portal import units, words
from aistation.portal.reasons import Told, amount, no_estimate, tell_all

register = template.Library()

register.filter("cards", units.cards)
register.filter("thousandths", units.thousandths)
register.filter("cores", units.cores)
register.filter("memory", units.memory)
register.filter("duration", units.duration)
register.filter("byte_size", units.byte_size)


@register.filter
def state_word(code: str) -> str:
    return str(words.STATES.get(code, code))


@register.filter
def end_word(code: str) -> str:
    return str(words.END_REASONS.get(code, code))


@register.filter
def pending_word(code: str) -> str:
    return str(words.PENDING_REASONS.get(code, code))


@register.filter
def event_word(code: str) -> str:
    return str(words.EVENTS.get(code, code))


@register.filter
def phase_word(code: str) -> str:
    return str(words.PHASES.get(code, code))


@register.filter
def state_colour(code: str) -> str:
    return words.COLOURS.get(code, "secondary")


@register.filter
def role_word(code: str) -> str:
    return str(words.ROLES.get(code, code))


@register.filter
def kind_word(code: str) -> str:
    return str(words.KINDS.get(code, code))


@register.simple_tag
def icon(name: str, extra: str = "") -> SafeString:
    """A drawing from the sprite; ``assets/icons.txt`` lists the names. Never the only sign of anything."""
    return format_html(
        '<svg class="icon {}" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>',
        extra,
        static("vendor/icons.svg"),
        name,
    )


@register.simple_tag
def when(instant: datetime | None, empty: str = "–") -> SafeString | str:
    """An instant: UTC without scripts, with them in the reader's zone and as "3 minutes ago" where that is short."""
    if instant is None:
        return empty
    utc = instant.astimezone(UTC)
    return format_html(
        '<time datetime="{}" class="text-nowrap">{} UTC</time>', utc.isoformat(), utc.strftime("%Y-%m-%d %H:%M")
    )


@register.simple_tag
def minute(instant: datetime) -> SafeString:
    """As `when`, without seconds: for what is only estimated."""
    utc = instant.astimezone(UTC)
    return format_html(
        '<time datetime="{}" data-minute class="text-nowrap">{} UTC</time>',
        utc.isoformat(),
        utc.strftime("%Y-%m-%d %H:%M"),
    )


@register.filter
def unsaid_because(reasons: Sequence[Any]) -> str:
    """Why there is no estimate, from the reasons of something that waits: as stored, or as told."""
    return no_estimate([one.code if isinstance(one, Told) else str(one.get("code", "")) for one in reasons])


@register.simple_tag
def counting(since: datetime | None, empty: str = "–") -> SafeString | str:
    """How long ago, counting up on the page."""
    if since is None:
        return empty
    utc = since.astimezone(UTC)
    return format_html(
        '<time datetime="{}" data-counting class="text-nowrap">{} UTC</time>',
        utc.isoformat(),
        utc.strftime("%Y-%m-%d %H:%M"),
    )


@register.simple_tag
def between(start: datetime | None, end: datetime | None, empty: str = "–") -> SafeString | str:
    """The time from ``start`` to ``end``; counting up while there is no end."""
    if start is None:
        return empty
    if end is None:
        return counting(start)
    return units.duration(max(0, int((end - start).total_seconds())))


@register.inclusion_tag("portal/_state.html")
def state(code: str, reason: str = "") -> dict[str, Any]:
    """A coloured dot with the word for a state, and why it ended when that says more than the state."""
    says_more = reason not in ("", "completed", "user_stopped", "held")
    return {
        "code": code,
        "word": words.STATES.get(code, code),
        "colour": words.COLOURS.get(code, "secondary"),
        "is_moving": code in words.MOVING,
        "reason": words.END_REASONS.get(reason, reason) if says_more else "",
    }


@register.inclusion_tag("portal/_bar.html")
def bar(used: int, limit: int | None, text: str = "", label: str = "") -> dict[str, Any]:
    """How full something is. ``limit`` None: unlimited, so the bar stays empty. ``label`` is for screen readers."""
    if limit is None:
        percent = 0
    elif limit == 0:
        percent = 100 if used else 0
    else:
        percent = min(100, used * 100 // limit)
    is_over = limit is not None and used > limit
    colour = "red" if is_over else "orange" if percent >= 90 else "primary"
    return {"percent": percent, "colour": colour, "text": text, "label": label or text, "is_over": is_over}


@register.inclusion_tag("portal/_empty.html")
def empty(icon: str, title: str, text: str = "", url: str = "", action: str = "") -> dict[str, Any]:
    """A list with nothing in it says what to do."""
    return {"icon": icon, "title": title, "text": text, "url": url, "action": action}


@register.inclusion_tag("portal/_field.html")
def field(bound: BoundField, prefix: str = "", suffix: str = "") -> dict[str, Any]:
    """A form's field with its label, help and errors, tied together for screen readers."""
    widget = bound.field.widget
    described = [f"{bound.auto_id}_help"] if bound.help_text else []
    described += [f"{bound.auto_id}_error"] if bound.errors else []
    attrs: dict[str, Any] = {"aria-describedby": " ".join(described)} if described else {}
    if bound.errors:
        attrs["aria-invalid"] = "true"
    is_check = isinstance(widget, CheckboxInput)
    is_radio = isinstance(widget, RadioSelect)
    if is_radio:  # also a list of check boxes
        widget.attrs["class"] = "form-check-input"
    else:
        name = "form-check-input" if is_check else "form-select" if isinstance(widget, Select) else "form-control"
        attrs["class"] = f"{widget.attrs.get('class', '')} {name}{' is-invalid' if bound.errors else ''}".strip()
    if isinstance(widget, Textarea):
        attrs.setdefault("rows", widget.attrs.get("rows", 3))
    return {
        "bound": bound,
        "control": bound.as_widget(attrs=attrs),
        "is_demanded": bound.field.required and bound.initial in (None, ""),
        "is_check": is_check,
        "is_radio": is_radio,
        "prefix": prefix,
        "suffix": suffix,
    }


@register.inclusion_tag("portal/_action.html", takes_context=True)
def action(  # noqa: PLR0913 - what a button is made of
    context: Mapping[str, Any],
    url: str,
    label: str,
    *,
    icon: str = "",
    ask: str = "",
    kind: str = "",
    next: str = "",
    small: bool = False,
    only_icon: bool = False,
) -> dict[str, Any]:
    """A button that posts. ``ask``: the question to answer first. ``kind``: primary, danger or "" (quiet)."""
    return {
        "csrf_token": context.get("csrf_token"),
        "url": url,
        "label": label,
        "icon": icon,
        "ask": ask,
        "kind": kind,
        "next": next,
        "small": small,
        "only_icon": only_icon,
    }


@register.simple_tag
def asks(row: Any) -> str:
    """What a workload or a profile asks of cards, in words."""
    return units.gpu_request(
        gpus=row.gpus,
        gpu_slices=row.gpu_slices,
        gpu_memory_mib=row.gpu_memory_mib,
        gpu_compute_milli=row.gpu_compute_milli,
        gpu_model=row.gpu_model,
        tasks=getattr(row, "tasks_count", 1),
    )


@register.inclusion_tag("portal/_cards.html")
def cards_of(task: Any) -> dict[str, Any]:
    """The cards that a task got, with what it got of each. ``task`` was loaded with its shares."""
    return {"shares": list(task.allocation.shares.all())}


@register.simple_tag
def tell(reasons: Sequence[Mapping[str, Any]]) -> list[Told]:
    """Why something waits, in the reader's language."""
    return tell_all(reasons)


@register.filter
def of(number: int, quantity: str) -> str:
    """``{{ 1500|of:"gpu_milli" }}``: a quota's number with its unit."""
    return amount(quantity, number)


@register.simple_tag(takes_context=True)
def with_query(context: Mapping[str, Any], **changes: Any) -> str:
    """The present query string with changes; None or "" takes a key out. Starts with "?"."""
    query = context["request"].GET.copy()
    for key, value in changes.items():
        if value in (None, ""):
            query.pop(key, None)
        else:
            query[key] = str(value)
    return f"?{query.urlencode()}"
