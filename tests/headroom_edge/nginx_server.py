"""A real nginx for one test."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")

MAIN = """
{modules}
daemon off;
worker_processes {workers};
error_log stderr {level};
pid {folder}/nginx.pid;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/headroom.conf;
}}
"""


def write_configuration(folder: Path, included: str, *, modules: str = "", workers: int = 1) -> None:
    (folder / "headroom.conf").write_text(included)
    # Lua's messages while the store is away are warnings; nobody reads them here.
    main = MAIN.format(folder=folder, modules=modules, workers=workers, level="error")
    (folder / "nginx.conf").write_text(main)


def command(folder: Path) -> list[str]:
    return [str(NGINX), "-p", str(folder), "-c", str(folder / "nginx.conf")]


@contextmanager
def running(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """nginx with the configuration in `folder`, which listens on `port`. At the end, workers may say goodbye."""
    process = subprocess.Popen(command(folder))
    try:
        _wait_for(port, process)
        yield process
    finally:
        process.send_signal(signal.SIGQUIT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait(60)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while True:
        assert process.poll() is None, "nginx did not start"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.01)
        else:
            return
