"""What goes wrong with object storage before a byte moves, and what people are told."""

import json
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from support.s3_command import S3Command
from support.s3_server import KEY_ID, SECRET, Fault, S3Server


@pytest.fixture
def a(tmp_path):
    (tmp_path / "a").write_bytes(b"a")


def test_without_keys_all_places_that_were_looked_at_are_named(s3, server, a, tmp_path):
    del s3.variables["AWS_ACCESS_KEY_ID"], s3.variables["AWS_SECRET_ACCESS_KEY"]
    said = s3.fails("cp", "a", "s3://lab/a")
    home = tmp_path / "home"
    assert "there are no keys for object storage. Looked at: AWS_ACCESS_KEY_ID (not set);" in said
    assert f"profile default in {home}/.aws/credentials (there is no such file) or {home}/.aws/config" in said
    assert "AWS_CONTAINER_CREDENTIALS_FULL_URI is not set" in said and "AWS_EC2_METADATA_DISABLED is set" in said
    assert server.seen == []


def test_a_wrong_secret_is_told_with_the_servers_own_words(s3, a):
    said = s3.fails("cp", "a", "s3://lab/a", AWS_SECRET_ACCESS_KEY="wrong")
    assert "the server says 403 SignatureDoesNotMatch: so the test wants it" in said
    assert f"The secret key is not that of {KEY_ID} (from AWS_ACCESS_KEY_ID)" in said
    for command in (["ls", "s3://lab"], ["cp", "s3://lab/a", "b"]):
        assert "403 SignatureDoesNotMatch" in s3.fails(*command, AWS_SECRET_ACCESS_KEY="wrong")


def test_a_wrong_clock_is_told_with_both_times(s3, server, a):
    server.clock_offset_s = -7200
    said = s3.fails("cp", "a", "s3://lab/a")
    assert "the clocks differ: it is 20" in said and " UTC here and 20" in said and " UTC at the server" in said
    assert "set this machine's clock" in said


def test_no_bucket_and_no_object(s3, server, a):
    place = f"at http://127.0.0.1:{server.port} (AWS_ENDPOINT_URL)"
    for command in (["cp", "a", "s3://none/a"], ["cp", "s3://none/a", "b"], ["ls", "s3://none"]):
        assert f"there is no bucket none {place}" in s3.fails(*command)
    assert "cannot get s3://lab/b: there is no such object" in s3.fails("cp", "s3://lab/b", "b")
    assert "there is nothing that begins with s3://lab/b" in s3.fails("ls", "s3://lab/b")


def test_another_region_is_named(s3, server, a):
    headers = {"x-amz-bucket-region": "eu-west-1"}
    server.fault = lambda seen: Fault(status=301, code="PermanentRedirect", headers=headers)
    said = s3.fails("cp", "a", "s3://lab/a", AWS_REGION="us-west-2")
    assert "the bucket lab is in the region eu-west-1, not in us-west-2 (AWS_REGION); set AWS_REGION=eu-west-1" in said


def test_rights_that_are_missing_are_told(s3, server, a):
    server.fault = lambda seen: Fault(status=403, code="AccessDenied")
    said = s3.fails("cp", "a", "s3://lab/a")
    assert "403 AccessDenied" in said and "may not do that; docs/object_storage.md has the rights" in said


def test_nobody_at_the_endpoint(s3, a):
    said = s3.fails("cp", "a", "s3://lab/a", "--attempts", "1", AWS_ENDPOINT_URL="http://127.0.0.1:1")
    assert "cannot look at s3://lab/a: the connection to http://127.0.0.1:1 failed: " in said


