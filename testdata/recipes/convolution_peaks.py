"""Networks of convolutions of every kind, three steps of training each or as many forward passes, and their peaks. Needs torch alone.

    convolution_peaks.py OUT.jsonl NAME      # one; a process of its own
    convolution_peaks.py --list

Run on a GPU for each name it makes testdata/peaks/convolutions.jsonl.
"""

import json
import sys

import torch
from torch import nn
from torch.nn import functional


class Bottleneck(nn.Module):
    """Narrow, wide window, wide again, as in a ResNet; several groups as in a ResNeXt."""

    def __init__(self, outer, inner, stride, groups):
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(outer, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, inner, 3, stride, 1, groups=groups, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, 2 * outer, 1, bias=False), nn.BatchNorm2d(2 * outer),
        )  # fmt: skip
        self.beside = nn.Conv2d(outer, 2 * outer, 1, stride, bias=False)

    def forward(self, x):
        return functional.relu(self.path(x) + self.beside(x))


def residual(groups=1):
    blocks = [Bottleneck(64 * 2**level, 64 * 2**level, 2, groups) for level in range(4)]
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), *blocks)


class Separable(nn.Module):
    """Depth-wise windows of growing size, and products between them."""

    def __init__(self, width=96):
        super().__init__()
        layers = [nn.Conv2d(3, width, 4, 4)]
        for window in (3, 5, 7):
            layers += [nn.Conv2d(width, width, window, padding=window // 2, groups=width), nn.GELU()]
            layers += [nn.Conv2d(width, 2 * width, 1), nn.GELU(), nn.Conv2d(2 * width, width, 1)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


def vocoder(width=256):
    """Sound from spectra: transposed layers, and dilated ones between them."""
    layers = [nn.Conv1d(80, width, 7, padding=3)]
    for window, stride in ((16, 8), (16, 8), (4, 2), (4, 2)):
        layers += [nn.LeakyReLU(0.1), nn.ConvTranspose1d(width, width // 2, window, stride, (window - stride) // 2)]
        width //= 2
        for dilation in (1, 3, 5):
            layers += [nn.LeakyReLU(0.1), nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation)]
    return nn.Sequential(*layers, nn.Conv1d(width, 1, 7, padding=3))


def volumes(width=24):
    """Three dimensions, down and up again."""
    return nn.Sequential(
        nn.Conv3d(2, width, 3, padding=1), nn.ReLU(), nn.Conv3d(width, 2 * width, 3, 2, 1), nn.ReLU(),
        nn.Conv3d(2 * width, 2 * width, 3, padding=1), nn.ReLU(), nn.ConvTranspose3d(2 * width, width, 2, 2), nn.Conv3d(width, 3, 1),
    )  # fmt: skip


class Modulated(nn.Module):
    """Filters of its own for each image: as many groups as images."""

    def __init__(self):
        super().__init__()
        widths = (256, 256, 128, 64)
        self.filters = nn.ParameterList([nn.Parameter(torch.randn(b, a, 3, 3)) for a, b in zip(widths, widths[1:], strict=False)])
        self.styles = nn.ModuleList([nn.Linear(64, a) for a in widths[:-1]])
        self.start = nn.Parameter(torch.randn(1, 256, 8, 8))

    def forward(self, codes):
        images = codes.shape[0]
        x = self.start.expand(images, -1, -1, -1)
        for filters, style in zip(self.filters, self.styles, strict=True):
            x = functional.interpolate(x, scale_factor=2)
            weights = (filters[None] * style(codes)[:, None, :, None, None]).flatten(0, 1)
            x = functional.conv2d(x.reshape(1, -1, *x.shape[2:]), weights, padding=1, groups=images).reshape(images, -1, *x.shape[2:])
        return x


def decoder(width=128):
    """Large images from small codes, as the end of a diffusion."""
    layers = [nn.Conv2d(4, 4 * width, 3, padding=1)]
    for a, b in ((4, 4), (4, 2), (2, 1)):
        layers += [nn.Conv2d(a * width, b * width, 3, padding=1), nn.SiLU(), nn.Upsample(scale_factor=2)]
        layers += [nn.Conv2d(b * width, b * width, 3, padding=1), nn.SiLU()]
    return nn.Sequential(*layers, nn.Conv2d(width, 3, 3, padding=1))


IMAGES = (24, 3, 192, 192)
# Network, shape of its input, options.
RUNS = {
    "residual": (residual, IMAGES, {}),
    "residual, no TF32": (residual, IMAGES, {"tf32": False}),
    "residual, bfloat16, channels last": (residual, IMAGES, {"dtype": torch.bfloat16, "channels_last": True}),
    "residual, float16": (residual, IMAGES, {"dtype": torch.float16}),
    "residual in groups": (lambda: residual(32), IMAGES, {}),
    "residual, benchmark": (residual, IMAGES, {"benchmark": True}),
    "separable": (Separable, IMAGES, {}),
    "separable, bfloat16, channels last": (Separable, IMAGES, {"dtype": torch.bfloat16, "channels_last": True}),
    "vocoder": (vocoder, (8, 80, 64), {}),
    "volumes": (volumes, (2, 2, 48, 48, 48), {}),
    "volumes, float16": (volumes, (2, 2, 48, 48, 48), {"dtype": torch.float16}),
    "modulated": (Modulated, (16, 64), {}),
    "decoder, inference": (decoder, (1, 4, 96, 96), {"inference": True}),
    "decoder, inference, float16": (decoder, (1, 4, 128, 128), {"inference": True, "dtype": torch.float16}),
}


def run(make, shape, *, dtype=None, channels_last=False, tf32=True, benchmark=False, inference=False):
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = tf32, benchmark
    model, inputs = make().cuda(), torch.randn(shape, device="cuda")
    if channels_last:
        model, inputs = model.to(memory_format=torch.channels_last), inputs.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    for _ in range(3):
        with torch.set_grad_enabled(not inference), torch.autocast("cuda", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            out = model(inputs)
        if not inference:
            out.float().mean().backward()
            optimizer.step()
            optimizer.zero_grad()


def main():
    if sys.argv[1:] == ["--list"]:
        print(*RUNS, sep="\n")
        return
    make, shape, options = RUNS[sys.argv[2]]
    run(make, shape, **options)
    stats = torch.cuda.memory_stats()
    peaks = {measure: stats[f"{measure}_bytes.all.peak"] for measure in ("requested", "allocated", "reserved")}
    with open(sys.argv[1], "a") as out:
        out.write(json.dumps({"program": sys.argv[2], **peaks}) + "\n")


if __name__ == "__main__":
    main()
