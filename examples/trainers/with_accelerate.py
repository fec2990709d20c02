"""A loop of one's own under Accelerate, recorded: docs/integrations/launchers.md."""

import highwater
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024))
optimizer = torch.optim.AdamW(model.parameters())
batches = DataLoader(torch.randn(32 * 5, 1024), batch_size=32)

# On the page:
accelerator = Accelerator()
model, optimizer, batches = accelerator.prepare(model, optimizer, batches)
with highwater.record("accelerate.pickle"), highwater.name_tensors(model, optimizer):
    for batch in batches:
        loss = model(batch).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        highwater.step()
