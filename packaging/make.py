#!/usr/bin/env python3
"""Makes every package of a built `rondo`: tarball, wheel, npm packages and, on Linux, .deb, with man page, completions, licences of
what is linked, and a bill of materials. Needs nothing but Python's library and cargo; asks no network.

usage: packaging/make.py BINARY FOLDER
"""

import base64
import gzip
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ABOUT = "Declarative workflows for role-based LLM agents"
BRIEF = ABOUT[0].lower() + ABOUT[1:]
HOME = "https://github.com/rondo-engine/rondo"
# 1 January 2026: the same binary gives the same bytes.
TIME = 1_767_225_600
DOC, MAN = "share/doc/rondo", "share/man/man1/rondo.1.gz"
SHELLS = {
    "bash": "share/bash-completion/completions/rondo",
    "zsh": "share/zsh/site-functions/_rondo",
    "fish": "share/fish/vendor_completions.d/rondo.fish",
}
# How npm and Debian spell an architecture.
SPELT = {"x86_64": ("x64", "amd64"), "aarch64": ("arm64", "arm64")}


def said(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def version():
    return re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.M)[1]


def linked():
    """The crates whose code is in the binary, by their ids: what `rondo-cli` needs, without what only builds or tests."""
    metadata = json.loads(said("cargo", "metadata", "--locked", "--features", "rondo-cli/restate", "--format-version", "1", "--filter-platform", target()))
    packages = {package["id"]: package for package in metadata["packages"]}
    needed = {
        node["id"]: [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
        for node in metadata["resolve"]["nodes"]
    }
    is_macro = lambda package: all("proc-macro" in target["kind"] for target in package["targets"] if "custom-build" not in target["kind"])
    found, open_ids = {}, [next(id for id, package in packages.items() if package["name"] == "rondo-cli")]
    while open_ids:
        id = open_ids.pop()
        if id not in found and not is_macro(packages[id]):
            found[id] = packages[id]
            open_ids += needed[id]
    return sorted(found.values(), key=lambda package: (package["name"], package["version"]))


def target():
    return re.search(r"^host: (.+)$", said("rustc", "-vV"), re.M)[1]


def bill_of_materials(packages):
    """CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/)."""
    def component(package):
        entry = {"type": "library", "name": package["name"], "version": package["version"]}
        entry["purl"] = f"pkg:cargo/{package['name']}@{package['version']}"
        if package["license"]:
            entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        return entry

    others = [package for package in packages if package["source"]]
    root = {"type": "application", "name": "rondo", "version": version(), "licenses": [{"expression": "MIT"}]}
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": root}}
    return json.dumps({**bill, "components": [component(package) for package in others]}, indent=1).encode()


def licences(packages):
    """The texts of the licences of everything that is linked, each once, with those whom it covers."""
    covered = {}
    for package in packages:
        if not package["source"]:
            continue
        folder = Path(package["manifest_path"]).parent
        # The C and C++ sources of two crates lie below them.
        folders = [folder, folder / "rocksdb", folder / "liblz4"]
        names = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|COPYRIGHT|UNLICENSE)", re.I)
        files = [file for place in folders if place.is_dir() for file in place.iterdir() if names.match(file.name)]
        of = f"{package['name']} {package['version']} ({package['license'] or 'see its file'})"
        texts = {file.read_text(errors="replace").strip() for file in files if file.is_file()}
        for text in texts or {"Its package has no file with the text of its licence."}:
            covered.setdefault(text, []).append(of)
    parts = ["rondo is linked with the following. Each text stands below those whom it covers.\n"]
    parts += ["\n".join(names) + "\n\n" + text + "\n" for text, names in sorted(covered.items(), key=lambda pair: pair[1])]
    return ("\n" + "=" * 80 + "\n").join(parts).encode()


