# start late state twice
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(loop=False, inference=True, recorded_steps=0, note="one forward pass of an encoder-decoder in bfloat16 under no_grad; the decoder's output, logits and probabilities are held; built from nn.Transformer layers")
class Seq2Seq(nn.Module):
    def __init__(self, vocab=20000, d=1024 // SHRINK):
        super().__init__(); self.src, self.tgt = nn.Embedding(vocab, d), nn.Embedding(vocab, d)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 16, 4 * d, batch_first=True, norm_first=True), 8, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(d, 16, 4 * d, batch_first=True), 8); self.lm_head = nn.Linear(d, vocab)
    def forward(self, s, t):
        memory = self.encoder(self.src(s)); hidden = self.decoder(self.tgt(t), memory); return hidden, self.lm_head(hidden)
model = Seq2Seq().to(dev).to(torch.bfloat16).eval()
src, tgt = torch.randint(20000, (16, 300), device=dev), torch.randint(20000, (16, 200), device=dev)
def warm():
    with torch.no_grad(): model(src[:2], tgt[:2])
rec.point(warm)
with torch.no_grad():
    hidden, logits = model(src, tgt)
    rec.mark("forward", model, (), (src, tgt), outputs=[hidden, logits])
    probs = F.softmax(logits.float(), -1)
rec.mark("end", model, (), (src, tgt), outputs=[hidden, logits, probs])
rec.finish()
