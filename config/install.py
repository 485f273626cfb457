"""Makes the virtual environment and brings it up to date: `python3 config/install.py REQUIREMENTS`.

Runs on the machine's own Python, before anything is installed, and has to load on old ones too, to tell them so.
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
            "Python %d.%d or newer is needed, and this is %d.%d: set PYTHON=/path/to/a/newer/one"
            % (NEEDED + sys.version_info[:2])
        )
    # Two of `make up`, `make test` and `make lint` may start in the same fresh clone.
    os.makedirs(VENV, exist_ok=True)
    with open(os.path.join(VENV, ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = fingerprint()
        # The developer's requirements include the others.
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
        fail("this Python cannot make a virtual environment: install its venv module (Debian: python3-venv)")
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]
    if run(pip) != 0:
        fail("the packages could not be installed; the lines above say why")


def run(command: list) -> int:  # type: ignore[type-arg]
    return subprocess.call(command, stdout=sys.stderr)


def works() -> bool:
    """False too for a virtual environment whose Python has been removed since."""
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
