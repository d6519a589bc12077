"""Check many random calls: ``python -m fuzz --cases 30000``, with ``tests`` on the path."""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor

import torch

from fuzz import DAMAGED, violations


def main() -> int:
    """Print every violation with its seed, and a count."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=30_000, help="how many calls")
    parser.add_argument("--first", type=int, default=0, help="seed of the first call")
    parser.add_argument("--processes", type=int, default=1, help="how many at a time")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.cases)
    bad = 0
    with ProcessPoolExecutor(
        arguments.processes, initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        for seed, found in zip(seeds, pool.map(violations, seeds, chunksize=50), strict=True):
            bad += bool(found)
            for problem in found:
                print(f"seed {seed}: {problem}", flush=True)
            if (seed + 1 - arguments.first) % 1000 == 0:
                print(f"{seed + 1 - arguments.first} calls, {bad} bad", flush=True)
    refused = sum(seed % DAMAGED == 0 for seed in seeds)
    print(f"{len(seeds)} calls, {refused} of them with a bad argument: {bad} answered wrongly")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
