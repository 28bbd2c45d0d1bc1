"""What a report says of the disciplines suite."""
