"""SimCLR as a Lightning module; random images, so it needs no download and learns nothing.

pip install '.[lightning,lightly]' && python examples/lightning_simclr.py
"""

import lightning.pytorch as pl
import torch
import torchvision
from lightly.models.modules import SimCLRProjectionHead
from lightly.transforms.simclr_transform import SimCLRTransform

from bayescl import InfoNCELoss as NTXentLoss


class SimCLR(pl.LightningModule):
    """A ResNet with a projection head, trained by contrast."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = torchvision.models.resnet18()
        self.backbone.fc = torch.nn.Identity()
        self.projection_head = SimCLRProjectionHead(512, 512, 128)
        self.criterion = NTXentLoss()

    def training_step(self, batch: list) -> torch.Tensor:
        """Contrast two views of each image."""
        views, _ = batch
        first, second = (self.projection_head(self.backbone(view)) for view in views)
        loss = self.criterion(first, second)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Plain gradient descent."""
        return torch.optim.SGD(self.parameters(), lr=0.06)


torch.manual_seed(0)
transform = SimCLRTransform(input_size=32, gaussian_blur=0.0)
dataset = torchvision.datasets.FakeData(16, image_size=(3, 32, 32), transform=transform)
dataloader = torch.utils.data.DataLoader(dataset, batch_size=8, shuffle=True, drop_last=True)

model = SimCLR()
trainer = pl.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False)
trainer.fit(model, dataloader)
print(f"loss {trainer.logged_metrics['loss'].item():.3f}")
