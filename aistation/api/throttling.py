"""Limits on how often one person may do what is expensive."""

from typing import Final

from django.core.cache import cache
from redis.exceptions import RedisError

from aistation.core.errors import RateLimitedError
from aistation.tenancy.policy import Actor

WINDOW_S: Final = 60


def limit_rate(actor: Actor, what: str, allowed: int) -> None:
    """At most ``allowed`` times a minute and person; more raises RateLimitedError.

    Counted in the cache: when that is away nobody is held up.
    """
    key = f"rate:{what}:{actor.user_id}"
    try:
        cache.add(key, 0, timeout=WINDOW_S)
        count = cache.incr(key)
    except (RedisError, ValueError):  # ValueError: it expired between the two
        return
    if count > allowed:
        message = f"At most {allowed} times a minute. Wait and try again."
        raise RateLimitedError(message, retry_after_s=WINDOW_S)
