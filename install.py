"""Install the course into the environment of the Python that runs this file. `make setup` calls it.

It needs only Python itself. It installs the packages of requirements.lock with `uv` or pip, which compare the hash of
every file. torch comes next, at its pinned version but without a hash: its CPU build is one file per platform, on an
index of its own. Large downloads are printed as they begin.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent
Installer = Callable[..., bool]
# What people set in pip to reach their packages. uv reads none of it.
PACKAGE_SOURCES = r"\b(cert|client-cert|extra-index-url|find-links|index-url|no-index|proxy|trusted-host)="
HEARTBEAT_SECONDS = 20
LOCK_FAILED = """\
  The packages of {files} are not installed. If the lines above speak of hashes, a downloaded file is not the
  one that the course was tested with, so none was used. Empty the cache (`pip cache purge`, `uv cache clean`) and try
  again. If the file still differs, your package index serves another one: use another index, and report it."""


def main() -> None:
    """Install the locked packages, torch and the course itself; exit with 1 if something failed."""
    options = read_options()
    install = pip_install if pip_has_sources() or not shutil.which("uv") else uv_install
    print(
        f"Installing the pinned packages into {sys.prefix} with {install.__name__.split('_')[0]}: some minutes, once."
    )
    begin = time.perf_counter()
    done = (
        install_locked(install, options.extra)
        and install_torch(install, options)
        and install("--no-deps", "--no-build-isolation", "-e", str(ROOT))
    )
    print(f"  {'done' if done else 'failed'} after {time.perf_counter() - begin:.0f} s")
    sys.exit(not done)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", required=True, help="the requirement, such as torch==2.13.0")
    parser.add_argument("--torch-index", default="", help="where CPU builds are, if the usual index has none")
    parser.add_argument("--gpu", action="store_true", help="take the build with GPU libraries")
    parser.add_argument("--extra", choices=["dev"], help="the extra of pyproject.toml that has a lock file")
    return parser.parse_args()


def install_locked(install: Installer, extra: str | None = None, folder: Path = ROOT) -> bool:
    """Install the packages of the lock files, if every file has one of its hashes, and return whether that succeeded.

    Both installers check all files before they install the first.
    """
    names = ["requirements.lock", *([f"requirements-{extra}.lock"] if extra else [])]
    files = [argument for name in names for argument in ("-r", str(folder / name))]
    done = install("--require-hashes", "--no-deps", *files)
    if not done:
        print(LOCK_FAILED.format(files=" and ".join(names)), flush=True)
    return done


def install_torch(install: Installer, options: argparse.Namespace) -> bool:
    """Install torch, with GPU libraries if they were asked for or no other build exists, and return whether it worked.

    The locked packages already hold what every build needs, so only GPU libraries can be downloaded with it.
    """
    if not options.gpu:
        install_cpu_torch(install, options.torch, options.torch_index)
    return install(options.torch)


def pip_has_sources() -> bool:
    """Return whether pip's settings or environment name an index, a proxy or a certificate, which uv would ignore."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    settings = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return bool(re.search(PACKAGE_SOURCES, settings))


def install_cpu_torch(install: Installer, torch: str, index: str) -> None:
    """Install the CPU build of torch, from your own package sources or else from `index`.

    Only Linux has two builds, and the one on PyPI brings several GB of GPU libraries. If neither place has a CPU build,
    nothing is installed here, and the next step takes the build that there is.
    """
    if sys.platform != "linux" or installed_version("torch") == torch.partition("==")[2]:
        return
    cpu_build = ("--no-deps", f"{torch}+cpu")
    if install(*cpu_build, may_fail=True):
        return
    if index:
        print(f"  no CPU build of torch in your index; trying {index} (TORCH_INDEX= skips this)", flush=True)
        if install(*cpu_build, "--index-url", index, may_fail=True):
            return
    print("  no CPU build of torch: the build with GPU libraries takes several GB", flush=True)


def installed_version(name: str) -> str:
    """Return the installed version without the name of its build (2.13.0 for 2.13.0+cpu), or an empty text."""
    try:
        return metadata.version(name).partition("+")[0]
    except metadata.PackageNotFoundError:
        return ""


def uv_install(*arguments: str, may_fail: bool = False) -> bool:
    """Run `uv pip install`, which shows its own progress, and return whether it succeeded.

    If it may fail, a dry run comes first, so that a failure prints nothing.
    """
    command = ["uv", "pip", "install", "--python", sys.executable, *arguments]
    if may_fail and subprocess.run([*command, "--dry-run"], check=False, capture_output=True).returncode:
        return False
    return subprocess.run(command, check=False).returncode == 0


def pip_install(*arguments: str, may_fail: bool = False) -> bool:
    """Run `pip install`, print a summary of its output as it arrives, and return whether it succeeded."""
    command = [sys.executable, "-u", "-m", "pip", "install", "--disable-pip-version-check", *arguments]
    retries = {"PIP_RETRIES": "1"} if may_fail else {}
    errors = subprocess.DEVNULL if may_fail else None
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ | retries
    ) as process:
        done = threading.Event()
        threading.Thread(target=print_heartbeats, args=(done,), daemon=True).start()
        assert process.stdout is not None
        for line in process.stdout:
            if summary := summarize(line):
                print(f"  {summary}", flush=True)
        done.set()
    return process.returncode == 0


def summarize(line: str) -> str | None:
    """Return what a line of pip's output says about a large download or the installation, or None."""
    if found := re.search(r"Downloading (\S+) \(([\d.]+ [MG]B)\)", line):
        return f"{found[1].rpartition('/')[2]} ({found[2]})"
    if line.startswith("Installing collected packages:"):
        names = line.partition(":")[2].split(", ")
        return f"installing {names[0].strip() if len(names) == 1 else f'{len(names)} packages'}"
    return None


def print_heartbeats(done: threading.Event) -> None:
    """Print the time every twenty seconds until `done` is set."""
    begin = time.perf_counter()
    while not done.wait(HEARTBEAT_SECONDS):
        print(f"  ... {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
