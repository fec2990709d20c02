# start late state twice one
import argparse, torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(micro_batches=4, note="four micro-batches to each optimizer step; the last micro-batch of a step is shorter; AdamW with two parameter groups; a step here is an optimizer step")
class TinyGPT(nn.Module):
    def __init__(self, vocab, width, depth):
        super().__init__(); self.wte = nn.Embedding(vocab, width); self.wpe = nn.Parameter(torch.zeros(1, 512, width))
        self.h = nn.ModuleList([nn.TransformerEncoderLayer(width, 10, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True) for _ in range(depth)]); self.ln_f = nn.LayerNorm(width)
    def forward(self, ids, labels):
        T = ids.size(1); x = self.wte(ids) + self.wpe[:, :T]; mask = torch.full((T, T), float("-inf"), device=ids.device).triu(1)
        for blk in self.h: x = blk(x, src_mask=mask, is_causal=True)
        return F.cross_entropy((self.ln_f(x) @ self.wte.weight.t()).view(-1, self.wte.num_embeddings), labels.view(-1))
def main(args):
    model = TinyGPT(10000, args.width, 8).to(dev)
    decay = [p for p in model.parameters() if p.dim() > 1]; rest = [p for p in model.parameters() if p.dim() <= 1]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=2e-4)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1, (s + 1) / 10))
    for it in rec.steps(4):
        for micro in range(args.accum):
            n = 3 if micro == args.accum - 1 else 6
            ids = torch.randint(10000, (n, args.seq + 1)).to(dev)
            with rec.keep(): loss = model(ids[:, :-1], ids[:, 1:].contiguous()) / args.accum
            rec.mark(f"forward{it}.{micro}", model, opt, ids)
            loss.backward(); rec.saved.clear()
            rec.mark(f"backward{it}.{micro}", model, opt, ids)
        opt.step(); sched.step(); opt.zero_grad(set_to_none=True)
        rec.mark(f"step{it}", model, opt, ids)
if __name__ == "__main__":
    ap = argparse.ArgumentParser(); ap.add_argument("--width", type=int, default=800 // SHRINK); ap.add_argument("--seq", type=int, default=256 // SHRINK); ap.add_argument("--accum", type=int, default=4)
    main(ap.parse_args())
