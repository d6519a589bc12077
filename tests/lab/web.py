"""A server of one file, for tests of downloads."""

import io
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """Serves one content at every path, and misbehaves as told."""

    content = b""
    tells_length = True
    breaks_after: int | None = None
    """Bytes sent before the connection breaks."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/data.zip"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests += 1
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        if self.server.tells_length:
            self.send_header("Content-Length", str(len(self.server.content)))
        self.end_headers()
        self.wfile.write(self.server.content[: self.server.breaks_after])

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def serving(content: bytes) -> Iterator[Server]:
    """Serve a content until the end of the block."""
    with Server() as running:
        running.content = content
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def zipped(members: Mapping[str, bytes]) -> bytes:
    """A zip archive of some files."""
    with zipfile.ZipFile(file := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()
