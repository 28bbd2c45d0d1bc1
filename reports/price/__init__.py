"""What a report says of the price suite."""
