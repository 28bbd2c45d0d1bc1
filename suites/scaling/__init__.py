"""The scaling suite: throughput and time to a return, by the number of nodes."""
