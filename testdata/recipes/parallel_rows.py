"""Measures the peaks of set-ups over several ranks: `parallel_rows.py IN.jsonl OUT.jsonl`, a set-up a line as in
`testdata/estimates/nullgpu_parallel.jsonl`.

Runs without a GPU, one rank of many (`highwater dryrun --gpu h200 --imagine-ranks 4 --rank 0 parallel_rows.py …`): of the set-ups,
those of that many ranks and that rank. With random weights; no rank makes a whole model. A set-up that fails is left out, with its
error on standard error. Set-ups that OUT has already are not run again.

`ddp`, `fsdp`, `tp`, `pp` are numbers of ranks. `ddp`: `DistributedDataParallel`. `fsdp`: `fully_shard` of each layer and of the model; under
`autocast` with the `MixedPrecisionPolicy` of accelerate. `tp`: the plan of transformers. `pp`: stages of `torch.distributed.pipelining`, with
`schedule` and `rank`, each divided between `tp` ranks; `accumulation` is the number of micro-batches. `zero`: the stage of DeepSpeed.
"""

import gc
import json
import os
import sys
import traceback

import torch
import torch.distributed as dist
import transformers

from estimate_rows import TYPES, batch, build, loss_of, optimizer_of

MEASURED = ("n_params", "requested_peak", "peak_allocated", "peak_reserved", "torch", "transformers")


def world_of(row):
    sizes = [row.get(kind, 1) for kind in ("ddp", "fsdp", "tp", "pp")]
    return sizes[0] * sizes[1] * sizes[2] * sizes[3]


def layers_of(model):
    if hasattr(model, "transformer"):
        return model.transformer.h
    if hasattr(model, "bert"):
        return model.bert.encoder.layer
    return model.model.layers


def on_card(model):
    model.to_empty(device="cuda")
    model.tie_weights()
    return model


def fully_sharded(row, model, mesh):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    lower = TYPES.get(row["autocast"])
    more = {} if mesh is None else {"mesh": mesh}
    if lower is not None:
        more["mp_policy"] = MixedPrecisionPolicy(param_dtype=lower, reduce_dtype=lower, output_dtype=lower)
    for layer in layers_of(model):
        fully_shard(layer, **more)
    fully_shard(model, **more)
    return model


def mesh_of(names, sizes):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cuda", sizes, mesh_dim_names=names)


def tensor_parallel(model, mesh):
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism

    apply_tensor_parallelism(model, mesh)
    model.tie_weights()


def stepping_of(row, model):
    optimizer = optimizer_of(row, model)
    if row.get("tp", 1) > 1:
        # Only some parameters are `DTensor`s: transformers' Trainer steps through them one by one.
        for group in optimizer.param_groups:
            group.update(foreach=False, fused=False)
    return optimizer


def placed(row, model):
    """The model on the card, or the part of it that this rank has."""
    tensor, data = row.get("tp", 1), row.get("fsdp", 1)
    mesh = None
    if tensor > 1:
        mesh = mesh_of(("data", "tensor"), (data, tensor))
        tensor_parallel(model, mesh["tensor"])
        mesh = mesh["data"]
    if data > 1:
        model = fully_sharded(row, model, mesh)
    model = on_card(model)
    if row.get("ddp", 1) > 1:
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])
    return model


def parameters_of(model):
    return sum(p.numel() for p in model.parameters())


def train(row, model, config):
    plain = model.module if hasattr(model, "module") else model
    plain.train()
    if row["ckpt"]:
        plain.gradient_checkpointing_enable()
    optimizer = stepping_of(row, model)
    lower = TYPES.get(row["autocast"])
    for _ in range(3):
        for _ in range(row.get("accumulation", 1)):
            x = batch(row, config, model)
            if row["labels"]:
                x["labels"] = x["input_ids"]
            with torch.autocast("cuda", dtype=lower or torch.bfloat16, enabled=lower is not None):
                out = model(**x)
                loss = loss_of(out, row["labels"])
            if row.get("keep") == "loss":
                del out
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()


