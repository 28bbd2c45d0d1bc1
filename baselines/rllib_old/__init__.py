"""RLlib of Ray 2.9.3 with its old API stack, as a control: its users report that the new stack samples more slowly."""
