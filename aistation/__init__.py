"""The control plane: a Django project, one app per noun, edges on top. See docs/architecture.md."""
