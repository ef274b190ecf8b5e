"""What people choose from: images, profiles, folders."""
