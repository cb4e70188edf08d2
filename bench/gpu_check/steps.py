"""The steps of a check, in their order."""

import measurements
import proofs
from step import Step

HALF_HOUR = 30  # minutes that the steps' limits are made for

# Experiments that a half hour on a new GPU should have, but for which the library has no kernels.
NOT_THERE = (
    ("look-back: windows of 32, 128 and 256, tickets of 1, 2 and 4, delays",
     "there is one look-back; experiment/look_back has its share by chunks that are small"),
    ("an input ring of 1 to 3 stages", "kernels keep a chunk in registers"),
    ("frames by 128 and 512 threads", "their kernels have 256; experiment/threads varies the block coder's alone"),
    ("chunks of 32 KiB, but of deflate", "chunks on the device have 16 KiB at most"),
    ("reads of host memory by 1 to 16 blocks", "swap_stream brings frames back by the copy engine"),
    ("a GEMM beside a swap", "experiment/blocks has a kernel that computes and touches no memory in its place"),
)  # fmt: skip


def test(program, minutes):
    return Step(f"test/{program}", "all tests of that program", minutes,
                lambda place: proofs.work_test(program, place), program=program)  # fmt: skip


def sanitizer(tool):
    return Step(f"sanitizer/{tool}", "a few tests of every codec under compute-sanitizer", 3,
                lambda place: proofs.work_sanitizer(tool, place), gpu_only=True)  # fmt: skip


def experiment(name, what, minutes, read, size="64MiB", step=None):
    return Step(step or f"experiment/{name}", what, minutes,
                lambda place: measurements.work_experiment(name, size, read, place),
                program="tuck-experiments")  # fmt: skip


def worst(figure):
    return lambda records: measurements.read_worst(figure, records)


STEPS = (
    experiment("copy", "copies on the device and over the link", 1, measurements.read_copies, "256MiB", "copy"),
    test("device_functions_test", 1), test("device_test", 5), test("delta_test", 2), test("batch_test", 4),
    test("block_test", 2), test("swap_test", 4), test("device_bench_test", 2), test("gpu_gzip_device_test", 1),
    test("kv_pool_test", 1), test("evicting_pool_test", 1), test("torch_allocator_test", 1),
    Step("examples", "the example programs", 2, proofs.work_examples),
    sanitizer("memcheck"), sanitizer("racecheck"), sanitizer("initcheck"), sanitizer("synccheck"),
    experiment("look_back", "ZVC by small chunks, where look-back decides", 1,
               lambda records: measurements.read_best("chunks_per_us", records)),
    experiment("chunks", "each codec at six sparsities, by chunk size", 4, worst("R")),
    experiment("threads", "ZVC's block coder by 128, 256 and 512 threads", 1, worst("R")),
    experiment("ablation", "ZVC with checksums, other alignments, counting alone", 1, worst("R")),
    experiment("blocks", "swapping out by 1 to 64 blocks, alone and beside a kernel", 2, worst("of_link")),
    experiment("latency", "short calls: alone, in a row, in a graph, in a batch", 1, measurements.read_shortest),
    Step("sweep", "tuck-bench --quick", 3, measurements.work_sweep, program="tuck-bench"),
    experiment("swap", "swapping out and in by each path", 2, worst("of_link"), "256MiB", "swap"),
    Step("peers", "nvCOMP, where it was found, and CUB beside", 2, measurements.work_peers, gpu_only=True,
         program="tuck-bench"),
    Step("ncu", "Nsight Compute on the two kernels of the least R", 2, measurements.work_ncu, gpu_only=True,
         program="tuck-bench"),
)  # fmt: skip


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
