"""How throughput and time to a return grow with the number of nodes, one to eight."""
