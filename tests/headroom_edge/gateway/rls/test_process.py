"""`python -m headroom_edge.gateway.rls`: how it starts and ends, and whom it answers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
import redis

from config.data_folders import ROOT
from headroom_edge.gateway.rls.__main__ import main
from headroom_edge.gateway.rls.access import Access
from headroom_edge.gateway.rls.grpcio_server import LONGEST_MESSAGE, LONGEST_METADATA
from headroom_edge.gateway.rls.health import trouble
from headroom_edge.gateway.rls.service import HEALTH, SERVING
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.gateway.rls.asking import LIST, OK, PATIENCE_SECONDS, RlsClient
from tests.headroom_edge.world import MACHINE
from tests.processes import wait_for
from tests.valkeys import free_port

CERTIFICATES = Path(__file__).parents[2] / "store" / "certificates"
CERTIFICATE, KEY = str(CERTIFICATES / "localhost.pem"), str(CERTIFICATES / "localhost.key")


@contextmanager
def alone(valkey_url: str, *options: str) -> Iterator[tuple[RlsClient, subprocess.Popen[bytes]]]:
    port = free_port()
    environment = {"PATH": os.environ["PATH"], "HEADROOM_BUDGET_MS": str(AMPLE_MS), "REDIS_URL": valkey_url}
    command = [sys.executable, "-m", "headroom_edge.gateway.rls", "--port", str(port), *options]
    process = subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.PIPE)
    try:
        wait_for(port, process)
        yield RlsClient(port), process
    finally:
        process.kill()
        process.communicate()


def test_it_needs_nothing_but_the_store_and_ends_when_it_is_told_to(store: redis.Redis, valkey_url: str) -> None:
    with alone(valkey_url) as (rls, process):
        assert rls.ask(LIST).overall_code == OK
        assert trouble(f"127.0.0.1:{rls.port}", PATIENCE_SECONDS) is None
        too_long = rls.refused({**LIST, "user": "x" * LONGEST_MESSAGE})
        assert too_long[0] == grpc.StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(grpc.RpcError):
            rls.ask(LIST, token="x" * LONGEST_METADATA)
        assert rls.ask(LIST).overall_code == OK
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
        assert (process.returncode, said) == (0, b"")
    assert trouble(f"127.0.0.1:{rls.port}", PATIENCE_SECONDS) is not None


def test_with_certificates_only_clients_that_have_one_are_answered(store: redis.Redis, valkey_url: str) -> None:
    options = ("--host", "0.0.0.0", "--certificate", CERTIFICATE, "--key", KEY, "--client-ca", CERTIFICATE)
    roots, key = Path(CERTIFICATE).read_bytes(), Path(KEY).read_bytes()
    with alone(valkey_url, *options) as (rls, _):
        for pair in ((key, roots), (None, None)):
            credentials = grpc.ssl_channel_credentials(roots, *pair)
            with grpc.secure_channel(f"localhost:{rls.port}", credentials) as channel:
                check: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{HEALTH}/Check")
                if pair[0]:
                    assert check(b"", timeout=PATIENCE_SECONDS) == SERVING
                else:
                    with pytest.raises(grpc.RpcError):
                        check(b"", timeout=PATIENCE_SECONDS)


def test_with_tokens_it_answers_on_any_address(store: redis.Redis, valkey_url: str) -> None:
    with alone(valkey_url, "--host", "0.0.0.0", "--tokens") as (rls, _):
        assert rls.refused(LIST)[0] == grpc.StatusCode.UNAUTHENTICATED
        assert rls.ask(LIST, token=MACHINE).overall_code == OK
        with grpc.insecure_channel(f"127.0.0.1:{rls.port}") as channel:
            check: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{HEALTH}/Check")
            # A balancer that asks for health has no token.
            name = b"envoy.service.ratelimit.v3.RateLimitService"
            assert check(b"\x0a" + bytes([len(name)]) + name, timeout=PATIENCE_SECONDS) == SERVING
            with pytest.raises(grpc.RpcError) as refused:
                check(b"\x0a\x05other", timeout=PATIENCE_SECONDS)
            assert refused.value.code() == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "headroom.internal"])
def test_an_address_that_others_reach_needs_a_way_to_know_them(host: str) -> None:
    sentence = (
        f"{host} can be reached from other machines; use 127.0.0.1, or add --certificate, --key and --client-ca "
        "(mTLS), or --tokens, so that callers send a token."
    )
    with pytest.raises(ValueError, match="can be reached") as refused:
        Access(host, 8002)
    assert str(refused.value) == sentence
    with pytest.raises(ValueError, match="can be reached"):
        Access(host, 8002, certificate="a", key="b")
    Access(host, 8002, tokens=True)
    Access(host, 8002, "a", "b", "c")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_a_loopback_address_needs_nothing(host: str) -> None:
    assert Access(host, 8002).address in (f"{host}:8002", f"[{host}]:8002")


def test_what_is_wrong_with_the_start_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        command = [sys.executable, "-m", "headroom_edge.gateway.rls", "--port", str(port)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    sentence = f"headroom: 127.0.0.1:{port} cannot be used; free the port, or choose another with --port.\n"
    assert (done.returncode, done.stderr) == (2, sentence)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--host", "0.0.0.0"], "0.0.0.0 can be reached from other machines; use 127.0.0.1, or add"),
        (["--certificate", "x"], "--certificate and --key belong together; give both, or none."),
        (["--client-ca", "x"], "--client-ca needs --certificate and --key; give all three."),
        (["--certificate", "no.pem", "--key", KEY], "The file no.pem cannot be read: No such file or directory."),
    ],
)
def test_options_that_do_not_fit_are_one_line(
    options: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["rls", "--port", "0", *options])
    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")
    assert main() == 2
    said = capsys.readouterr().err
    assert said.startswith(f"headroom: {sentence}")
    assert said.count("\n") == 1


def test_the_gateway_and_the_limiter_load_no_grpc() -> None:
    modules = "headroom_edge.gateway.__main__, headroom_edge.asgi, headroom_edge.gateway.rls.access"
    code = f"import sys, {modules}; print(sorted({{'grpc', 'google'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "[]\n"
