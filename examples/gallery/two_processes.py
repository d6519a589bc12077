"""
Two processes with gathering
============================

With ``gather=True``, each process compares its anchors with the candidates of all processes.
Gradients flow back to the process that owns a row. In this example, two processes with unequal
batches compute the same gradient as one process with the whole batch.
"""

# %%
# One process
# -----------
# With a launcher such as ``torchrun``, you need only ``training_step``, and an encoder in
# ``DistributedDataParallel``, which averages the gradients.

import os
import shutil
import subprocess
import sys
import tempfile
from datetime import timedelta

import torch
from torch import distributed as dist

import bayescl

torch.manual_seed(0)
items = torch.randn(2, 24, 8)  # two views of 24 items; every process draws the same
shares = [slice(0, 16), slice(16, 24)]  # unequal on purpose


def training_step(share: slice, *, gather: bool) -> torch.Tensor:
    """Return the gradient of one step."""
    torch.manual_seed(1)
    encoder = torch.nn.Linear(8, 4, bias=False)
    loss = bayescl.BayesianContrastiveLoss(num_classes=10, alpha=0.9, gather=gather)
    both = encoder(items[:, share].flatten(0, 1))
    loss(*both.chunk(2)).backward()
    gradient = encoder.weight.grad
    if gather:  # the mean over the processes, as DistributedDataParallel computes it
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()
    return gradient


# %%
# Two processes
# -------------
# The script is the first process, and starts itself as the second.

is_second = "BAYESCL_FOLDER" in os.environ
folder = os.environ["BAYESCL_FOLDER"] if is_second else tempfile.mkdtemp()
if not is_second:
    script = globals().get("__file__", "two_processes.py")  # the gallery names no file
    environment = {**os.environ, "BAYESCL_FOLDER": folder}
    second = subprocess.Popen([sys.executable, script], env=environment)

dist.init_process_group(
    "gloo",
    f"file://{folder}/meet",
    rank=int(is_second),
    world_size=2,
    timeout=timedelta(minutes=1),
)
gathered = training_step(shares[is_second], gather=True)
dist.barrier()
if is_second:
    dist.destroy_process_group()
    sys.exit()
assert second.wait() == 0  # the first stays connected until the second has ended
dist.destroy_process_group()
shutil.rmtree(folder)

# %%
# The same gradient
# -----------------

alone = training_step(slice(None), gather=False)
print(f"largest difference: {(gathered - alone).abs().max():.1e}")
