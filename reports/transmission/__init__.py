"""What a report says of the transmission suite."""
