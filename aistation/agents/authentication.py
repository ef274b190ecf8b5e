"""Which node speaks: its credential as a bearer token, stored as a digest."""

from aistation.core.errors import UnauthenticatedError
from aistation.fleet import selectors
from aistation.fleet.selectors import NodeIdentity
from aistation.fleet.services import digest_of


def authenticate(authorization: str) -> NodeIdentity:
    """The node with this ``Authorization`` header. UnauthenticatedError: nobody's, or the node was removed."""
    scheme, _, secret = authorization.partition(" ")
    identity = selectors.node_of_token(digest_of(secret.strip())) if scheme.lower() == "bearer" else None
    if identity is None:
        raise UnauthenticatedError("This credential is no node's. Enrol the machine with a join token.")
    return identity
