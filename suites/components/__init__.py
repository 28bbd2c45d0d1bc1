"""Parts of the system measured alone, which the regression gate compares between revisions."""
