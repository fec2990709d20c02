"""Convolutional networks and others for images, four steps of training each, and their peaks.

    network_peaks.py OUT.jsonl NAME      # one; a process of its own
    network_peaks.py --list

Run on a GPU for each name it makes testdata/peaks/networks.jsonl; benches/dryrun_networks.py runs it with none and compares. Needs
torch and torchvision.
"""

import json
import sys

import torch
from torch import nn
from torchvision import models


class Unet(nn.Module):
    """Down by halves and up again, with what was there on the way down put beside it."""

    def __init__(self, channels, levels=4, dimensions=2, inputs=3):
        super().__init__()
        convolution, transposed, normalization = (
            getattr(nn, f"{kind}{dimensions}d") for kind in ("Conv", "ConvTranspose", "BatchNorm")
        )

        def block(a, b):
            layers = (convolution(a, b, 3, padding=1), normalization(b), nn.ReLU())
            return nn.Sequential(*layers, convolution(b, b, 3, padding=1), normalization(b), nn.ReLU())

        widths = [channels * 2**level for level in range(levels)]
        self.down = nn.ModuleList([block(a, b) for a, b in zip([inputs, *widths], widths, strict=False)])
        pairs = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList([transposed(a, b, 2, stride=2) for a, b in pairs])
        self.beside = nn.ModuleList([block(a, b) for a, b in pairs])
        self.out = convolution(channels, 2, 1)
        self.pool = getattr(nn, f"MaxPool{dimensions}d")(2)

    def forward(self, x):
        kept = []
        for level, down in enumerate(self.down):
            x = down(x)
            kept.append(x)
            if level < len(self.down) - 1:
                x = self.pool(x)
        kept.pop()
        for up, beside in zip(self.up, self.beside, strict=True):
            x = beside(torch.cat([up(x), kept.pop()], 1))
        return self.out(x)


def dcgan(width=64):
    """What makes a picture, and the first half of what judges it."""
    widths = [100, width * 8, width * 4, width * 2, width, 3]
    makes = [nn.ConvTranspose2d(a, b, 4, 1 if a == 100 else 2, 0 if a == 100 else 1, bias=False) for a, b in zip(widths, widths[1:], strict=False)]
    judges = [nn.Conv2d(a, b, 4, 2, 1) for a, b in ((3, width), (width, width * 2), (width * 2, width * 4))]
    return nn.Sequential(*makes, *judges)


def tcn(width=128):
    """A network for sound: dilated convolutions of one dimension."""
    front = [nn.Conv1d(1, 512, 10, 5), nn.Conv1d(512, 512, 3, 2), nn.Conv1d(512, 512, 3, 2), nn.Conv1d(512, 512, 2, 2), nn.Conv1d(512, width, 1)]
    dilated = [nn.Conv1d(width, width, 3, padding=2**i, dilation=2**i) for i in range(6)]
    return nn.Sequential(*front, *dilated, nn.Conv1d(width, width, 15, padding=7, groups=16))


