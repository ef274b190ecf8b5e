"""Settings. ``base`` holds everything and reads the environment; ``dev``, ``test`` and ``prod`` only differ."""
