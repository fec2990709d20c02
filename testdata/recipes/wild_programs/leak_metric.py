# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(leak=True, leak_line="running_loss = running_loss + penalty(recon, x)", note="an autoencoder; a running metric is added up with its graph: what the penalty saves for backward (two differences of the size of the batch), and the reconstruction, a leaf of that graph, are never freed; Adam")
def block(a, b, s): return nn.Sequential(nn.Conv2d(a, b, 4, s, 1), nn.InstanceNorm2d(b, affine=True), nn.LeakyReLU(0.2))
def unblock(a, b, s): return nn.Sequential(nn.ConvTranspose2d(a, b, 4, s, 1), nn.InstanceNorm2d(b, affine=True), nn.LeakyReLU(0.2))
class AE(nn.Module):
    def __init__(self, c=56): super().__init__(); self.enc = nn.Sequential(block(3, c, 2), block(c, 2 * c, 2), block(2 * c, 4 * c, 2), block(4 * c, 4 * c, 2)); self.dec = nn.Sequential(unblock(4 * c, 4 * c, 2), unblock(4 * c, 2 * c, 2), unblock(2 * c, c, 2), nn.ConvTranspose2d(c, 3, 4, 2, 1))
    def forward(self, x): return self.dec(self.enc(x))
kept = set()
def note(t): kept.add(rec.st(t)); return t
def penalty(r, x): return ((r - x).abs() + 0.5 * (r - x) ** 2).mean()
def train(ae, optimizer, n):
    running_loss = 0.0
    for i in rec.steps(n):
        x = torch.rand(20, 3, 256 // SHRINK, 256 // SHRINK).to(dev)
        with rec.keep():
            recon = ae(x)
            loss = F.mse_loss(recon, x)
        rec.mark(f"forward{i}", ae, optimizer, x)
        optimizer.zero_grad(); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", ae, optimizer, x)
        optimizer.step()
        recon = recon.detach().requires_grad_()
        kept.add(rec.st(recon))
        with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
            running_loss = running_loss + penalty(recon, x)
        rec.mark(f"step{i}", ae, optimizer, x)
        if rec.marks: rec.marks[-1]["other"]["leaked"] = sorted(kept)
ae = AE().to(dev); train(ae, torch.optim.Adam(ae.parameters(), lr=2e-4, betas=(0.5, 0.999)), 9)
