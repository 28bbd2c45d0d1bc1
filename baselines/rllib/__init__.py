"""Ray RLlib, on its new API stack."""
