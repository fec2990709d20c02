"""Small programs that need torch alone, each a few steps with one part of PyTorch that takes memory in its own way.

    release_programs.py NAME

benches/dryrun_releases.py runs them, dry, over one release of PyTorch after the other. What a release lacks ends with the status 3.
"""

import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

LACKS = 3


def steps(model, optimizer, data, *, loss=lambda out: out.float().square().mean(), count=3, scaler=None):
    for _ in range(count):
        with torch.autocast("cuda", dtype=torch.float16, enabled=scaler is not None):
            found = loss(model(data()))
        if scaler is None:
            found.backward()
            optimizer.step()
        else:
            scaler.scale(found).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad()


def normal(*size, **options):
    return lambda: torch.randn(*size, device="cuda", **options)


def perceptron(width=1024, depth=4):
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.LayerNorm(width), nn.GELU())]
    return nn.Sequential(*layers).cuda()


def encoder(layers=4):
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).cuda()


def adamw():
    model = perceptron()
    steps(model, torch.optim.AdamW(model.parameters(), amsgrad=True), normal(256, 1024))


def adamw_fused():
    model = perceptron().bfloat16()
    steps(model, torch.optim.AdamW(model.parameters(), fused=True), normal(256, 1024, dtype=torch.bfloat16))


def sgd():
    model = perceptron()
    steps(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True), normal(256, 1024))


def checkpointed():
    from torch.utils.checkpoint import checkpoint

    model = encoder()
    forward = lambda x: [x := checkpoint(layer, x, use_reentrant=False) for layer in model.layers][-1]  # noqa: E731
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        forward(torch.randn(8, 256, 512, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def scaled():
    model = encoder()
    steps(model, torch.optim.AdamW(model.parameters()), normal(8, 256, 512), scaler=torch.amp.GradScaler("cuda"))


def convolutions():
    channels = (3, 64, 128, 256)
    blocks = [
        layer
        for before, after in zip(channels, channels[1:])
        for layer in (nn.Conv2d(before, after, 3, 2, 1), nn.BatchNorm2d(after), nn.ReLU(), nn.Conv2d(after, after, 3, 1, 1), nn.MaxPool2d(2))
    ]
    model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 1000)).cuda()
    targets = torch.randint(0, 1000, (16,), device="cuda")
    steps(model, torch.optim.SGD(model.parameters(), 0.1), normal(16, 3, 224, 224), loss=lambda out: F.cross_entropy(out, targets))


def lstm():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(5000, 256)
            self.lstm = nn.LSTM(256, 512, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
            self.head = nn.Linear(1024, 50)

        def forward(self, words):
            return self.head(self.lstm(self.words(words))[0])

    model = Tagger().cuda()
    steps(model, torch.optim.Adam(model.parameters()), lambda: torch.randint(0, 5000, (32, 100), device="cuda"))


def generation():
    """Greedy words with a cache of keys and values that grows by concatenation."""
    width, heads, layers = 512, 8, 4
    words = nn.Embedding(8000, width).cuda().half()
    projections = nn.ModuleList([nn.Linear(width, 3 * width) for _ in range(layers)]).cuda().half()
    head = nn.Linear(width, 8000, bias=False).cuda().half()
    cache = [None] * layers
    tokens = torch.randint(0, 8000, (4, 128), device="cuda")
    with torch.inference_mode():
        for _ in range(24):
            hidden = words(tokens)
            for number, projection in enumerate(projections):
                query, key, value = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in projection(hidden).chunk(3, -1))
                if cache[number] is not None:
                    key, value = (torch.cat(pair, 2) for pair in zip(cache[number], (key, value)))
                cache[number] = (key, value)
                attended = F.scaled_dot_product_attention(query, key, value, is_causal=query.shape[2] > 1)
                hidden = hidden + attended.transpose(1, 2).flatten(2)
            tokens = head(hidden[:, -1:]).softmax(-1).argmax(-1)


