"""Keep past experiments in a file, and learn from all of them."""
