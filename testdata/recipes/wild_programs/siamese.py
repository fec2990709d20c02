# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="siamese network, triplet loss on three calls of one encoder, Adam with amsgrad")

class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 64, 7), nn.PReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 128, 5), nn.PReLU(), nn.MaxPool2d(2), nn.Conv2d(128, 256, 3), nn.PReLU(), nn.MaxPool2d(2))
        self.fc = nn.Sequential(nn.Linear(256 * 9 * 9, 512), nn.PReLU(), nn.Linear(512, 64))
    def forward(self, x):
        return F.normalize(self.fc(self.features(x).flatten(1)))

net = Embedder().to(dev)
optimizer = torch.optim.Adam(net.parameters(), 1e-4, amsgrad=True)
triplet = nn.TripletMarginLoss(.2)
for i in rec.steps(5):
    anchor, positive, negative = (torch.rand(24, 1, 96, 96).to(dev) for _ in range(3))
    with rec.keep():
        ea, ep, en = net(anchor), net(positive), net(negative)
        loss = triplet(ea, ep, en)
    rec.mark(f"forward{i}", net, optimizer, (anchor, positive, negative))
    loss.backward(); rec.saved.clear()
    rec.mark(f"backward{i}", net, optimizer, (anchor, positive, negative))
    optimizer.step()
    rec.mark(f"step{i}", net, optimizer, (anchor, positive, negative))
    net.zero_grad()
    rec.mark(f"zero{i}", net, optimizer, (anchor, positive, negative))
