"""The price suite: what staleness costs in environment steps, by lag and learning rate."""
