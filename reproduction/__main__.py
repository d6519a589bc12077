"""``python -m reproduction``."""

from bayescl_lab.cli._app import Program, main

PROGRAM = Program(
    "reproduction",
    "Reproduce the paper's tables, simulation and lemmas.",
    {
        "tables": "Reproduce the paper's tables.",
        "simulate": "Run the numerical experiments and write a data file and a figure for each.",
        "lemmas": "Measure the lemmas, and compare the estimators at many points.",
        "estimation": "Measure the errors of estimates of alpha.",
    },
    "reproduction.commands",
    {"tables": ("ranking",)},
)

if __name__ == "__main__":
    raise SystemExit(main(program=PROGRAM))
