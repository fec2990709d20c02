"""Measures the peaks of set-ups: `estimate_rows.py IN.jsonl OUT.jsonl`, a set-up a line as in `testdata/estimates/nullgpu.jsonl`.

Runs on a GPU, or without one (`highwater dryrun --gpu h200 estimate_rows.py …`), with random weights.
"""

import gc
import json
import sys

import torch
import transformers
import transformers.masking_utils

# Its answer depends on the values of positions, which a null GPU does not have; without packed sequences it is this.
transformers.masking_utils.find_packed_sequence_indices = lambda position_ids: None

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
CLASSES = {
    "causal": transformers.AutoModelForCausalLM,
    "mlm": transformers.AutoModelForMaskedLM,
    "image": transformers.AutoModelForImageClassification,
    "seq2seq": transformers.AutoModelForSeq2SeqLM,
    "speech": transformers.AutoModelForSpeechSeq2Seq,
    "base": transformers.AutoModel,
}
OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-4),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=1e-4, fused=True),
    "adamw_loop": lambda p: torch.optim.AdamW(p, lr=1e-4, foreach=False),
    "adamw_amsgrad": lambda p: torch.optim.AdamW(p, lr=1e-4, amsgrad=True),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-4),
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-4),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=1e-4, momentum=0.9),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-4),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-4),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=1e-4),
    "nadam": lambda p: torch.optim.NAdam(p, lr=1e-4),
    "radam": lambda p: torch.optim.RAdam(p, lr=1e-4),
    "adamax": lambda p: torch.optim.Adamax(p, lr=1e-4),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=1e-4),
}


class Muon:
    """Muon for the matrices of the layers, AdamW for the rest: the usual split."""

    def __init__(self, model):
        is_matrix = {name: p.ndim == 2 and "embed" not in name and "lm_head" not in name for name, p in model.named_parameters()}
        named = list(model.named_parameters())
        self.parts = [
            torch.optim.Muon([p for name, p in named if is_matrix[name]], lr=1e-4),
            torch.optim.AdamW([p for name, p in named if not is_matrix[name]], lr=1e-4),
        ]

    def step(self):
        for part in self.parts:
            part.step()

    def zero_grad(self):
        for part in self.parts:
            part.zero_grad()


def optimizer_of(row, model):
    if row["opt"] == "muon":
        return Muon(model)
    return OPTIMIZERS[row["opt"]](p for p in model.parameters() if p.requires_grad)


def adapted(row, model):
    """Adapters, as `lora` says: `r`, `targets`, `dropout`."""
    if "lora" not in row:
        return model
    import peft

    lora = row["lora"]
    return peft.get_peft_model(model, peft.LoraConfig(r=lora["r"], target_modules=lora["targets"], lora_dropout=lora.get("dropout", 0.0)))


def build(row, device="cuda"):
    fields = dict(row["config"])
    config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    before = torch.get_default_dtype()
    torch.set_default_dtype(TYPES[row["dtype"]])
    try:
        with torch.device(device):
            return CLASSES[row.get("head", "causal")].from_config(config, attn_implementation=row["attn"]), config
    finally:
        torch.set_default_dtype(before)


def batch(row, config, model):
    count, tokens, dtype = row["b"], row["s"], next(model.parameters()).dtype
    ids = lambda: torch.randint(0, 100, (count, tokens), device="cuda")
    if row.get("head") == "image":
        return {"pixel_values": torch.randn(count, 3, config.image_size, config.image_size, device="cuda", dtype=dtype)}
    if row.get("head") == "speech":
        frames = torch.randn(count, config.num_mel_bins, 2 * config.max_source_positions, device="cuda", dtype=dtype)
        return {"input_features": frames, "decoder_input_ids": ids()}
    if config.model_type == "clip":
        side = config.vision_config.image_size
        return {"input_ids": ids(), "pixel_values": torch.randn(count, 3, side, side, device="cuda", dtype=dtype)}
    return {"input_ids": ids()}


def loss_of(out, labels):
    if labels:
        return out.loss
    return out.logits.mean() if hasattr(out, "logits") else out.logits_per_image.mean()


def measure(row):
    gc.collect()
    torch.cuda.empty_cache()
    base = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    model, config = build(row)
    if row["mode"] == "train":
        model.train()
        if row["ckpt"]:
            model.gradient_checkpointing_enable()
        model = adapted(row, model)
        optimizer = optimizer_of(row, model)
        lower = TYPES.get(row["autocast"])
        for _ in range(3):
            for _ in range(row.get("accumulation", 1)):
                x = batch(row, config, model)
                if row["labels"]:
                    x["labels"] = x.get("decoder_input_ids", x["input_ids"] if "input_ids" in x else None)
                with torch.autocast("cuda", dtype=lower or torch.bfloat16, enabled=lower is not None):
                    out = model(**x)
                    loss = loss_of(out, row["labels"])
                if row.get("keep") == "loss":
                    del out
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    else:
        model.eval()
        with torch.no_grad():
            x = batch(row, config, model)
            if row["mode"].startswith("generate"):
                new = int(row["mode"][8:])
                # Where there is no GPU there is nothing to compile for.
                model.generate(**x, max_new_tokens=new, min_new_tokens=new, do_sample=False, cache_implementation=row.get("cache"), disable_compile=True)
            else:
                model(**x)
    stats = torch.cuda.memory_stats()
    return dict(
        row,
        n_params=sum(p.numel() for p in model.parameters()),
        requested_peak=stats["requested_bytes.all.peak"] - base,
        peak_allocated=stats["allocated_bytes.all.peak"] - base,
        peak_reserved=stats["reserved_bytes.all.peak"],
        torch=torch.__version__,
        transformers=transformers.__version__,
    )


def main():
    source, target = sys.argv[1:]
    # The workspaces of both threads are there before anything is measured.
    layer = torch.nn.Linear(8, 8, device="cuda")
    layer(torch.ones(8, 8, device="cuda")).sum().backward()
    del layer
    with open(source) as rows, open(target, "a") as out:
        for line in rows:
            out.write(json.dumps(measure(json.loads(line))) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
