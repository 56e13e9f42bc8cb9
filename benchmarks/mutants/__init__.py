"""Changes of code and queries, and whether the tests notice them."""
