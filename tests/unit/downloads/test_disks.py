"""Real disks that are full, and real certificates that nobody knows."""

from __future__ import annotations

import datetime
import hashlib
import random
import ssl
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from engine.downloads.errors import CertificateRefused
from engine.downloads.hub import Hub
from engine.downloads.staging import Staging
from engine.downloads.token import Token
from engine.words import sentence
from tests.support.downloading import Downloading
from tests.support.hub import LocalHub

Make = Callable[..., Downloading]

REPO, FILE = "somebody/Model-GGUF", "Model-Q4_0.gguf"
DATA = random.Random(0).randbytes(1_500_000)


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """A file system of one MiB."""
    mount = tmp_path / "models"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        why = done.stderr.strip().partition("\n")[0]
        pytest.skip(f"not shown on a disk that is really full, since none can be mounted: {why}")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


def test_a_disk_that_fills_up_stops_the_download_and_more_room_finishes_it(
    hub: LocalHub, make: Make, small_disk: Path
) -> None:
    hub.add(REPO, {FILE: DATA})
    downloading = make(free=lambda _: 10**9)  # as if another program took the room meanwhile
    job = downloading.pull(REPO)
    assert job.failure is not None and job.failure.code == "download.disk_full"
    assert [name for name in downloading.files() if not name.startswith(".incoming/")] == []
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    downloading.queue.act(job.id, "resume")
    assert downloading.run(job)[0].state == "done"
    assert downloading.files() == {f"{REPO}/{FILE}": DATA}
    assert hub.served[-1].start > 0, "what was there was kept"


def test_a_disk_that_is_too_small_is_told_before_a_byte_comes(
    hub: LocalHub, make: Make, small_disk: Path
) -> None:
    hub.add(REPO, {FILE: DATA})
    job = make().pull(REPO)
    assert job.failure is not None and job.failure.code == "download.disk_full"
    assert str(small_disk) in job.failure.sentence
    assert hub.served == []


def test_a_disk_that_the_system_calls_full_is_told_and_more_room_finishes_the_download(
    hub: LocalHub, downloading: Downloading
) -> None:
    # Where no small disk may be mounted: /dev/full fails every write as a full disk does.
    hub.add(REPO, {FILE: DATA})
    staging = Staging(downloading.main)
    staging.make()
    part = staging.part(hashlib.sha256(DATA).hexdigest())
    part.symlink_to("/dev/full")
    job = downloading.pull(REPO)
    assert job.failure is not None and job.failure.code == "download.disk_full"
    part.unlink()
    downloading.queue.act(job.id, "resume")
    assert downloading.run(job)[0].state == "done"
    assert downloading.files() == {f"{REPO}/{FILE}": DATA}


def certificate(folder: Path) -> Path:
    """Of 127.0.0.1 and localhost, signed by itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    import ipaddress

    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_a_companys_own_certificate_is_refused_until_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Make, variable: str
) -> None:
    path = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with LocalHub(tls=context) as hub:
        hub.add(REPO, {FILE: DATA})
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        with pytest.raises(CertificateRefused) as caught:
            Hub(find=lambda: Token(None, "none")).repo(REPO)
        assert "SSL_CERT_FILE" in sentence(caught.value)
        monkeypatch.setenv(variable, str(path))
        assert make().pull(REPO).state == "done"
