"""Train an embedding of digits with pytorch-metric-learning; needs no download.

pip install '.[pytorch-metric-learning]' && python examples/metric_learning_digits.py
"""

import torch
from pytorch_metric_learning import miners
from sklearn.datasets import load_digits

from bayescl.integrations.pytorch_metric_learning import NTXentLoss

torch.manual_seed(0)
digits = load_digits()
data = torch.tensor(digits.data, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32))
miner = miners.MultiSimilarityMiner()
loss_func = NTXentLoss(temperature=0.1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

for _ in range(30):
    batch = torch.randint(len(data), (64,))
    embeddings = model(data[batch])
    loss = loss_func(embeddings, labels[batch], miner(embeddings, labels[batch]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

with torch.no_grad():
    embeddings = torch.nn.functional.normalize(model(data), dim=1)
nearest = (embeddings @ embeddings.T).fill_diagonal_(-1).argmax(1)
precision = (labels[nearest] == labels).float().mean().item()
print(f"nearest neighbor of the same digit: {precision:.1%}")
