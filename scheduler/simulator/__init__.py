"""A cluster on a virtual clock: the decisions of production against streams of environments and jobs."""
