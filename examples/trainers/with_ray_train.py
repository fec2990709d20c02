"""A small model under Ray Train, recorded: docs/integrations/launchers.md."""

import os

import highwater
import ray
import torch
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer

FOLDER = os.getcwd()


def train():
    model = torch.nn.Linear(1024, 1024).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(5):
        model(torch.randn(256, 1024, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        highwater.step()


# On the page:
def train_loop():
    rank = ray.train.get_context().get_world_rank()
    with highwater.record(f"{FOLDER}/rank{rank}.pickle"):
        train()


trainer = TorchTrainer(train_loop, scaling_config=ScalingConfig(num_workers=1, use_gpu=True))
trainer.fit()
