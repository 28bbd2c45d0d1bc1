"""The simulated world: the same roles on stand-ins for work, links and machines, for `tianji plan` and for suites."""
