"""The transmission suite: speed of every system's messages, compared with the hardware's ceiling in the same run."""
