"""Creates a virtual environment and keeps it up to date: `python3 config/install.py REQUIREMENTS`.

Every package must match a hash in the requirements file. The tools have an environment of their own, because they need
other versions of packages that the platform uses.

Runs on the system's Python, before anything is installed. It must load on old versions too, so that it can refuse them.
"""

import fcntl
import hashlib
import os
import subprocess
import sys

NEEDED = (3, 11)
TOOLS = "requirements-tools.txt"


def main(requirements: str) -> None:
    if sys.version_info[:2] < NEEDED:
        fail(
            "Python %d.%d or newer is required, and this is %d.%d: set PYTHON=/path/to/a/newer/one"
            % (NEEDED + sys.version_info[:2])
        )
    # `make up`, `make test` and `make lint` may start at the same time in a fresh clone.
    folder = ".venv-tools" if requirements == TOOLS else ".venv"
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = fingerprint([TOOLS] if requirements == TOOLS else ["requirements.txt", "requirements-dev.txt"])
        # requirements-dev.txt includes requirements.txt.
        stamps = [os.path.join(folder, "." + name) for name in (requirements, "requirements-dev.txt")]
        if works(folder) and wanted in [read(stamp) for stamp in stamps]:
            return
        install(requirements, folder)
        with open(stamps[0], "w") as file:
            file.write(wanted)


def install(requirements: str, folder: str) -> None:
    sys.stderr.write("headroom: installing %s into %s\n" % (requirements, folder))
    if not works(folder) and run([sys.executable, "-m", "venv", folder]) != 0:
        fail("this Python cannot create a virtual environment: install its venv module (Debian: python3-venv)")
    pip = [python(folder), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    if run([*pip, "-r", requirements]) != 0:
        fail("the packages could not be installed; see the messages above")


def python(folder: str) -> str:
    return os.path.join(folder, "bin", "python")


def run(command: list) -> int:  # type: ignore[type-arg]
    return subprocess.call(command, stdout=sys.stderr)


def works(folder: str) -> bool:
    """Also False for a virtual environment whose base Python was removed."""
    try:
        code = subprocess.call([python(folder), "-c", "import pip"], stderr=subprocess.DEVNULL)
    except OSError:
        return False
    return code == 0


def fingerprint(names: list) -> str:  # type: ignore[type-arg]
    digest = hashlib.sha256(sys.version.encode())
    for name in names:
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
