"""Sample Factory: asynchronous PPO in processes that share memory, in an environment of its own."""
