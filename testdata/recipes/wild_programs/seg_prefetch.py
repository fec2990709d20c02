# start late state twice one
import queue, threading, torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="segmentation; a thread moves the next batch to the GPU on its own stream (a queue of two), SGD with Nesterov momentum")
class Prefetcher:
    def __init__(self, n):
        self.q, self.stream, self.n = queue.Queue(maxsize=2), torch.cuda.Stream(), n
        threading.Thread(target=self.work, daemon=True).start()
    def work(self):
        while True:
            img, mask = torch.rand(6, 3, 160, 160), torch.randint(12, (6, 160, 160))
            with torch.cuda.stream(self.stream):
                item = (img.pin_memory().to(dev, non_blocking=True), mask.pin_memory().to(dev, non_blocking=True))
            self.stream.synchronize()
            self.q.put(item)
    def next(self):
        item = self.q.get()
        for t in item: t.record_stream(torch.cuda.current_stream())
        return item
class Double(nn.Sequential):
    def __init__(self, a, b): super().__init__(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True), nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True))
class Seg(nn.Module):
    def __init__(self, w=32, classes=12):
        super().__init__()
        self.d1, self.d2, self.d3, self.d4 = Double(3, w), Double(w, 2 * w), Double(2 * w, 4 * w), Double(4 * w, 8 * w)
        self.u3, self.u2, self.u1 = nn.ConvTranspose2d(8 * w, 4 * w, 2, 2), nn.ConvTranspose2d(4 * w, 2 * w, 2, 2), nn.ConvTranspose2d(2 * w, w, 2, 2)
        self.c3, self.c2, self.c1, self.out = Double(8 * w, 4 * w), Double(4 * w, 2 * w), Double(2 * w, w), nn.Conv2d(w, classes, 1)
    def forward(self, x):
        a = self.d1(x); b = self.d2(F.max_pool2d(a, 2)); c = self.d3(F.max_pool2d(b, 2)); d = self.d4(F.max_pool2d(c, 2))
        x = self.c3(torch.cat([self.u3(d), c], 1)); x = self.c2(torch.cat([self.u2(x), b], 1)); x = self.c1(torch.cat([self.u1(x), a], 1))
        return self.out(x)
net = Seg().to(dev)
opt = torch.optim.SGD(net.parameters(), .01, momentum=.9, nesterov=True, weight_decay=1e-4)
loader = Prefetcher(2)
for i in rec.steps(5):
    img, mask = loader.next()
    opt.zero_grad()
    with rec.keep():
        loss = F.cross_entropy(net(img), mask)
    ready = list(loader.q.queue)
    rec.mark(f"forward{i}", net, opt, (img, mask, ready))
    loss.backward(); rec.saved.clear()
    rec.mark(f"backward{i}", net, opt, (img, mask, ready))
    opt.step()
    rec.mark(f"step{i}", net, opt, (img, mask, ready))
    del ready
