"""Pages, one module a noun. A view asks for access, calls one service, and shows or redirects."""
