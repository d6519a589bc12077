"""Work on the CPU shared out to threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch


def in_threads(work: Callable[[int], None], workers: int) -> None:
    """Call ``work`` with 0, 1, ... ``workers - 1``, each in its own thread.

    Operations of torch and NumPy release the interpreter lock, so threads run in parallel. Each
    gets its share of torch's threads; otherwise their operations would compete for the same cores.
    Nothing is differentiated.
    """
    if workers == 1:
        work(0)
        return
    threads, inference = torch.get_num_threads(), torch.is_inference_mode_enabled()

    def alone(number: int) -> None:
        # Modes belong to threads: a new one has neither of the caller's.
        with torch.inference_mode() if inference else torch.no_grad():
            torch.set_num_threads(max(1, threads // workers))
            work(number)

    try:
        with ThreadPoolExecutor(workers) as pool:
            for done in [pool.submit(alone, number) for number in range(workers)]:
                done.result()
    finally:
        # What this thread uses has not changed, but what a new one starts with has.
        torch.set_num_threads(threads)
