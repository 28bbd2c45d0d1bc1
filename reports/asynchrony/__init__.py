"""What a report says of the asynchrony suite."""
