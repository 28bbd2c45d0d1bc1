"""Transport of chunks and weights between roles: a small contract, and a backend for each URI scheme."""