def manual(binary):
    """The help of every verb as a page of the manual (man(7))."""
    plain = lambda text: "\n".join(line.replace("\\", "\\e").replace("-", "\\-") for line in text.splitlines())
    shown = lambda text: "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in text.splitlines())
    whole = said(binary, "--help")
    verbs = re.findall(r"^  ([a-z]+) ", whole.split("Commands:")[1].split("Options:")[0], re.M)
    page = [f'.TH RONDO 1 "" "rondo {version()}" "User Commands"', ".SH NAME", f"rondo \\- {plain(BRIEF)}"]
    page += [".SH SYNOPSIS", ".B rondo", "VERB [OPTIONS]", ".SH DESCRIPTION", ".nf", shown(plain(whole)), ".fi"]
    page += [".PP", "The reference is in the program: \\fBrondo explain\\fR lists its pages.", ".SH VERBS"]
    for verb in verbs:
        page += [f".SS rondo {verb}", ".nf", shown(plain(said(binary, verb, "--help"))), ".fi"]
    return gzip.compress("\n".join(page + [".SH SEE ALSO", HOME, ""]).encode(), mtime=TIME)


def contents(binary):
    """What every package has, by path below its prefix, with the mode of each file."""
    packages = linked()
    files = {"bin/rondo": (Path(binary).read_bytes(), 0o755), MAN: (manual(binary), 0o644)}
    for shell, path in SHELLS.items():
        files[path] = (said(binary, "completions", shell).encode(), 0o644)
    for name in ["LICENSE", "README.md", "CHANGELOG.md"]:
        files[f"{DOC}/{name}"] = ((ROOT / name).read_bytes(), 0o644)
    files[f"{DOC}/THIRD-PARTY.txt"] = (licences(packages), 0o644)
    files[f"{DOC}/sbom.cdx.json"] = (bill_of_materials(packages), 0o644)
    return files


def tar(files, folder=""):
    """A .tar.gz with the parents of all files, which Debian's tools want."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=TIME) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        made = set()
        for path, (data, mode) in sorted(files.items()):
            for parent in reversed(Path(folder + path).parents):
                if str(parent) not in made:
                    made.add(str(parent))
                    entry = tarfile.TarInfo(str(parent) if str(parent) != "." else "./")
                    entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, TIME
                    archive.addfile(entry)
            entry = tarfile.TarInfo(folder + path)
            entry.size, entry.mode, entry.mtime = len(data), mode, TIME
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def wheel(files, tag):
    """https://packaging.python.org/en/latest/specifications/binary-distribution-format/"""
    name = f"rondo-{version()}"
    about = f"Metadata-Version: 2.1\nName: rondo\nVersion: {version()}\nSummary: {ABOUT}\nHome-page: {HOME}\nLicense: MIT\n"
    about += "Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n" + (ROOT / "README.md").read_text()
    inside = {f"{name}.data/scripts/rondo": files["bin/rondo"]}
    inside.update({f"{name}.data/data/{path}": file for path, file in files.items() if path != "bin/rondo"})
    inside[f"{name}.dist-info/METADATA"] = (about.encode(), 0o644)
    stated = f"Wheel-Version: 1.0\nGenerator: rondo\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n"
    inside[f"{name}.dist-info/WHEEL"] = (stated.encode(), 0o644)
    record = f"{name}.dist-info/RECORD"
    digest = lambda data: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    lines = [f"{path},sha256={digest(data)},{len(data)}" for path, (data, _) in inside.items()] + [f"{record},,"]
    inside[record] = (("\n".join(lines) + "\n").encode(), 0o644)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, (data, mode) in inside.items():
            entry = zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0))
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return out.getvalue()


LAUNCHER = """#!/usr/bin/env node
// Starts the program of the package for this platform.
const { spawnSync } = require("node:child_process");
const name = `@rondo-engine/${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/rondo`);
} catch {
  console.error(`rondo: there is no package ${name} here; was it left out as an optional dependency?`);
  process.exit(9);
}
const { status, signal, error } = spawnSync(program, process.argv.slice(2), { stdio: "inherit" });
if (error) console.error(`rondo: ${program} cannot be started: ${error.message}`);
if (signal) process.kill(process.pid, signal);
process.exit(status ?? 9);
"""


