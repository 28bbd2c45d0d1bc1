"""Every system of the comparison, behind one small contract (`baselines.system`)."""
