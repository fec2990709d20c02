"""A container image as an OCI layout in one tar file, for `highwater top` on a node: the program and the C library, nothing else.

NVIDIA's container runtime puts the driver's library into a container, so it is not in the image. The C library comes from the Debian
package of the machine that builds, with its licence; `skopeo copy oci-archive:highwater-top.oci.tar docker://…` uploads the image.
"""

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from datetime import datetime, timezone
from pathlib import Path

# What NVIDIA's library needs of glibc beside the program.
LIBRARIES = ["ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"]


def c_library() -> dict[str, bytes]:
    """The files of glibc, by their path in the image."""
    files = {}
    with tempfile.TemporaryDirectory() as directory:
        # `apt-get` gives up root for a download; it must be able to write here.
        Path(directory).chmod(0o755)
        command = ["apt-get", "-o", "APT::Sandbox::User=root", "-q", "download", "libc6"]
        subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
        package = next(Path(directory).glob("libc6_*.deb"))
        data = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            path = Path(member.name)
            is_wanted = path.name in LIBRARIES and "x86_64-linux-gnu" in path.parts
            if member.isfile() and (is_wanted or path.as_posix().endswith("doc/libc6/copyright")):
                # Debian's loader stands in `lib64`, and looks for the others in a directory for the processor.
                folder = "lib64" if path.name.startswith("ld-") else "lib/x86_64-linux-gnu"
                name = f"{folder}/{path.name}" if is_wanted else "usr/share/doc/libc6/copyright"
                files[name] = archive.extractfile(member).read()
    missing = set(LIBRARIES) - {Path(name).name for name in files}
    assert not missing, f"libc6 has no {missing}"
    return files


def tar(files: dict[str, tuple[bytes, int]], time: int) -> bytes:
    """An archive of files with their modes, always the same bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        directories = {parent.as_posix() for name in files for parent in Path(name).parents} - {"."}
        for name in sorted(directories | set(files)):
            entry = tarfile.TarInfo(name)
            entry.mtime = time
            data, entry.mode = files.get(name, (b"", 0o1777 if name == "tmp" else 0o755))
            entry.type = tarfile.REGTYPE if name in files else tarfile.DIRTYPE
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def layout(program: Path, version: str, texts: dict[str, bytes], time: int) -> bytes:
    """The image: `texts` are licences, by name; `time` is in seconds since 1970."""
    files = {name: (data, 0o755 if name.startswith("lib") else 0o644) for name, data in c_library().items()}
    files["usr/bin/highwater"] = (program.read_bytes(), 0o755)
    files |= {f"usr/share/doc/highwater/{name}": (data, 0o644) for name, data in texts.items()}
    files["tmp/.keep"] = (b"", 0o644)
    plain = tar(files, time)
    layer = gzip.compress(plain, 9, mtime=0)
    created = datetime.fromtimestamp(time, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = {
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/highwater"],
            "Cmd": ["top", "--prometheus", ":9400", "--interval", "5"],
            "Env": [
                "PATH=/usr/bin",
                # Asks NVIDIA's runtime for all GPUs, and for the library that answers about them.
                "NVIDIA_VISIBLE_DEVICES=all",
                "NVIDIA_DRIVER_CAPABILITIES=utility",
            ],
            "Labels": {"org.opencontainers.image.title": "highwater", "org.opencontainers.image.version": version},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"]},
    }
    blobs = {}

    def blob(kind: str, data: bytes) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = (data, 0o644)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("config.v1+json", json.dumps(config).encode()),
        "layers": [blob("layer.v1.tar+gzip", layer)],
    }
    reference = blob("manifest.v1+json", json.dumps(manifest).encode())
    reference |= {
        "platform": {"architecture": "amd64", "os": "linux"},
        "annotations": {"org.opencontainers.image.ref.name": version},
    }
    blobs["index.json"] = (json.dumps({"schemaVersion": 2, "manifests": [reference]}).encode(), 0o644)
    blobs["oci-layout"] = (b'{"imageLayoutVersion": "1.0.0"}', 0o644)
    return tar(blobs, time)
