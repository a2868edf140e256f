"""A server that speaks as much of S3 as ravnest asks for, and fails as it is told to.

Everything lies in a folder, so that a server that is started again has what the one before it had, unfinished uploads
too. Signatures, payload hashes and Content-MD5 are checked. Real servers are in `s3_peers.py`: this one is for what
they do not do when a test wants it.
"""

import contextlib
import hashlib
import json
import socket
import ssl
import threading
import urllib.parse
from http.server import ThreadingHTTPServer
from pathlib import Path

from support.s3_requests import KEY_ID, SECRET, Fault, Handler, Seen

__all__ = ["KEY_ID", "SECRET", "Fault", "S3Server", "Seen"]


class S3Server:
    """On a port of the loopback, from `start` to `stop`; `fault(seen)` is asked about every request."""

    def __init__(self, folder: Path, port: int = 0, certificate: Path | None = None):
        self.folder, self.port, self.certificate = folder, port, certificate
        self.fault = lambda seen: None
        self.seen: list[Seen] = []
        self.clock_offset_s = 0
        self.region = "us-east-1"
        self.lock = threading.Lock()
        (folder / "buckets").mkdir(parents=True, exist_ok=True)
        (folder / "uploads").mkdir(exist_ok=True)

    def bucket(self, name: str) -> Path:
        path = self.folder / "buckets" / name
        path.mkdir(exist_ok=True)
        return path

    def start(self) -> "S3Server":
        server = self

        class Requests(Handler):
            s3 = server

        self.stopped = threading.Event()
        self.connections: set[socket.socket] = set()
        self.http = _Http(("127.0.0.1", self.port), Requests)
        self.http.s3 = self
        if self.certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate)
            self.http.context = context
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def stop(self) -> None:
        """As a kill does it: whoever is connected is cut off."""
        self.stopped.set()
        self.http.shutdown()
        self.http.server_close()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def environment(self, **more) -> dict:
        scheme = "http" if self.certificate is None else "https"
        return {
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": f"{scheme}://127.0.0.1:{self.port}",
            "AWS_EC2_METADATA_DISABLED": "true",
            **more,
        }

    def put(self, bucket: str, key: str, data: bytes, metadata: dict | None = None, etag: str | None = None) -> None:
        """An object, as if somebody else had put it."""
        path = self.bucket(bucket) / urllib.parse.quote(key, safe="")
        facts = {"etag": etag or hashlib.md5(data).hexdigest(), "metadata": metadata or {}}
        path.with_name(path.name + ".facts").write_text(json.dumps(facts))
        path.write_bytes(data)

    def get(self, bucket: str, key: str) -> bytes:
        return (self.folder / "buckets" / bucket / urllib.parse.quote(key, safe="")).read_bytes()

    def keys(self, bucket: str) -> list[str]:
        names = (path.name for path in (self.folder / "buckets" / bucket).iterdir())
        return sorted(urllib.parse.unquote(name) for name in names if not name.endswith(".facts"))

    def uploads(self) -> list[str]:
        return [path.name for path in (self.folder / "uploads").iterdir()]

    def received(self) -> int:
        """Bytes of bodies that came in, all together."""
        return sum(seen.received for seen in self.seen)

    def sent(self) -> int:
        return sum(seen.sent for seen in self.seen)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    context = None

    def get_request(self):
        connection, address = super().get_request()
        self.s3.connections.add(connection)
        return connection, address

    def finish_request(self, request, client_address):
        if self.context is not None:
            try:
                request = self.context.wrap_socket(request, server_side=True)
            except (OSError, ssl.SSLError):
                return
        super().finish_request(request, client_address)

    def handle_error(self, request, client_address):
        pass  # connections that are cut
