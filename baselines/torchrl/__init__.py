"""TorchRL: PPO with its asynchronous collectors, in an environment of its own."""
