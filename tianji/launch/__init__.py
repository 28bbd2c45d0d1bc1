"""Starting, watching and ending a run's processes."""
