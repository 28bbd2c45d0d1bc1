"""Results in; figures, tables, one HTML page and machine-readable summaries out. Reads bundles, runs nothing."""
