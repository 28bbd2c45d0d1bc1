"""Systems of the comparison, all behind one interface (`baselines.system`)."""
