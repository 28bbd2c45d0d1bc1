"""An environment that counts its own steps. This folder is on the path of every trial, so that any interpreter finds it."""
