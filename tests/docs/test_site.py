"""The built site in a browser: it fits a desk and a phone.

``make docs`` builds what is opened here.
"""

from __future__ import annotations

import http.server
import json
import re
import shutil
import subprocess
import threading
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium"),
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="needs the site: make docs"),
]

PAGES = (
    "index.html",
    "search.html?q=InfoNCELoss",
    "gallery/index.html",
    "gallery/plot_digits_losses.html",
    "api/losses.html",
    "inspect.html",
)
# Opens each page in a frame of a width, and writes down what it sees.
PROBE = """<!doctype html><title>probe</title><body><pre id="seen"></pre><script>
const steps = STEPS, seen = [];
const wait = ms => new Promise(done => setTimeout(done, ms));
(async () => {
  for (const step of steps) {
    const frame = document.createElement("iframe");
    frame.style.cssText = `width:${step.width}px;height:900px;border:0`;
    document.body.append(frame);
    const loaded = new Promise(done => frame.addEventListener("load", done, {once: true}));
    frame.src = step.page;
    await loaded;
    const page = frame.contentWindow, errors = [];
    page.addEventListener("error", event => errors.push(String(event.message)));
    await wait(1500);
    const images = [...page.document.images];
    seen.push({...step, content: page.document.documentElement.scrollWidth,
      frame: page.innerWidth, errors,
      broken: images.filter(i => i.complete && !i.naturalWidth).map(i => i.src)});
    frame.remove();
  }
  document.getElementById("seen").textContent = JSON.stringify(seen);
})();
</script>"""


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def browse(folder: Path, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the browser sees after each step; the probe stands beside the site's pages."""
    probe = SITE / "probe.html"
    probe.write_text(PROBE.replace("STEPS", json.dumps(steps)))
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += ["--disable-background-networking", f"--user-data-dir={folder / 'profile'}"]
    command += ["--window-size=1400,1000", "--virtual-time-budget=240000", "--dump-dom"]
    handler = partial(Handler, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command.append(f"http://127.0.0.1:{server.server_port}/probe.html")
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
        server.shutdown()
    probe.unlink()
    seen = re.search(r'<pre id="seen">(.+?)</pre>', done.stdout, re.DOTALL)
    assert seen, f"the browser did not come to the end: {done.stdout[:2000]}"
    return json.loads(unescape(seen[1]))


def test_pages_fit_without_errors_or_broken_pictures(tmp_path) -> None:
    steps = [{"page": f"/{page}", "width": width} for page in PAGES for width in (1280, 390)]
    for seen in browse(tmp_path, steps):
        assert seen["content"] <= seen["frame"], seen["page"]
        assert seen["errors"] == [], seen["page"]
        assert seen["broken"] == [], seen["page"]
