"""What runs the containers: the Docker Engine, or plain processes where there is none."""
