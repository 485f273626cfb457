"""Creates the virtual environment and keeps it up to date: `python3 config/install.py REQUIREMENTS`.

Runs on the system's Python, before anything is installed. It must load on old versions too, so that it can refuse them.
"""

import fcntl
import hashlib
import os
import subprocess
import sys

NEEDED = (3, 11)
VENV = ".venv"
PYTHON = os.path.join(VENV, "bin", "python")


def main(requirements: str) -> None:
    if sys.version_info[:2] < NEEDED:
        fail(
            "Python %d.%d or newer is required, and this is %d.%d: set PYTHON=/path/to/a/newer/one"
            % (NEEDED + sys.version_info[:2])
        )
    # `make up`, `make test` and `make lint` may start at the same time in a fresh clone.
    os.makedirs(VENV, exist_ok=True)
    with open(os.path.join(VENV, ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = fingerprint()
        # requirements-dev.txt includes requirements.txt.
        if works() and wanted in (read(stamp(requirements)), read(stamp("requirements-dev.txt"))):
            return
        install(requirements)
        with open(stamp(requirements), "w") as file:
            file.write(wanted)


def stamp(requirements: str) -> str:
    return os.path.join(VENV, "." + requirements)


def install(requirements: str) -> None:
    sys.stderr.write("headroom: installing %s into %s\n" % (requirements, VENV))
    if not works() and run([sys.executable, "-m", "venv", VENV]) != 0:
        fail("this Python cannot create a virtual environment: install its venv module (Debian: python3-venv)")
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]
    if run(pip) != 0:
        fail("the packages could not be installed; see the messages above")


def run(command: list) -> int:  # type: ignore[type-arg]
    return subprocess.call(command, stdout=sys.stderr)


def works() -> bool:
    """Also False for a virtual environment whose base Python was removed."""
    try:
        code = subprocess.call([PYTHON, "-c", "import pip"], stderr=subprocess.DEVNULL)
    except OSError:
        return False
    return code == 0


def fingerprint() -> str:
    digest = hashlib.sha256(sys.version.encode())
    for name in ("requirements.txt", "requirements-dev.txt"):
        digest.update(read(name).encode())
    return digest.hexdigest()


def read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def fail(reason: str) -> None:
    sys.exit("headroom: %s." % reason)


if __name__ == "__main__":
    main(sys.argv[1])
