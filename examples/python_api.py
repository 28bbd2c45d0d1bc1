"""Training from Python: settings in, result out."""

from pathlib import Path

import tianji
from tianji.policy import save_policy

config = tianji.TrainConfig(
    env="own_environment:Rooms",
    algo="ppo",
    actors=2,
    envs_per_actor=4,
    stop_return=8.8,
    stop_steps=100_000,
)
result = tianji.train(config)
print(f"{result.steps:,} steps in {result.seconds:.1f} s, mean return {result.mean_return:.1f}")
save_policy(Path("rooms.safetensors"), result.policy, env=config.env)
