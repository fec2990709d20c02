# start late state twice one
import torch, torch.utils.data
from torch import nn, optim
from torch.nn import functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="a plain variational autoencoder of linear layers, Adam, running loss by item()")

class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(3072, 1600), nn.Linear(1600, 128), nn.Linear(1600, 128)
        self.fc3, self.fc4 = nn.Linear(128, 1600), nn.Linear(1600, 3072)
    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)
    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std
    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))
    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 3072))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar

model = VAE().to(dev)
optimizer = optim.Adam(model.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(1024, 3, 32, 32)), batch_size=128, shuffle=True)
batches = iter(loader)
train_loss = 0
for i in rec.steps(6):
    data, = next(batches)
    data = data.to(dev)
    optimizer.zero_grad()
    with rec.keep():
        recon, mu, logvar = model(data)
        loss = F.binary_cross_entropy(recon, data.view(-1, 3072), reduction="sum") - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    rec.mark(f"forward{i}", model, optimizer, data)
    loss.backward(); rec.saved.clear()
    rec.mark(f"backward{i}", model, optimizer, data)
    train_loss += loss.item()
    optimizer.step()
    rec.mark(f"step{i}", model, optimizer, data)
