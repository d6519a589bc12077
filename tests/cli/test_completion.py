"""Scripts by which shells complete commands."""

from __future__ import annotations

import shutil
import subprocess

import pytest


def test_every_shell_gets_a_script(bayescl) -> None:
    for shell in ("zsh", "fish"):
        assert "recommend" in bayescl(f"completion {shell}").out


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes_commands_options_and_choices(bayescl, tmp_path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(bayescl("completion bash").out)
    for typed, expected in (
        ([""], ["compare", "completion", "train"]),
        (["train", ""], ["images", "ranking"]),
        (["train", "images", "--batch"], ["--batch-size"]),
        (["train", "images", "--precision", ""], ["float32", "bfloat16"]),
        (["train", "ranking", "--loss", "lat"], ["latent"]),
    ):
        words = " ".join(repr(word) for word in ["bayescl", *typed])
        asked = (
            f"source {script}; COMP_WORDS=({words}); COMP_CWORD={len(typed)}; COMPREPLY=(); "
            'complete_with=$(complete -p bayescl | grep -o "[^ ]*_bayescl[^ ]*"); '
            '$complete_with; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        found = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
        assert set(expected) <= set(found.stdout.split())
