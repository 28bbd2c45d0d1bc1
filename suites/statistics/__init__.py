"""Pure statistics: intervals, crossings, scalability fits, the regression gate, rows of a summary."""
