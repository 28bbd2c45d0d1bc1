"""How fast does training reach a return? Time, steps and core-seconds to threshold, by two definitions."""
