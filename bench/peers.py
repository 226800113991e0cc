"""What the comparisons share: a virtual environment with the peers, and Locant's built programs."""

import json
import os
import pathlib
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
TORCH = "2.13.0"

# Forces an older instruction set on OpenBLAS; whoever set it did not mean this comparison.
os.environ.pop("OPENBLAS_CORETYPE", None)


def _has(packages):
    from importlib import metadata

    for package in packages:
        name, _, version = package.partition("==")
        try:
            have = metadata.version(name)
        except metadata.PackageNotFoundError:
            return False
        if version and have.split("+")[0] != version:
            return False
    return True


def enter(folder, packages):
    """Goes on in a Python with the packages: this one, or that of `folder`, made if need be."""
    if _has(packages):
        return
    if os.environ.get("LOCANT_BENCH_ENTERED") == str(folder):
        sys.exit(f"{folder} lacks some of {' '.join(packages)}; remove it and try again")
    python = pathlib.Path(folder) / "bin" / "python"
    if not python.exists():
        print(f"making the virtual environment {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True)
    probe = (
        "import sys; sys.path.insert(0, sys.argv[1]); import peers; "
        "sys.exit(not peers._has(sys.argv[2:]))"
    )
    if subprocess.run([python, "-c", probe, str(ROOT / "bench"), *packages]).returncode:
        print(f"installing {' '.join(packages)} there", file=sys.stderr)
        subprocess.run([python, "-m", "pip", "install", *packages], check=True, stdout=sys.stderr)
    os.environ["LOCANT_BENCH_ENTERED"] = str(folder)
    os.execv(python, [str(python), *sys.argv])


def add_venv(parser):
    parser.add_argument(
        "--venv",
        default=str(ROOT / "build" / "venv-bench"),
        help="where the peers are installed, unless this Python has them (default %(default)s)",
    )


def growth(call):
    """By how many MB this process grows in one call, what it returns included."""
    before = _status("VmRSS:")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    held = call()
    del held
    return max(0.0, _status("VmHWM:") - before)


def _status(field):
    """Of this process, MB."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1e3 * 1.024 for line in file if line.startswith(field))


class Refused(Exception):
    """Locant does not take this case; says why."""


def locant_bench(program, case, rounds=1, plain=False):
    """The JSON line of `locant bench`."""
    command = [
        program,
        "bench",
        "--json",
        "--rounds",
        str(rounds),
        *([] if plain else ["--no-plain"]),
        case,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Refused(done.stderr.strip())
    return json.loads(done.stdout)
