"""Work on the CPU shared out to threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch


def in_threads(work: Callable[[int], None], workers: int) -> None:
    """Call ``work`` with 0, 1, ... ``workers - 1``, each in a thread of its own.

    Operations of torch and NumPy let go of the interpreter, so threads run side by side. Each gets
    its share of the threads that torch may use: its operations would else fight for the same cores
    with threads of their own. Nothing is differentiated.
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
