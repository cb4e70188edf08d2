"""The steps of a check, in their order."""

import measurements
import proofs
import python_package
from step import Step

MINUTES = 9  # of a call

def test(program, seconds):
    return Step(f"test/{program}", "all tests of that program", seconds,
                lambda place: proofs.work_test(program, place), program=program)  # fmt: skip


def sanitizer(tool, seconds):
    return Step(f"sanitizer/{tool}", "a few tests of every codec under compute-sanitizer", seconds,
                lambda place: proofs.work_sanitizer(tool, place), gpu_only=True)  # fmt: skip


def experiment(name, what, seconds, read, size="64MiB", step=None, gpu_only=False):
    return Step(step or f"experiment/{name}", what, seconds,
                lambda place: measurements.work_experiment(name, size, read, place),
                gpu_only=gpu_only, program="tuck-experiments")  # fmt: skip


def worst(figure):
    return lambda records: measurements.read_worst(figure, records)


def codecs(size, types, seconds, gpu_only=True):
    return Step(f"codecs/{size}", f"each codec both ways at {size}, {types}", seconds,
                lambda place: measurements.work_codecs(size, types, place),
                gpu_only=gpu_only, program="tuck-bench")  # fmt: skip


# In the order of what they are worth: what never ran on a GPU, or failed there, first. The limits of a half sum to less
# than MINUTES, so that two calls do all, even if every step hangs. The 25 that an H100 has run took 194 s.
FIRST_HALF = (
    test("swap_test", 60), test("evicting_pool_test", 20), sanitizer("racecheck", 80), sanitizer("initcheck", 60),
    Step("python", "the Python package with arrays on the GPU: its tests, and times of 64 MiB by each codec", 60,
         python_package.work_python),
    Step("dense", "huffman and codebooks on dense bf16 and fp8", 40, measurements.work_dense, program="tuck-bench"),
    codecs("256MiB", "f32,bf16", 85, gpu_only=False),  # the others would be the same without a GPU
    codecs("16MiB", "f32", 25),
    experiment("machine", "latencies and rates of instructions, memory and messages", 20, measurements.read_machine,
               step="machine", gpu_only=True),
    Step("ans", "nvCOMP's ANS on bf16 and fp8, by chunk size", 55, measurements.work_ans, gpu_only=True,
         program="tuck-bench"),
    codecs("1MiB", "f32", 15), experiment("copy", "copies on the device and over the link", 10,
                                          measurements.read_copies, "256MiB", "copy"),
)  # fmt: skip
SECOND_HALF = (
    codecs("64MiB", "f32", 30),
    test("device_functions_test", 10), test("device_test", 45), test("delta_test", 20), test("batch_test", 20),
    test("block_test", 20), test("device_bench_test", 10), test("gpu_gzip_device_test", 10), test("kv_pool_test", 10),
    test("torch_allocator_test", 10), Step("examples", "the example programs", 20, proofs.work_examples),
    experiment("swap", "swapping out and in by each path", 30, worst("of_link"), "256MiB", "swap"),
    experiment("latency", "short calls: alone, in a row, in a graph, in a batch", 10, measurements.read_shortest),
    Step("ncu", "Nsight Compute on the two kernels of the least R", 40, measurements.work_ncu, gpu_only=True,
         program="tuck-bench"),
    sanitizer("memcheck", 25), sanitizer("synccheck", 25),
    experiment("blocks", "swapping out by 1 to 64 blocks, alone and beside a kernel", 25, worst("of_link")),
    Step("sweep", "tuck-bench --quick", 30, measurements.work_sweep, program="tuck-bench"),
    Step("peers", "nvCOMP, where it was found, and CUB beside", 30, measurements.work_peers, gpu_only=True,
         program="tuck-bench"),
)  # fmt: skip
STEPS = FIRST_HALF + SECOND_HALF


def program_names():
    """Of all programs that steps run."""
    return sorted({step.program for step in STEPS if step.program} | {name for name, *_ in proofs.EXAMPLES})


def chosen(names):
    """The steps of these names or groups, in their own order; raises ValueError about one that is none."""
    if not names:
        return list(STEPS)
    for name in names:
        if not any(is_of(step, name) for step in STEPS):
            raise ValueError(f"{name} is no step; --list has them")
    return [step for step in STEPS if any(is_of(step, name) for name in names)]


def is_of(step, name):
    return step.name == name or step.name.startswith(f"{name}/")
