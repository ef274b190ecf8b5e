"""The machines: pools, nodes, GPUs, and what of them is taken."""
