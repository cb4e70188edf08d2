"""The headers of tuck, codecs for tensors in C++20 and CUDA. The package `tuck-tensors` has tuck for Python.

    g++ -std=c++20 -pthread -I "$(python -c 'import tuck_headers; print(tuck_headers.get_include())')" main.cpp
    cmake -Dtuck_ROOT="$(python -c 'import tuck_headers; print(tuck_headers.get_cmake_dir())')" ...
"""

from pathlib import Path

_HERE = Path(__file__).resolve().parent


def get_include() -> str:
    """Returns the folder for `-I`."""
    return str(_HERE / "include")


def get_cmake_dir() -> str:
    """Returns the folder that has tuckConfig.cmake, for find_package(tuck)."""
    return str(_HERE / "share" / "cmake" / "tuck")
