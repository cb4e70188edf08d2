"""conan create cmake/packaging/conan --build=missing: a package of the headers, as the project itself installs them."""
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import copy, load

ROOT = os.path.join("..", "..", "..")


class Tuck(ConanFile):
    name = "tuck"
    description = "Codecs that shrink GPU tensors before they are moved or stored"
    license = "Apache-2.0"
    topics = ("cuda", "gpu", "compression", "tensors", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    no_copy_source = True

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, ROOT, "include/tuck/core/version.hpp"))
        self.version = ".".join(re.findall(r"VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text))

    def export_sources(self):
        root = os.path.join(self.recipe_folder, ROOT)
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*"):
            copy(self, pattern, root, self.export_sources_folder, excludes="cmake/packaging/*")

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["TUCK_PROGRAMS"] = False
        toolchain.generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()

    def package_id(self):
        self.info.clear()

    def package_info(self):
        self.cpp_info.bindirs = self.cpp_info.libdirs = []
        # The package brings its own CMake files, which also serve CUDA projects.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["share/cmake/tuck"]
