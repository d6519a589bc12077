"""
Two processes with gathering
============================

With ``gather=True`` each process scores its anchors against the candidates of all processes, and
gradients go back to the process that owns a row. Here two processes with unequal batches reach the
gradient of one process with the whole batch.
"""

# %%
# One process
# -----------
# The script starts itself twice; with a launcher such as ``torchrun`` you write
# ``training_step`` alone.

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

import bayescl

torch.manual_seed(0)
items = torch.randn(2, 24, 8)  # two views of 24 items; every process draws the same
shares = [slice(0, 16), slice(16, 24)]  # unequal on purpose


def training_step(share: slice, *, gather: bool) -> torch.Tensor:
    """Return the gradient of one step."""
    torch.manual_seed(1)
    encoder = torch.nn.Linear(8, 4, bias=False)
    model = DistributedDataParallel(encoder) if gather else encoder
    loss = bayescl.BayesianContrastiveLoss(num_classes=10, alpha=0.9, gather=gather)
    both = model(items[:, share].flatten(0, 1))
    loss(*both.chunk(2)).backward()
    return encoder.weight.grad


# %%
# Two processes
# -------------
# The first one saves its gradient.

if "BAYESCL_RANK" in os.environ:
    rank, folder = int(os.environ["BAYESCL_RANK"]), Path(os.environ["BAYESCL_FOLDER"])
    dist.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=2)
    gradient = training_step(shares[rank], gather=True)
    if rank == 0:
        torch.save(gradient, folder / "gradient.pt")
    dist.barrier()  # nobody leaves while the other still talks
    dist.destroy_process_group()
    sys.exit()

script = globals().get("__file__", "two_processes.py")  # the gallery names no file
with tempfile.TemporaryDirectory() as folder:
    started = [
        subprocess.Popen(
            [sys.executable, script],
            env={**os.environ, "BAYESCL_RANK": str(rank), "BAYESCL_FOLDER": folder},
        )
        for rank in range(2)
    ]
    assert [process.wait() for process in started] == [0, 0]
    gathered = torch.load(Path(folder) / "gradient.pt")

# %%
# The same gradient
# -----------------

alone = training_step(slice(None), gather=False)
print(f"largest difference: {(gathered - alone).abs().max():.1e}")
