"""Read logs as users have them: canonical views, log cells, assigned units."""
