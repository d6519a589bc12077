"""SimCLR with lightly and a teacher; random images, so it needs no download and learns nothing.

pip install '.[lightly]' && python examples/lightly_simclr.py
"""

import torch
import torchvision
from lightly.models.modules import SimCLRProjectionHead
from lightly.transforms.multi_view_transform import MultiViewTransform
from lightly.transforms.simclr_transform import SimCLRTransform
from lightly.transforms.utils import IMAGENET_NORMALIZE
from torch import nn
from torchvision.transforms import Compose, Normalize, ToTensor

from bayescl.integrations.lightly import NTXentLoss

torch.manual_seed(0)
resnet = torchvision.models.resnet18()
backbone = nn.Sequential(*list(resnet.children())[:-1], nn.Flatten())
model = nn.Sequential(backbone, SimCLRProjectionHead(512, 512, 128))

augmented = SimCLRTransform(input_size=32, gaussian_blur=0.0).transforms
unaugmented = Compose([ToTensor(), Normalize(**IMAGENET_NORMALIZE)])
transform = MultiViewTransform([*augmented, unaugmented])
dataset = torchvision.datasets.FakeData(16, image_size=(3, 32, 32), transform=transform)
dataloader = torch.utils.data.DataLoader(dataset, batch_size=8, shuffle=True, drop_last=True)

criterion = NTXentLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.06)

for views, _ in dataloader:
    with torch.no_grad():
        teacher = model(views[2])
    loss = criterion(model(views[0]), model(views[1]), teacher)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"loss {loss.item():.3f}")
