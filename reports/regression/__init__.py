"""Whether one revision is worse than another, from what was recorded of both."""