OWN = {
    "U-Net 32": lambda: Unet(32),
    "U-Net 48": lambda: Unet(48),
    "U-Net 64": lambda: Unet(64, 5),
    "unet3d": lambda: Unet(16, 4, 3, 1),
    "dcgan": dcgan,
    "tcn": tcn,
    "googlenet": lambda: models.googlenet(init_weights=False),
    "inception_v3": lambda: models.inception_v3(init_weights=False),
    "deeplabv3": lambda: models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None),
    "deeplabv3_mobilenet_v3": lambda: models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None),
    "lraspp": lambda: models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None),
    "r3d_18": models.video.r3d_18,
}
SHAPES = {
    "unet3d": lambda b, s: (b, 1, s, s, s),
    "r3d_18": lambda b, s: (b, 3, 16, s, s),
    "dcgan": lambda b, s: (b, 100, 1, 1),
    "tcn": lambda b, s: (b, 1, s),
}
BF16, F16 = {"dtype": "bfloat16"}, {"dtype": "float16"}
LAST, SGD, BENCHMARK = {"channels_last": True}, {"optimizer": "SGD"}, {"benchmark": True}
# Network, batch, side of the picture (or length of the sound), options.
RUNS = [
    ("resnet50", 32, 224, SGD),
    ("resnet50", 64, 224, BF16, LAST, SGD),
    ("resnet50", 64, 224, BF16, SGD),
    ("resnet18", 128, 224, SGD),
    ("vgg16", 16, 224, SGD),
    ("vgg19", 32, 224, SGD),
    ("densenet121", 32, 224, SGD),
    ("efficientnet_b0", 32, 224),
    ("efficientnet_b0", 64, 224, BF16, LAST),
    ("mobilenet_v2", 64, 224, SGD),
    ("convnext_tiny", 32, 224),
    ("convnext_tiny", 32, 224, BF16),
    ("regnet_y_3_2gf", 32, 224, SGD),
    ("U-Net 32", 8, 256),
    ("U-Net 48", 6, 384, F16),
    ("unet3d", 2, 64),
    ("deeplabv3", 4, 512, SGD),
    ("r3d_18", 4, 112, SGD),
    ("dcgan", 128, 1),
    ("tcn", 8, 16000),
    ("resnext101_32x8d", 16, 224, SGD),
    ("densenet169", 16, 256, SGD),
    ("wide_resnet50_2", 32, 224, F16, SGD),
    ("mobilenet_v3_large", 128, 224, BF16, LAST),
    ("googlenet", 64, 224, SGD),
    ("U-Net 64", 4, 512),
    ("efficientnet_v2_s", 32, 300, BF16),
    ("resnet34", 48, 160, SGD),
    ("convnext_small", 16, 256, BF16, LAST),
    ("resnet152", 16, 224, BF16, LAST, SGD),
    ("vgg11", 64, 224, BF16, SGD),
    ("resnet50", 32, 224, {"tf32": False}, SGD),
    ("alexnet", 128, 224, SGD),
    ("inception_v3", 16, 299, SGD),
    ("shufflenet_v2_x1_0", 64, 224, SGD),
    ("vit_b_16", 32, 224),
    ("vit_b_16", 64, 224, BF16),
    ("vit_b_32", 64, 224),
    ("vit_h_14", 4, 224, BF16),
    ("swin_t", 32, 224),
    ("swin_v2_s", 16, 256, BF16),
    ("convnext_base", 16, 224),
    ("convnext_base", 24, 224, BF16, LAST),
    ("maxvit_t", 16, 224),
    ("resnext50_32x4d", 32, 224),
    ("regnet_y_16gf", 16, 224, BF16),
    ("densenet201", 16, 224, BF16),
    ("efficientnet_b4", 8, 380),
    ("mobilenet_v3_small", 128, 224),
    ("lraspp", 8, 512),
    ("deeplabv3_mobilenet_v3", 8, 512),
    ("resnet101", 24, 224),
    ("vgg13", 24, 224),
    ("U-Net 48", 4, 320),
    ("resnet34", 64, 224, BF16, LAST),
    ("squeezenet1_0", 64, 224),
    ("dcgan", 64, 1, BF16),
    ("resnet50", 32, 224, SGD, BENCHMARK),
    ("resnet50", 64, 224, BF16, LAST, SGD, BENCHMARK),
    ("vgg16", 16, 224, SGD, BENCHMARK),
    ("resnet50", 32, 224, BENCHMARK),
    ("resnet18", 64, 224, BENCHMARK),
    ("efficientnet_b0", 64, 224, BF16, LAST, BENCHMARK),
    ("densenet121", 32, 224, BENCHMARK),
    ("U-Net 32", 8, 256, BENCHMARK),
    ("convnext_tiny", 32, 224, BF16, BENCHMARK),
    ("vit_b_16", 32, 224, BENCHMARK),
    ("mobilenet_v3_large", 64, 224, BENCHMARK),
    ("dcgan", 128, 1, BENCHMARK),
    ("resnet34", 32, 224, BENCHMARK),
    ("vgg19", 16, 224, BENCHMARK),
    ("U-Net 48", 4, 320, F16, BENCHMARK),
    ("regnet_y_3_2gf", 16, 224, BENCHMARK),
    ("googlenet", 32, 224, BENCHMARK),
    ("resnet152", 8, 224, BF16, LAST, BENCHMARK),
]  # fmt: skip


def named(network, batch, side, *options):
    given = {name: value for option in options for name, value in option.items()}
    words = [f"{network}, batch {batch} of {side}"]
    words += [given["dtype"]] if "dtype" in given else []
    words += ["channels last"] if "channels_last" in given else []
    words += ["no TF32"] if "tf32" in given else []
    words += ["SGD"] if "optimizer" in given else []
    words += ["benchmark"] if "benchmark" in given else []
    return ", ".join(words), given


def train(network, batch, side, *, dtype=None, channels_last=False, optimizer="AdamW", benchmark=False, tf32=True):
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = tf32, benchmark
    model = OWN.get(network, lambda: getattr(models, network)())().cuda().train()
    inputs = torch.randn(SHAPES.get(network, lambda b, s: (b, 3, s, s))(batch, side), device="cuda")
    if channels_last:
        model, inputs = model.to(memory_format=torch.channels_last), inputs.to(memory_format=torch.channels_last)
    kind, options = (torch.optim.SGD, {"momentum": 0.9}) if optimizer == "SGD" else (torch.optim.AdamW, {})
    steps = kind(model.parameters(), lr=1e-3, **options)
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == "float16")
    for _ in range(4):
        with torch.autocast("cuda", dtype=getattr(torch, dtype or "bfloat16"), enabled=dtype is not None):
            out = model(inputs)
            out = out["out"] if isinstance(out, dict) else out[0] if isinstance(out, tuple) else out
            loss = out.float().mean()
        scaler.scale(loss).backward()
        scaler.step(steps)
        scaler.update()
        steps.zero_grad()


def main():
    runs = {}
    for network, batch, side, *options in RUNS:
        name, given = named(network, batch, side, *options)
        runs[name] = (network, batch, side, given)
    if sys.argv[1:] == ["--list"]:
        print(*runs, sep="\n")
        return
    network, batch, side, given = runs[sys.argv[2]]
    train(network, batch, side, **given)
    stats = torch.cuda.memory_stats()
    peaks = {measure: stats[f"{measure}_bytes.all.peak"] for measure in ("requested", "allocated", "reserved")}
    with open(sys.argv[1], "w") as out:
        out.write(json.dumps({"program": sys.argv[2], **peaks}) + "\n")


if __name__ == "__main__":
    main()
