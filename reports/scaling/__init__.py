"""What a report says of the scaling suite."""