@pytest.fixture
def certificate(tmp_path):
    """A key and a certificate of 127.0.0.1 that nobody has signed."""
    path = tmp_path / "server.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test"
    subprocess.run(
        [*command.split(), "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", path, "-out", tmp_path / "ca.pem"],
        check=True,
        capture_output=True,
    )
    path.write_text(path.read_text() + (tmp_path / "ca.pem").read_text())
    return path


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificate")
def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path, certificate, a):
    with S3Server(tmp_path / "server", certificate=certificate) as server:
        server.bucket("lab")
        s3 = S3Command(tmp_path, server.environment())
        said = s3.fails("cp", "a", "s3://lab/a")
        assert f"the certificate of https://127.0.0.1:{server.port} is not to be trusted" in said
        assert "AWS_CA_BUNDLE" in said and "attempts" not in said
        assert server.seen == []
        s3.ok("cp", "a", "s3://lab/a", AWS_CA_BUNDLE=str(tmp_path / "ca.pem"))
        assert server.get("lab", "a") == b"a"
        assert "cannot be read from AWS_CA_BUNDLE" in s3.fails("ls", "s3://lab", AWS_CA_BUNDLE="/nowhere")


def test_keys_and_endpoint_of_a_profile(s3, server, tmp_path):
    folder = tmp_path / "home" / ".aws"
    folder.mkdir(parents=True)
    (folder / "credentials").write_text(f"[lab]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n")
    (folder / "config").write_text(
        f"[profile lab]\nservices = here\n[services here]\ns3 =\n  endpoint_url = http://127.0.0.1:{server.port}\n"
    )
    s3.variables = {"AWS_PROFILE": "lab"}
    assert "there is nothing in s3://lab/" in s3.ok("ls", "s3://lab")
    assert "AWS_PROFILE is other, but there is no profile other in" in s3.fails("ls", "s3://lab", AWS_PROFILE="other")


def test_a_bucket_may_be_a_part_of_the_hosts_name(s3, server, a):
    s3.variables["AWS_ENDPOINT_URL"] = f"http://localhost:{server.port}"
    s3.ok("cp", "a", "s3://lab/x/a", RAVNEST_S3_ADDRESSING="virtual")
    assert server.get("lab", "x/a") == b"a"
    assert server.seen[-1].headers["host"] == f"lab.localhost:{server.port}"
    assert "expected path, virtual or auto" in s3.fails("ls", "s3://lab", RAVNEST_S3_ADDRESSING="both")


def test_a_proxy_is_asked_where_the_environment_names_one(s3, server, a):
    proxy = f"http://127.0.0.1:{server.port}"
    s3.variables["AWS_ENDPOINT_URL"] = "http://s3.invalid"
    s3.ok("cp", "a", "s3://lab/a", http_proxy=proxy)
    assert server.get("lab", "a") == b"a"
    said = s3.fails("cp", "a", "s3://lab/a", "--attempts", "1", http_proxy=proxy, no_proxy="s3.invalid")
    assert "the connection to http://s3.invalid failed" in said


def test_keys_of_a_container_and_of_an_instance(s3):
    asked = []

    class Service(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def answer(self):
            asked.append((self.command, self.path))
            keys = {"AccessKeyId": KEY_ID, "SecretAccessKey": SECRET, "Expiration": "2099-01-01T00:00:00Z"}
            body = json.dumps(keys)
            if self.path == "/latest/api/token":
                body = "token"
            elif self.path.startswith("/latest") and self.headers["X-aws-ec2-metadata-token"] != "token":
                body = ""
            elif self.path.endswith("/security-credentials/"):
                body = "role"
            elif self.path == "/container" and self.headers["Authorization"] != "secret":
                body = ""
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        do_GET = do_PUT = answer

    service = HTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{service.server_address[1]}"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"):
        del s3.variables[name]
    try:
        container = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": url + "/container"}
        s3.ok("ls", "s3://lab", AWS_CONTAINER_AUTHORIZATION_TOKEN="secret", **container)
        assert asked == [("GET", "/container")]
        s3.ok("ls", "s3://lab", AWS_EC2_METADATA_SERVICE_ENDPOINT=url)
        assert asked[1:] == [
            ("PUT", "/latest/api/token"),
            ("GET", "/latest/meta-data/iam/security-credentials/"),
            ("GET", "/latest/meta-data/iam/security-credentials/role"),
        ]
    finally:
        service.shutdown()
        service.server_close()


def test_without_an_end_in_object_storage_cp_says_so(s3, a):
    assert "neither a nor b begins with s3://" in s3.fails("cp", "a", "b")
    assert "expected s3://BUCKET/KEY" in s3.fails("ls", "s3://")