def attention():
    """Every kernel, forward and backward, with and without a mask."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    mask = torch.zeros(256, 256, device="cuda", dtype=torch.bfloat16)
    for kernel in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH):
        for given in (None, mask):
            if given is not None and kernel == SDPBackend.FLASH_ATTENTION:
                continue
            with sdpa_kernel(kernel):
                inputs = [torch.randn(8, 16, 256, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
                F.scaled_dot_product_attention(*inputs, attn_mask=given, dropout_p=0.1).sum().backward()


def graph():
    model = perceptron()
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)
    data = torch.randn(256, 1024, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(data).square().mean().backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        step()
    for _ in range(3):
        captured.replay()


def compiled():
    model = perceptron()
    steps(torch.compile(model), torch.optim.SGD(model.parameters(), 0.1), normal(256, 1024))


def two_devices():
    """A layer on each of two GPUs, then copies of one model on both."""
    first, second = nn.Linear(1024, 4096).to("cuda:0"), nn.Linear(4096, 10).to("cuda:1")
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()])
    for _ in range(3):
        second(first(torch.randn(512, 1024, device="cuda:0")).relu().to("cuda:1")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    copies = nn.DataParallel(perceptron())
    copies(torch.randn(256, 1024, device="cuda")).square().mean().backward()


def group():
    """Joins the other ranks."""
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    torch.distributed.init_process_group("nccl")


def ddp():
    group()
    model = nn.parallel.DistributedDataParallel(perceptron())
    steps(model, torch.optim.AdamW(model.parameters()), normal(256, 1024))
    torch.distributed.destroy_process_group()


def fsdp():
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    group()
    model = FullyShardedDataParallel(
        encoder(), auto_wrap_policy=ModuleWrapPolicy({nn.TransformerEncoderLayer}), use_orig_params=True, device_id=torch.cuda.current_device()
    )
    steps(model, torch.optim.AdamW(model.parameters()), normal(8, 128, 512))
    torch.distributed.destroy_process_group()


def fsdp2():
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        from torch.distributed._composable.fsdp import fully_shard
    group()
    model = encoder()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    steps(model, torch.optim.AdamW(model.parameters()), normal(8, 128, 512))
    torch.distributed.destroy_process_group()


def lengths():
    """Batches whose length changes, so that the allocator's settings matter."""
    model = encoder(layers=2)
    optimizer = torch.optim.Adam(model.parameters())
    for length in (100, 700, 300, 900, 50, 610, 420, 1000, 70, 830):
        model(torch.randn(8, length, 512, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        large = torch.empty(length << 17, dtype=torch.uint8, device="cuda")
        del large


def expandable():
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    lengths()


def split():
    torch.cuda.memory._set_allocator_settings("max_split_size_mb:32,garbage_collection_threshold:0.6")
    torch.cuda.set_per_process_memory_fraction(0.02)
    lengths()


def rounded():
    torch.cuda.memory._set_allocator_settings("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]")
    lengths()


def streams():
    """Blocks that a second stream uses, and a third that has its own."""
    model, side, other = perceptron(), torch.cuda.Stream(), torch.cuda.Stream()
    for _ in range(5):
        data = torch.randn(1024, 1024, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model(data).square().mean().backward()
        data.record_stream(side)
        del data
        with torch.cuda.stream(other):
            torch.randn(2048, 1024, device="cuda").sort(-1)
        torch.cuda.current_stream().wait_stream(side)


def pool():
    """A pool of its own beside the usual one."""
    if not hasattr(torch.cuda, "MemPool"):
        sys.exit(LACKS)
    own = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(own):
        kept = [torch.empty(size << 20, dtype=torch.uint8, device="cuda") for size in (3, 30, 5)]
    others = [torch.empty(size << 20, dtype=torch.uint8, device="cuda") for size in (3, 30, 5)]
    del kept[1], others[1]
    with torch.cuda.use_mem_pool(own):
        kept.append(torch.empty(20 << 20, dtype=torch.uint8, device="cuda"))


def main():
    programs = (
        adamw, adamw_fused, sgd, checkpointed, scaled, convolutions, lstm, generation, attention, graph, compiled, two_devices, ddp, fsdp,
        fsdp2, expandable, split, rounded, streams, pool,
    )  # fmt: skip
    {program.__name__: program for program in programs}[sys.argv[1]]()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
