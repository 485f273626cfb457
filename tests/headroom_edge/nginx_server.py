"""A real nginx for one test."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import wait_for

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
        wait_for(port, process)
        yield process
    finally:
        process.send_signal(signal.SIGQUIT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait(60)
