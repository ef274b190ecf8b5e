"""What environments and jobs have in common: states, attempts, tasks, allocations, logs."""
