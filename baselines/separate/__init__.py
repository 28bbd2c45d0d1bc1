"""Systems whose interpreter cannot import this project's packages: what both sides of such a system share."""