class Stage(torch.nn.Module):
    """The layers of a stage; the first looks up tokens, the last has the norm and the head."""

    def __init__(self, model, stage, stages):
        super().__init__()
        layers = model.model.layers
        count = -(-len(layers) // stages)
        model.model.layers = layers[stage * count : (stage + 1) * count]
        self.is_first, self.is_last = stage == 0, stage == stages - 1
        if not self.is_first:
            model.model.embed_tokens = None
        if not self.is_last:
            model.model.norm = torch.nn.Identity()
        self.body, self.head = model.model, model.lm_head if self.is_last else None

    def forward(self, x):
        given = {"input_ids": x} if self.is_first else {"inputs_embeds": x}
        x = self.body(**given, use_cache=False).last_hidden_state
        return self.head(x) if self.is_last else x


def train_stage(row, model, config):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    tensor, stages = row.get("tp", 1), row["pp"]
    count, rank, group = row.get("accumulation", 1), row["rank"] // tensor, None
    of_loss = model.loss_function
    if tensor > 1:
        mesh = mesh_of(("stage", "tensor"), (stages, tensor))
        tensor_parallel(model, mesh["tensor"])
        group = mesh["stage"].get_group()
    part = Stage(model, rank, stages).to_empty(device="cuda").train()
    if row["ckpt"]:
        part.body.gradient_checkpointing_enable()
    hidden = torch.empty(row["b"], row["s"], config.hidden_size, dtype=TYPES[row["dtype"]], device="meta")
    ids = torch.empty(row["b"], row["s"], dtype=torch.int64, device="meta")
    logits = torch.empty(row["b"], row["s"], config.vocab_size, dtype=TYPES[row["dtype"]], device="meta")
    stage = PipelineStage(
        part, rank, stages, torch.device("cuda", torch.cuda.current_device()), input_args=ids if part.is_first else hidden,
        output_args=logits if part.is_last else hidden, group=group,
    )
    kinds = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}
    schedule = kinds[row["schedule"]](stage, count, loss_fn=lambda out, target: of_loss(out, target, vocab_size=config.vocab_size))
    optimizer = stepping_of(row, part)
    for _ in range(3):
        x = torch.randint(0, 100, (count * row["b"], row["s"]), device="cuda")
        given = [x] if part.is_first else []
        schedule.step(*given, **({"target": x} if part.is_last else {}), return_outputs=row.get("keep") != "loss")
        optimizer.step()
        optimizer.zero_grad()


def train_zero(row, model, config):
    import deepspeed

    kinds = {"float32": {}, "bfloat16": {"bf16": {"enabled": True}}}
    settings = {
        "train_micro_batch_size_per_gpu": row["b"],
        "gradient_accumulation_steps": row.get("accumulation", 1),
        "zero_optimization": {"stage": row["zero"]},
        "zero_allow_untested_optimizer": True,
        **kinds[row["dtype"]],
    }
    if row["ckpt"]:
        model.gradient_checkpointing_enable()
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer_of(row, model), config=settings)
    for _ in range(3 * row.get("accumulation", 1)):
        x = batch(row, config, model)
        out = engine(**x, labels=x["input_ids"])
        engine.backward(out.loss)
        engine.step()


def measure(row):
    torch.cuda.empty_cache()
    base = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    model, config = build(row, "meta")
    parameters = parameters_of(model)
    if row.get("pp", 1) > 1:
        train_stage(row, model, config)
    elif row.get("zero"):
        train_zero(row, on_card(model), config)
    else:
        train(row, placed(row, model), config)
    stats = torch.cuda.memory_stats()
    return dict(
        row,
        n_params=parameters,
        requested_peak=stats["requested_bytes.all.peak"] - base,
        peak_allocated=stats["allocated_bytes.all.peak"] - base,
        peak_reserved=stats["reserved_bytes.all.peak"],
        torch=torch.__version__,
        transformers=transformers.__version__,
    )


def set_up(row):
    return {name: row[name] for name in row if name not in MEASURED}


def main():
    source, target = sys.argv[1:]
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group("nccl")
    world, rank = dist.get_world_size(), dist.get_rank()
    # The workspaces of both threads are there before anything is measured.
    layer = torch.nn.Linear(8, 8, device="cuda")
    layer(torch.ones(8, 8, device="cuda")).sum().backward()
    del layer
    before = torch.cuda.memory_allocated()
    with open(source) as rows:
        rows = [json.loads(line) for line in rows]
    with open(target, "a+") as out:
        out.seek(0)
        done = [set_up(json.loads(line)) for line in out]
        for row in rows:
            if (world_of(row), row.get("rank", 0)) != (world, rank) or row in done:
                continue
            gc.collect()
            if torch.cuda.memory_allocated() > before:
                print("a set-up is not all gone: run it again for the next", file=sys.stderr)
                break
            try:
                out.write(json.dumps(measure(row)) + "\n")
            except Exception:
                traceback.print_exc()
                print("left out:", json.dumps(row), file=sys.stderr)
            out.flush()


if __name__ == "__main__":
    main()
