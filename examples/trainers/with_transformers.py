"""A small GPT-2 under the Trainer of Hugging Face, recorded: docs/integrations/transformers.md."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

STEPS = 5
CONFIG = GPT2Config(n_layer=2, n_embd=256, n_head=4, vocab_size=2048, n_positions=128)


def dataset():
    rows = torch.randint(CONFIG.vocab_size, (4 * STEPS, CONFIG.n_positions))
    return [{"input_ids": row, "labels": row} for row in rows]


# On the page:
from highwater.integrations.transformers import HighwaterCallback

arguments = TrainingArguments("out", max_steps=STEPS, per_device_train_batch_size=4, report_to=[], save_strategy="no", disable_tqdm=True)
trainer = Trainer(GPT2LMHeadModel(CONFIG), arguments, train_dataset=dataset(), callbacks=[HighwaterCallback("transformers.pickle")])
trainer.train()
