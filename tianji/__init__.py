"""TianJi: decoupled actors, buffer and learner that train deep RL as data arrives.

An independent implementation, over ZeroMQ and shared memory, of the system described in He et al., AAAI 2025
(arXiv 2502.20190). `tianji.train.train` is the Python entry point, `python -m tianji` the command.
"""

__version__ = "0.1.0"
