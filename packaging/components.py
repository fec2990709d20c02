"""What an artifact is made of: every crate in the program and every package in its page, with licences and hashes.

`components.py notices FILE` writes the third-party notices, `components.py sbom FILE` a CycloneDX bill of materials. Both come from
`Cargo.lock`, `ui/package-lock.json` and the licence files of the packages themselves, so neither can be out of date, and neither
names a directory of this machine.
"""

import argparse
import base64
import json
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
# The Linux targets that are built; a dependency of either counts.
TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]
LICENCE_FILES = ("licen", "copying", "notice", "copyright", "unlicense")


@dataclass(frozen=True, order=True)
class Component:
    """A package that is not ours."""

    name: str
    version: str
    purl: str
    licence: str
    sha256: str | None
    sha512: str | None
    directory: Path = field(compare=False)


def crates(package: str) -> list[Component]:
    """The crates that `package` is linked with, ours left out: no build scripts, no tests, no procedural macros' own needs."""
    with open(ROOT / "Cargo.lock", "rb") as file:
        locked = {(one["name"], one["version"]): one.get("checksum") for one in tomllib.load(file)["package"]}
    found: dict[str, Component] = {}
    for target in TARGETS:
        command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
        metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
        packages = {one["id"]: one for one in metadata["packages"]}
        nodes = {one["id"]: one for one in metadata["resolve"]["nodes"]}
        todo = [one["id"] for one in metadata["packages"] if one["name"] == package]
        seen = set(todo)
        while todo:
            current = todo.pop()
            for dependency in nodes[current]["deps"]:
                is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
                if is_linked and dependency["pkg"] not in seen:
                    seen.add(dependency["pkg"])
                    todo.append(dependency["pkg"])
            one = packages[current]
            if one["source"] is not None:
                name, version = one["name"], one["version"]
                found[current] = Component(
                    name,
                    version,
                    f"pkg:cargo/{name}@{version}",
                    one["license"] or "see its licence file",
                    locked[name, version],
                    None,
                    Path(one["manifest_path"]).parent,
                )
    return sorted(found.values())


def page() -> list[Component]:
    """The packages in the page and the calculator."""
    packages = json.loads((ROOT / "ui/package-lock.json").read_text())["packages"]
    found = []
    for place, one in packages.items():
        if place and not one.get("dev"):
            name = place.removeprefix("node_modules/")
            digest = base64.b64decode(one["integrity"].removeprefix("sha512-")).hex()
            purl = f"pkg:npm/{name.replace('@', '%40')}@{one['version']}"
            found.append(Component(name, one["version"], purl, one["license"], None, digest, ROOT / "ui" / place))
    return sorted(found)


def licence_files(component: Component) -> list[Path]:
    """Its licences and notices, as it comes with them."""
    files = (path for path in component.directory.iterdir() if path.is_file())
    return sorted(path for path in files if path.name.lower().startswith(LICENCE_FILES))


def notices(components: list[Component]) -> str:
    """Each licence text once, with the packages that come with it."""
    users: dict[str, list[Component]] = {}
    texts: dict[str, str] = {}
    without = []
    for component in components:
        files = licence_files(component)
        for path in files:
            text = "\n".join(line.rstrip() for line in path.read_text(errors="replace").splitlines()).strip()
            # The same words are the same licence, however their lines are broken.
            words = " ".join(text.split())
            texts.setdefault(words, text)
            users.setdefault(words, []).append(component)
        if not files:
            without.append(component)
    out = ["highwater contains the packages below, under the licences that follow each group.\n"]
    for words, used in sorted(users.items(), key=lambda item: item[1]):
        names = sorted({f"{one.name} {one.version} ({one.licence})" for one in used})
        out.append("-" * 100 + "\n" + "\n".join(names) + "\n\n" + texts[words] + "\n")
    if without:
        names = "\n".join(f"{one.name} {one.version} ({one.licence})" for one in without)
        out.append("-" * 100 + f"\nThese packages come without a licence file; their metadata names the licence:\n\n{names}\n")
    return "\n".join(out)


def sbom(components: list[Component], package: str) -> str:
    """CycloneDX 1.5; the serial number is that of the contents, so that two builds of one commit are equal."""
    with open(ROOT / "Cargo.toml", "rb") as file:
        version = tomllib.load(file)["workspace"]["package"]["version"]

    def entry(one: Component) -> dict[str, object]:
        hashes = [("SHA-256", one.sha256), ("SHA-512", one.sha512)]
        return {
            "type": "library",
            "bom-ref": one.purl,
            "name": one.name,
            "version": one.version,
            "purl": one.purl,
            "licenses": [{"expression": one.licence.replace("/", " OR ")}],
            "hashes": [{"alg": name, "content": digest} for name, digest in hashes if digest],
        }

    entries = [entry(one) for one in components]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([package, version, entries]))
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": package, "name": package, "version": version}},
        "components": entries,
    }
    return json.dumps(document, indent=2) + "\n"


def main() -> None:
    """Writes one of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["notices", "sbom"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--package", default="highwater", help="the crate that is shipped")
    arguments = parser.parse_args()
    components = [*crates(arguments.package), *page()]
    missing = [one.name for one in components if not one.directory.is_dir()]
    if missing:
        sys.exit(f"components: not downloaded: {', '.join(missing)}; `cargo fetch` and `make ui` do it")
    text = notices(components) if arguments.what == "notices" else sbom(components, arguments.package)
    arguments.file.parent.mkdir(parents=True, exist_ok=True)
    arguments.file.write_text(text)


if __name__ == "__main__":
    main()