def npm(files, system, cpu):
    """The main package, and the one for this platform (https://docs.npmjs.com/cli/v10/configuring-npm/package-json)."""
    about = {"version": version(), "description": ABOUT, "license": "MIT", "homepage": HOME}
    as_json = lambda value: (json.dumps(value, indent=2).encode() + b"\n", 0o644)
    own = f"@rondo-engine/{system}-{cpu}"
    main = {"name": "rondo", **about, "bin": {"rondo": "rondo.js"}, "engines": {"node": ">=18"}}
    main["optionalDependencies"] = {own: version()}
    parts = {"package.json": as_json(main), "rondo.js": (LAUNCHER.encode(), 0o755)}
    parts["README.md"] = files[f"{DOC}/README.md"]
    place = {"os": [system], "cpu": [cpu], **({"libc": ["glibc"]} if system == "linux" else {})}
    packed = {"package.json": as_json({"name": own, **about, **place}), **files}
    return tar(parts, "package/"), tar(packed, "package/")


def deb(files, architecture, glibc):
    """deb(5): an archive of ar(5) with three members."""
    size = sum(len(data) for data, _ in files.values()) // 1024
    control = f"Package: rondo\nVersion: {version()}\nArchitecture: {architecture}\nMaintainer: rondo <{HOME}>\n"
    control += f"Depends: libc6 (>= {glibc}), libgcc-s1, libstdc++6 (>= 12)\nInstalled-Size: {size}\nSection: utils\n"
    control += f"Priority: optional\nHomepage: {HOME}\nDescription: {BRIEF}\n"
    moved = {f"./usr/{path}": file for path, file in files.items()}
    members = [("debian-binary", b"2.0\n"), ("control.tar.gz", tar({"./control": (control.encode(), 0o644)}))]
    out = b"!<arch>\n"
    for name, data in members + [("data.tar.gz", tar(moved))]:
        out += f"{name:<16}{TIME:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
    return out


def main(binary, folder):
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    files = contents(binary)
    architecture, is_linux = target().split("-")[0], "linux" in target()
    of_npm, of_deb = SPELT[architecture]
    if is_linux:
        # The newest version of a symbol that it asks of the C library.
        asked = re.findall(rb"GLIBC_2\.(\d+)", files["bin/rondo"][0])
        glibc = f"2.{max(map(int, asked))}"
        tag = f"manylinux_{glibc.replace('.', '_')}_{architecture}"
    else:
        tag = f"macosx_11_0_{'arm64' if architecture == 'aarch64' else architecture}"
    system = "linux" if is_linux else "darwin"
    main_package, platform_package = npm(files, system, of_npm)
    made = {
        f"rondo-{version()}-{target()}.tar.gz": tar(files, f"rondo-{version()}-{target()}/"),
        f"rondo-{version()}-py3-none-{tag}.whl": wheel(files, tag),
        f"rondo-{version()}.tgz": main_package,
        f"rondo-engine-{system}-{of_npm}-{version()}.tgz": platform_package,
        "install.sh": (ROOT / "packaging/install.sh").read_bytes(),
    }
    if is_linux:
        made[f"rondo_{version()}_{of_deb}.deb"] = deb(files, of_deb, glibc)
    for name, data in made.items():
        (out / name).write_bytes(data)
        print(f"{out / name}: {len(data) / 1e6:.1f} MB")
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(made.items()))
    (out / "SHA256SUMS").write_text(sums)
    if is_linux:
        print(f"they need glibc {glibc} or newer, and libstdc++ of GCC 12 or newer")
    print(said(binary, "--version").strip())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(str(Path(sys.argv[1]).resolve()), sys.argv[2])
