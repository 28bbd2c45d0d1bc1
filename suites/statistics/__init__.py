"""Pure statistics: intervals, crossings, scalability fits, the regression gate, summary rows."""
