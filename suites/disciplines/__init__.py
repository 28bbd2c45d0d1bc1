"""The disciplines suite: who waits for whom, and what each rule costs and gains."""
