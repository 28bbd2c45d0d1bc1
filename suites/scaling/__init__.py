"""How does throughput, and the time to a return, change with the number of nodes?"""
