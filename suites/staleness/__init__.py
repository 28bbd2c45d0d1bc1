"""What balance does: staleness, and the steps that learning takes, with the rule, with half of it, and without."""
