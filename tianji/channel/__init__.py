"""How bytes move between roles: a small contract, and a backend for each URI scheme."""
