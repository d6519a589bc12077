"""Train a tiny CLIP on random images and a few captions; needs no download and learns nothing.

pip install '.[open-clip]' && python examples/open_clip_pairs.py
"""

import torch
from open_clip import CLIP, CLIPTextCfg, CLIPVisionCfg, tokenize

from bayescl.integrations.open_clip import ClipLoss

torch.manual_seed(0)
model = CLIP(
    embed_dim=32,
    vision_cfg=CLIPVisionCfg(layers=1, width=32, head_width=16, patch_size=8, image_size=32),
    text_cfg=CLIPTextCfg(context_length=16, width=32, heads=2, layers=1),
    output_dict=True,
)
images = torch.randn(8, 3, 32, 32)
texts = tokenize([f"a photo of number {number}" for number in range(8)], context_length=16)

criterion = ClipLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for _ in range(3):
    losses = criterion(**model(images, texts), output_dict=True)
    optimizer.zero_grad()
    losses["contrastive_loss"].backward()
    optimizer.step()
    print(f"loss {losses['contrastive_loss'].item():.3f}")
