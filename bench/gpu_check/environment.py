"""Where the programs run: the GPU, the driver, the machine, and which programs they are."""

import hashlib
import json
import os
import re
import shutil

import programs

QUERY = ("name", "driver_version", "memory.total", "pstate", "clocks.sm", "clocks.mem", "clocks.max.sm",
         "clocks.max.mem", "temperature.gpu", "power.draw", "pcie.link.gen.current", "pcie.link.width.current",
         "ecc.mode.current", "mig.mode.current")  # fmt: skip


class NoEnvironment(Exception):
    """Nothing can be run, and why."""


def find_tool(name):
    """A tool of the driver or of the CUDA toolkit, which is often not in PATH; None where there is none."""
    toolkit = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    return shutil.which(name) or shutil.which(name, path=os.path.join(toolkit, "bin"))


def query_gpus(log):
    """What nvidia-smi says of each GPU; none where there is no nvidia-smi, or it finds none."""
    tool = find_tool("nvidia-smi")
    if tool is None:
        return []
    ran = programs.run([tool, f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader"], 30, log)
    lines = [line.split(",") for line in ran.text.splitlines() if line.count(",") == len(QUERY) - 1]
    return [dict(zip(QUERY, map(str.strip, line))) for line in lines] if ran.code == 0 else []


def describe(folder, log):
    """What the programs say of themselves and of the GPU that they see. Raises NoEnvironment."""
    program = folder / "bin" / "tuck-experiments"
    if not program.is_file():
        raise NoEnvironment(f"there is no {program}: build the target gpu_check")
    try:
        ran = programs.run([program, "--describe"], 60, log)
    except OSError as error:
        raise NoEnvironment(f"{program}: {error.strerror}") from error
    try:
        found = json.loads(ran.text)
        sound = ran.code == 0 and isinstance(found["commit"], str) and isinstance(found["simulated"], bool)
    except (ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        raise NoEnvironment(f"{program} does not say what it should; is it of another commit? {ran.why()}")
    return found


def digest_of_programs(folder, names):
    """One digest of the programs of these names that are there, and of the libraries."""
    digest = hashlib.sha256()
    for path in sorted([*(folder / "bin" / name for name in names), *(folder / "lib").glob("libtuck*"),
                        *(folder / "python" / "tuck").glob("*.so")]):
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def look(folder, names, log, command):
    """The environment of a report that runs programs of these names. Raises NoEnvironment."""
    found = describe(folder, log)
    gpus = [] if found["simulated"] else query_gpus(log)
    device = found.get("device") or {}
    if gpus and not device:
        raise NoEnvironment(f"nvidia-smi finds {gpus[0]['name']}, driver {gpus[0]['driver_version']}, but the programs "
                            "find no GPU: the driver may be too old for them")
    keys = ("version", "commit", "compiler", "cpu", "cores", "peers", "processors")
    return {key: found.get(key) for key in keys} | {
        "kernels": "simulator" if found["simulated"] else "gpu" if device else "none",
        "gpu": device.get("name"),
        "driver": device.get("driver"),
        "cuda": device.get("runtime"),
        "highest_clocks": device.get("clocks"),
        "gpus": len(gpus),
        "nvidia_smi": next((gpu for gpu in gpus if gpu["name"] == device["name"]), None),
        "programs": digest_of_programs(folder, names),
        "command": command,
    }


def short_name(gpu):
    """NVIDIA H200 is h200, as part of a file's name."""
    words = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")
    return re.sub(r"^nvidia-", "", words) or "gpu"
