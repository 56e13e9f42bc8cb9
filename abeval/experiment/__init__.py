"""Read and check the experiment file."""
