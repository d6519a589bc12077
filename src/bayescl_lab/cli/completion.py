"""``bayescl completion``."""

from __future__ import annotations

import sys
from typing import Literal


def command(shell: Literal["bash", "zsh", "fish"] = "bash") -> int:
    """Print a shell script that completes commands, options and choices.

    For bash: bayescl completion bash > ~/.local/share/bash-completion/completions/bayescl. For
    zsh: bayescl completion zsh > _bayescl, in a folder of $fpath. For fish: bayescl completion
    fish > ~/.config/fish/completions/bayescl.fish. Then open a new shell.

    Args:
        shell: the shell.
    """
    from bayescl_lab.cli._app import application

    sys.stdout.write(application().generate_completion(shell=shell))
    return 0
