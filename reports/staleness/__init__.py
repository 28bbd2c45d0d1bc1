"""What a report says of the staleness suite."""
