"""conda.py SOURCE FOLDER COMPILER: builds the conda package of SOURCE in FOLDER, runs the tests of its recipe and installs
it in the empty prefix FOLDER/prefix, where a program is compiled with it. No channel outside FOLDER is asked: in one of
its own, packages without content stand for the compiler and the tools that conda-forge has, and those of this machine
do the work. Exit code 77: there is no rattler_build or rattler."""
import asyncio
import os
import pathlib
import shutil
import subprocess
import sys

try:
    import rattler
    import rattler_build
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


class Log:
    """Prints what the build says."""

    def on_log(self, event):
        print(event.message, flush=True)

    def on_build_step(self, event):
        print(event.message, flush=True)

    def on_download_start(self, event):
        pass

    on_download_progress = on_download_complete = on_download_start


def make_tools(channel, compiler):
    """Makes the channel. Its compiler sets CXX in an environment, as that of conda-forge does."""
    platform = str(rattler.Platform.current())
    script = channel / "activate.sh"
    script.write_text(f"export CXX={compiler}\n")
    versions = {"cmake": "99", f"gxx_{platform}": "99", "ninja": "99", "pkg-config": "99", f"sysroot_{platform}": "2.28"}
    for name, version in versions.items():
        file = rattler_build.FileEntry.from_paths(script, f"etc/conda/activate.d/{name}.sh")
        rattler_build.assemble_package(name, version, platform, "0", channel / platform, files=[file])
    asyncio.run(rattler.index.index_fs(channel))


async def install(channel, prefix, cache):
    records = await rattler.solve([channel.as_uri()], ["tuck"], virtual_packages=rattler.VirtualPackage.detect())
    await rattler.install(records, prefix, cache_dir=cache)


def main():
    source, folder = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
    compiler = sys.argv[3]
    shutil.rmtree(folder, ignore_errors=True)
    tools, built, prefix, cache = (folder / name for name in ("tools", "built", "prefix", "cache"))
    tools.mkdir(parents=True)
    os.environ["RATTLER_CACHE_DIR"] = str(cache)
    make_tools(tools, compiler)
    packaging = source / "cmake/packaging/conda"
    recipe = rattler_build.Stage0Recipe.from_file(packaging / "recipe.yaml")
    recipe.run_build(rattler_build.VariantConfig.from_file(packaging / "variants.yaml"),
                     rattler_build.ToolConfiguration(test_strategy="native"), built, [tools.as_uri()], Log())
    asyncio.run(rattler.index.index_fs(built))
    asyncio.run(install(built, prefix, cache))
    program = folder / "consumer"
    subprocess.check_call([compiler, "-std=c++20", "-pthread", "-I", prefix / "include",
                           *(source / "test/build/consumer").glob("*.cpp"), "-o", program])
    subprocess.check_call([program])


if __name__ == "__main__":
    main()
