"""Refusals that an agent understands."""

from aistation.core.errors import ConflictError


class NodeIdentityInUseError(ConflictError):
    """Another agent runs under this node's identity; the first one stays."""

    code = "node_identity_in_use"


class RuntimeRefusedError(ConflictError):
    """The node's runtime isolates nothing, and this installation does not allow that."""

    code = "runtime_refused"
