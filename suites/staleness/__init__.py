"""The staleness suite: staleness and steps to threshold with the balance rule, with half of it, and without it."""
