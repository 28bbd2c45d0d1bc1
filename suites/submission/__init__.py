"""Sessions from other machines and of other systems: checked, marked with their division, sealed, and validated again by CI."""
