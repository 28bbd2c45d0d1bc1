"""What a report says of the convergence suite."""
