"""Is one revision worse than another? Answers from the records of both."""
