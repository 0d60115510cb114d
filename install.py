"""Install the course into the environment of the Python that runs this file. `make setup` calls it.

It needs only Python itself. It installs the versions of constraints.txt with `uv` or pip, prefers the CPU build of
torch, and prints large downloads as they begin.
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


def main() -> None:
    """Install torch, then the course with its dependencies; exit with 1 if something failed."""
    options = read_options()
    constraints = write_constraints(options.torch)
    install = pip_install if pip_has_sources() or not shutil.which("uv") else uv_install
    print(
        f"Installing the pinned packages into {sys.prefix} with {install.__name__.split('_')[0]}: some minutes, once."
    )
    begin = time.perf_counter()
    if not options.gpu:
        install_cpu_torch(install, options.torch, options.torch_index)
    extra = f"[{options.extra}]" if options.extra else ""
    done = install("-c", str(constraints), options.torch, "-e", f"{ROOT}{extra}")
    print(f"  {'done' if done else 'failed'} after {time.perf_counter() - begin:.0f} s")
    sys.exit(not done)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", required=True, help="the requirement, such as torch==2.13.0")
    parser.add_argument("--torch-index", default="", help="where CPU builds are, if the usual index has none")
    parser.add_argument("--gpu", action="store_true", help="take the build with GPU libraries")
    parser.add_argument("--extra", help="an extra of pyproject.toml, such as dev")
    return parser.parse_args()


def write_constraints(torch: str) -> Path:
    """Write the pins, with `torch` in place of its line, into the environment."""
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("torch==")]
    path = Path(sys.prefix) / "constraints.txt"
    path.write_text("\n".join([*pins, torch, ""]))
    return path


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
