"""The commands of `tianji`: a module each, with its options, what it refuses and what it prints."""
