"""Writes a folder as an image: one layer, in an OCI layout, in a tar. The same folder gives the same bytes.

python3 oci_layout.py ROOT ARCHITECTURE FILE
"""

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
import time

root, architecture, out = sys.argv[1:]
epoch = int(os.environ["SOURCE_DATE_EPOCH"])
created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))
version = next(
    line.split('"')[1] for line in open("Cargo.toml") if line.startswith("version = ")
)


def of_root(member):
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = epoch
    member.mode = 0o1777 if member.name == "tmp" else 0o755 if member.mode & 0o100 else 0o644
    return member


def tar_of(add):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        add(tar)
    return buffer.getvalue()


def add_root(tar):
    # tarfile sorts what is in a folder
    for name in sorted(os.listdir(root)):
        tar.add(os.path.join(root, name), arcname=name, filter=of_root)


layer = tar_of(add_root)
packed = io.BytesIO()
with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9, mtime=0) as stream:
    stream.write(layer)
packed = packed.getvalue()

blobs = {}


def blob(media_type, content):
    digest = hashlib.sha256(content).hexdigest()
    blobs[f"blobs/sha256/{digest}"] = content
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def document(media_type, value):
    return blob(media_type, json.dumps(value, sort_keys=True).encode())


KIND = "application/vnd.oci.image."
config = document(
    KIND + "config.v1+json",
    {
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/local/bin:/bin"],
            "Entrypoint": ["/usr/local/bin/rdma-doctor"],
            "Labels": {
                "org.opencontainers.image.title": "rdma-doctor",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        "history": [{"created": created, "created_by": "packaging/image"}],
    },
)
manifest = document(
    KIND + "manifest.v1+json",
    {
        "schemaVersion": 2,
        "mediaType": KIND + "manifest.v1+json",
        "config": config,
        "layers": [blob(KIND + "layer.v1.tar+gzip", packed)],
    },
)
manifest["annotations"] = {"org.opencontainers.image.ref.name": f"rdma-doctor:{version}"}
manifest["platform"] = {"architecture": architecture, "os": "linux"}
blobs["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [manifest]}, sort_keys=True).encode()
blobs["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'


def add_blobs(tar):
    for name, content in sorted(blobs.items()):
        member = tarfile.TarInfo(name)
        member.size = len(content)
        member.mtime = epoch
        tar.addfile(member, io.BytesIO(content))


with open(out, "wb") as file:
    file.write(tar_of(add_blobs))
