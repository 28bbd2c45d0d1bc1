"""The asynchrony suite: a map of when relaxing dependencies pays, with predictions stated before it is measured."""
