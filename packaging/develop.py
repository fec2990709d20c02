"""Installs the Python package into this Python's environment as it lies here: `python packaging/develop.py target/debug`.

The native half is the one that `cargo build --workspace` made. `maturin develop` does the same, but builds every crate a second time, with
the features that this package alone asks for; wheels are maturin's (`make dist`), and `make proof` installs them.
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python 3.10: pytest and mypy bring the same under its old name.
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Replaces what an earlier call installed."""
    built = Path(sys.argv[1]).resolve()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    name = project["name"]
    # Programs may have the old one loaded.
    native = ROOT / "python/highwater/_highwater.abi3.so"
    fresh = native.with_suffix(".fresh")
    shutil.copy(built / "lib_highwater.so", fresh)
    os.replace(fresh, native)

    packages, scripts = Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("scripts"))
    for older in packages.glob(f"{name}-*.dist-info"):
        shutil.rmtree(older)
    points = {"console_scripts": project["scripts"]} | project["entry-points"]
    groups = (f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items()) for group, entries in points.items())
    information = packages / f"{name}-{version}.dist-info"
    information.mkdir()
    files = {
        packages / f"{name}.pth": f"{ROOT / 'python'}\n",
        information / "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        information / "entry_points.txt": "\n".join(groups),
        information / "INSTALLER": "packaging/develop.py\n",
    }
    for command, target in project["scripts"].items():
        module, function = target.split(":")
        files[scripts / command] = f"#!{sys.executable}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
    for path, text in files.items():
        path.write_text(text)
        if path.parent == scripts:
            path.chmod(0o755)
    listed = [os.path.relpath(path, packages) for path in files]
    (information / "RECORD").write_text("".join(f"{path},,\n" for path in [*listed, f"{information.name}/RECORD"]))


if __name__ == "__main__":
    main()
