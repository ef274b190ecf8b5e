"""Where the node's GPUs come from: the NVIDIA driver, or made up ones for machines without."""
