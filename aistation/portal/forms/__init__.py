"""Forms: they check the shape of what was typed; rights and room are the services' part."""
