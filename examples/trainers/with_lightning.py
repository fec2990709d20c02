"""A small model under PyTorch Lightning, recorded: docs/integrations/lightning.md."""

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

STEPS = 5


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024))

    def training_step(self, batch, number):
        return self.layers(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


def batches():
    return DataLoader(TensorDataset(torch.randn(32 * STEPS, 1024)), batch_size=32)


# On the page:
from highwater.integrations.lightning import HighwaterCallback

trainer = lightning.Trainer(
    accelerator="gpu", devices=1, max_steps=STEPS, logger=False, enable_checkpointing=False, enable_progress_bar=False,
    callbacks=[HighwaterCallback("lightning.pickle")],
)
trainer.fit(Model(), batches())
