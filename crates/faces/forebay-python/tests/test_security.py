"""Encryption of tcp://: what is wanted beyond this host, and a message that goes through."""

import shutil
import subprocess

import pytest

from forebay.net import Publisher, Receiver, Sender, Subscriber

NAMES = ("tls_certificate", "tls_key", "tls_authority")


def test_beyond_this_host_certificates_or_a_word_are_wanted():
    for address in ("tcp://0.0.0.0:0", "tcp://192.0.2.1:7100", "tcp://[::ffff:10.1.2.3]:7100"):
        for make in (Receiver, Publisher, Sender, Subscriber):
            with pytest.raises(OSError, match="--tls-certificate.*--plain"):
                make(address)


def test_what_does_not_go_together_is_refused():
    for settings in ({"tls_key": "a"}, {"plain": True, **dict.fromkeys(NAMES, "a")}):
        with pytest.raises(TypeError, match="together"):
            Receiver("tcp://127.0.0.1:0", **settings)
    with pytest.raises(OSError, match="/no/file"):
        Receiver("tcp://127.0.0.1:0", **dict.fromkeys(NAMES, "/no/file"))
    with pytest.raises(TypeError, match="plain"):
        Receiver("tcp://127.0.0.1:0", plain="perhaps")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_message_goes_through_encrypted(tmp_path):
    # One that is its own authority.
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -subj /CN=authority".split()
    subprocess.run([*command, "-keyout", key, "-out", tmp_path / "authority"], check=True, capture_output=True)
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -subj /CN=host".split()
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    command += ["-CA", tmp_path / "authority", "-CAkey", key]
    subprocess.run([*command, "-keyout", tmp_path / "host", "-out", certificate], check=True, capture_output=True)
    files = dict(zip(NAMES, (certificate, tmp_path / "host", tmp_path / "authority"), strict=True))
    with Receiver("tcp://127.0.0.1:0", **files) as receiver, Sender(receiver.address, **files) as sender:
        sender.send(7, b"hello")
        sender.flush()
        batch = receiver.receive(timeout=10)
        assert [(tag, bytes(data)) for tag, data in batch] == [(7, b"hello")]
