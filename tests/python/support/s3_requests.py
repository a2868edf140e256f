"""One request to the server of `s3_server.py`: read, checked, answered, or spoilt as the test wants it."""

import base64
import datetime
import hashlib
import hmac
import json
import re
import shutil
import socket
import urllib.parse
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from xml.sax.saxutils import escape

KEY_ID, SECRET = "AKIDTEST", "secrettest"
PIECE = 64 << 10


@dataclass
class Fault:
    """What goes wrong with one request."""

    status: int = 0  # answered with, before anything is done
    code: str = "InternalError"
    headers: dict = field(default_factory=dict)
    inner: str = ""  # of the <Error>, beside Code and Message
    cut_received: int | None = None  # after so many bytes of the body
    cut_sent: int | None = None
    hang: bool = False  # neither reads nor answers
    hang_sent: int | None = None  # after so many bytes of the answer
    lose_answer: bool = False  # everything is done, and then nothing said


@dataclass
class Seen:
    """One request, as it came."""

    method: str
    key: str
    query: dict
    headers: dict
    received: int = 0
    sent: int = 0
    answered: bool = False


class Cut(Exception):
    pass


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    s3 = None  # the S3Server

    def log_message(self, *_):
        pass

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (Cut, OSError):
            self.close_connection = True

    def do_any(self):
        path, _, query = self.path.partition("?")
        path = re.sub("^http://[^/]+", "", path)  # asked as a proxy
        bucket, _, key = path.removeprefix("/").partition("/")
        host = self.headers.get("Host", "").partition(":")[0]
        if host.endswith(".localhost"):  # the bucket is a part of the host's name
            bucket, key = host.removesuffix(".localhost"), path.removeprefix("/")
        self.bucket, self.key = urllib.parse.unquote(bucket), urllib.parse.unquote(key)
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.mine = Seen(self.command, self.key, self.query, headers)
        with self.s3.lock:
            self.s3.seen.append(self.mine)
            self.now_wrong = self.s3.fault(self.mine) or Fault()
        if self.now_wrong.hang:
            self.s3.stopped.wait()
            raise Cut
        body = self.read_body(int(headers.get("content-length", 0)))
        if self.now_wrong.status:
            self.error(self.now_wrong.status, self.now_wrong.code, self.now_wrong.inner, self.now_wrong.headers)
        elif refused := self.check(path, query, headers, body):
            self.error(403, refused)
        else:
            self.handle_request(body, headers)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_any

    def read_body(self, size: int) -> bytes:
        data = bytearray()
        end = size if self.now_wrong.cut_received is None else min(size, self.now_wrong.cut_received)
        while len(data) < end:
            some = self.rfile.read(min(PIECE, end - len(data)))
            if not some:
                raise Cut
            data += some
            self.mine.received += len(some)
        if self.now_wrong.cut_received is not None and end < size:
            self.cut()
        return bytes(data)

    def cut(self):
        self.connection.shutdown(socket.SHUT_RDWR)
        raise Cut

    def check(self, path: str, query: str, headers: dict, body: bytes) -> str:
        """The code of the error that the request deserves."""
        written = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, SignedHeaders=([^,]+), "
            r"Signature=(\w+)",
            headers.get("authorization", ""),
        )
        if written is None:
            return "AccessDenied"
        key_id, day, region, names, signature = written.groups()
        if key_id != KEY_ID:
            return "InvalidAccessKeyId"
        canonical = "\n".join(
            [self.command, path, "&".join(sorted(query.split("&")) if query else [])]
            + [f"{name}:{headers[name]}" for name in names.split(";")]
            + ["", names, headers["x-amz-content-sha256"]]
        )
        scope = f"{day}/{region}/s3/aws4_request"
        to_sign = "\n".join(
            ["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()]
        )
        secret = b"AWS4" + SECRET.encode()
        for part in (day, region, "s3", "aws4_request"):
            secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
        if hmac.new(secret, to_sign.encode(), hashlib.sha256).hexdigest() != signature:
            return "SignatureDoesNotMatch"
        sent = datetime.datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
        if abs((self.now() - sent).total_seconds()) > 900:
            return "RequestTimeTooSkewed"
        if hashlib.sha256(body).hexdigest() != headers["x-amz-content-sha256"]:
            return "XAmzContentSHA256Mismatch"
        md5 = headers.get("content-md5")
        if md5 is not None and base64.b64decode(md5) != hashlib.md5(body).digest():
            return "BadDigest"
        return ""

    def now(self):
        return datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=self.s3.clock_offset_s)

    def date_time_string(self, timestamp=None):
        return self.now().strftime("%a, %d %b %Y %H:%M:%S GMT")

    def answer(self, status: int, body: bytes = b"", headers: dict | None = None, size: int | None = None):
        if self.now_wrong.lose_answer:
            self.cut()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if size is None else size))
        self.end_headers()
        if self.command == "HEAD":
            return
        end = len(body) if self.now_wrong.cut_sent is None else min(len(body), self.now_wrong.cut_sent)
        if self.now_wrong.hang_sent is not None:
            end = min(end, self.now_wrong.hang_sent)
        for at in range(0, end, PIECE):
            self.wfile.write(body[at : min(at + PIECE, end)])
            self.mine.sent += min(PIECE, end - at)
        if end < len(body):
            self.wfile.flush()
            if self.now_wrong.hang_sent is not None:
                self.s3.stopped.wait()
            self.cut()
        self.wfile.flush()
        self.mine.answered = True

    def xml(self, name: str, inner: str):
        self.answer(200, f'<?xml version="1.0"?><{name}>{inner}</{name}>'.encode(), {"Content-Type": "application/xml"})

    def error(self, status: int, code: str, inner: str = "", headers: dict | None = None):
        words = f"<Error><Code>{code}</Code><Message>so the test wants it</Message>{inner}</Error>"
        self.answer(status, b"" if self.command == "HEAD" else words.encode(), headers)

    def handle_request(self, body: bytes, headers: dict):
        folder = self.s3.folder / "buckets" / self.bucket
        if not folder.is_dir():
            return self.error(404, "NoSuchBucket")
        path = folder / urllib.parse.quote(self.key, safe="")
        query = self.query
        if self.command == "GET" and not self.key:
            return self.list_uploads() if "uploads" in query else self.list_objects()
        if self.command in ("GET", "HEAD") and "uploadId" not in query:
            return self.get_object(path, headers)
        if self.command == "POST" and "uploads" in query:
            return self.begin(headers)
        if "uploadId" in query:
            return self.about_upload(self.s3.folder / "uploads" / query["uploadId"], path, body)
        if self.command == "PUT":
            metadata = {name: value for name, value in headers.items() if name.startswith("x-amz-meta-")}
            self.s3.put(self.bucket, self.key, body, metadata)
            return self.answer(200, headers={"ETag": f'"{hashlib.md5(body).hexdigest()}"'})
        if self.command == "DELETE":
            path.unlink(missing_ok=True)
            return self.answer(204)
        return self.error(501, "NotImplemented")

    def get_object(self, path: Path, headers: dict):
        if not path.exists():
            return self.error(404, "NoSuchKey")
        facts = json.loads(path.with_name(path.name + ".facts").read_text())
        etag = f'"{facts["etag"]}"'
        if headers.get("if-match", etag) != etag:
            return self.error(412, "PreconditionFailed")
        data = path.read_bytes()
        answered = {"ETag": etag, "Last-Modified": self.date_time_string(), **facts["metadata"]}
        if self.command == "HEAD":
            return self.answer(200, headers=answered, size=len(data))
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", headers.get("range", ""))
        if asked is None:
            return self.answer(200, data, answered)
        begin, end = int(asked[1]), min(int(asked[2]) + 1, len(data))
        answered["Content-Range"] = f"bytes {begin}-{end - 1}/{len(data)}"
        return self.answer(206, data[begin:end], answered)

    def list_objects(self):
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter", "")
        most = min(int(self.query.get("max-keys", 1000)), getattr(self.s3, "page_keys", 1000))
        contents, folders = [], []
        keys = [key for key in self.s3.keys(self.bucket) if key.startswith(prefix)]
        start = int(self.query.get("continuation-token", 0))
        for key in keys[start : start + most]:
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folder = prefix + rest[: rest.index(delimiter) + 1]
                if folder not in folders:
                    folders.append(folder)
                continue
            size = len(self.s3.get(self.bucket, key))
            contents.append(
                f"<Contents><Key>{urllib.parse.quote_plus(key)}</Key><Size>{size}</Size>"
                "<LastModified>2026-11-19T12:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag></Contents>"
            )
        more = start + most < len(keys)
        token = f"<NextContinuationToken>{start + most}</NextContinuationToken>" if more else ""
        self.xml(
            "ListBucketResult",
            f"<EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>{token}"
            + "".join(contents)
            + "".join(
                f"<CommonPrefixes><Prefix>{urllib.parse.quote_plus(folder)}</Prefix></CommonPrefixes>"
                for folder in folders
            ),
        )

    def list_uploads(self):
        found = []
        for upload in self.s3.uploads():
            key = json.loads((self.s3.folder / "uploads" / upload / "facts").read_text())["key"]
            if key.startswith(self.query.get("prefix", "")):
                found.append(f"<Upload><Key>{escape(key)}</Key><UploadId>{upload}</UploadId></Upload>")
        self.xml("ListMultipartUploadsResult", "<IsTruncated>false</IsTruncated>" + "".join(found))

    def begin(self, headers: dict):
        upload = uuid.uuid4().hex
        folder = self.s3.folder / "uploads" / upload
        folder.mkdir()
        metadata = {name: value for name, value in headers.items() if name.startswith("x-amz-meta-")}
        (folder / "facts").write_text(json.dumps({"key": self.key, "metadata": metadata}))
        self.xml("InitiateMultipartUploadResult", f"<UploadId>{upload}</UploadId>")

    def about_upload(self, folder: Path, path: Path, body: bytes):
        if not folder.is_dir():
            return self.error(404, "NoSuchUpload")
        parts = sorted((int(part.name), part) for part in folder.iterdir() if part.name.isdigit())
        if self.command == "PUT":
            part = folder / self.query["partNumber"]
            part.with_suffix(".new").write_bytes(body)
            part.with_suffix(".new").rename(part)
            return self.answer(200, headers={"ETag": f'"{hashlib.md5(body).hexdigest()}"'})
        if self.command == "GET":
            return self.xml(
                "ListPartsResult",
                "<IsTruncated>false</IsTruncated>"
                + "".join(
                    f"<Part><PartNumber>{number}</PartNumber><Size>{part.stat().st_size}</Size>"
                    f"<ETag>&quot;{hashlib.md5(part.read_bytes()).hexdigest()}&quot;</ETag></Part>"
                    for number, part in parts
                ),
            )
        if self.command == "DELETE":
            shutil.rmtree(folder)
            return self.answer(204)
        wanted = re.findall(r'<PartNumber>(\d+)</PartNumber><ETag>"(\w+)"</ETag>', body.decode())
        datas = [(folder / number).read_bytes() for number, _ in wanted]
        md5s = [hashlib.md5(data).digest() for data in datas]
        if [md5.hex() for md5 in md5s] != [etag for _, etag in wanted]:
            return self.error(400, "InvalidPart")
        etag = f"{hashlib.md5(b''.join(md5s)).hexdigest()}-{len(md5s)}"
        facts = json.loads((folder / "facts").read_text())
        self.s3.put(self.bucket, self.key, b"".join(datas), facts["metadata"], etag)
        shutil.rmtree(folder)
        return self.xml("CompleteMultipartUploadResult", f"<ETag>&quot;{etag}&quot;</ETag>")
