"""Programs that use `torch.compile`, each a few steps of training or inference, and their peaks.

    compiled_programs.py OUT.jsonl NAME      # one; a process of its own, for compiled code stays
    compiled_programs.py --list

Run on a GPU for each name it makes testdata/peaks/compiled.jsonl; benches/dryrun_compiled.py runs it with none and compares. Needs
torch with Triton, a C compiler, transformers and torchvision.
"""

import json
import sys

import torch

BF16 = torch.bfloat16
LLAMA = {
    "hidden_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 2816,
    "vocab_size": 32003, "max_position_embeddings": 2048,
}  # fmt: skip


def llama():
    import transformers

    with torch.device("cuda"):
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA))


def gpt2():
    import transformers

    with torch.device("cuda"):
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=6))


def language(model, dtype, batch, length, *, fused=True, mode=None, autocast=None):
    model = torch.compile(model().to(dtype).train(), mode=mode)
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused, foreach=not fused)
    for _ in range(4):
        words = torch.randint(0, 1000, (batch, length), device="cuda")
        with torch.autocast("cuda", dtype=autocast, enabled=autocast is not None):
            loss = model(input_ids=words, labels=words, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def images(name, batch, *, dtype=None, channels_last=False):
    import torchvision

    layout = torch.channels_last if channels_last else torch.contiguous_format
    model = torch.compile(getattr(torchvision.models, name)().cuda().to(memory_format=layout).train())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(4):
        pictures = torch.randn(batch, 3, 224, 224, device="cuda").to(memory_format=layout)
        with torch.autocast("cuda", dtype=dtype, enabled=dtype is not None):
            loss = torch.nn.functional.cross_entropy(model(pictures), torch.randint(0, 1000, (batch,), device="cuda"))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def layers(mode=None):
    """Linear layers whose sizes are odd."""
    parts = [part for _ in range(6) for part in (torch.nn.Linear(2047, 2047), torch.nn.GELU(), torch.nn.LayerNorm(2047))]
    model = torch.nn.Sequential(*parts).cuda().bfloat16()
    compiled = torch.compile(model, mode=mode)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(5):
        compiled(torch.randn(512, 2047, device="cuda", dtype=BF16)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def inference():
    """Lengths that change: compiled again, then for any."""
    model = torch.compile(llama().bfloat16().eval())
    with torch.inference_mode():
        for length in (128, 128, 256, 333):
            model(input_ids=torch.randint(0, 1000, (8, length), device="cuda"), use_cache=False)


def breaks():
    """Python in between that cannot be compiled."""
    linear = torch.nn.Linear(4096, 4096).cuda()

    @torch.compile
    def compiled(x):
        y = linear(x).relu()
        if y.sum().item() >= 0:
            y = y * 2
        torch._dynamo.graph_break()
        return (y @ linear.weight).mean()

    for _ in range(4):
        compiled(torch.randn(1024, 4096, device="cuda")).backward()
        linear.zero_grad()


PROGRAMS = {
    "Llama, float32": lambda: language(llama, torch.float32, 4, 512),
    "Llama, bfloat16, foreach": lambda: language(llama, BF16, 4, 512, fused=False),
    "GPT-2, autocast": lambda: language(gpt2, torch.float32, 4, 512, autocast=BF16),
    "GPT-2, bfloat16, reduce-overhead": lambda: language(gpt2, BF16, 4, 256, mode="reduce-overhead"),
    "ResNet-18": lambda: images("resnet18", 32),
    "ResNet-50, autocast, channels last": lambda: images("resnet50", 32, dtype=BF16, channels_last=True),
    "ViT-B/16, autocast": lambda: images("vit_b_16", 16, dtype=BF16),
    "odd linear layers": layers,
    "odd linear layers, reduce-overhead": lambda: layers("reduce-overhead"),
    "odd linear layers, max-autotune-no-cudagraphs": lambda: layers("max-autotune-no-cudagraphs"),
    "Llama, inference": inference,
    "graph breaks": breaks,
}


def main():
    if sys.argv[1] == "--list":
        print("\n".join(PROGRAMS))
        return
    out, name = sys.argv[1:]
    PROGRAMS[name]()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    peaks = {measure: stats[f"{measure}_bytes.all.peak"] for measure in ("requested", "allocated", "reserved")}
    with open(out, "a") as file:
        file.write(json.dumps({"program": name, **peaks}) + "\n")


if __name__ == "__main__":
    main()
