"""Does the regression gate do what it promises? Trials with nothing, and with something, to find."""
