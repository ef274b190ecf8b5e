"""Jobs: workloads that wait in the queue and run to completion."""
