# Builds the Python package for the step `python` in BUILD/python, from the libraries of this build: for PYTHON, which
# must have nanobind and its own headers. Where that cannot be done, BUILD/python/why_not.txt says why.
set(to ${BUILD}/python)
file(REMOVE_RECURSE ${to}/tuck ${to}/why_not.txt)
file(MAKE_DIRECTORY ${to})
execute_process(COMMAND ${PYTHON} -m nanobind --cmake_dir RESULT_VARIABLE failed OUTPUT_VARIABLE nanobind ERROR_QUIET
                OUTPUT_STRIP_TRAILING_WHITESPACE)
if(failed)
  file(WRITE ${to}/why_not.txt "the build's Python had no nanobind; pip install nanobind\n")
  return()
endif()
set(options -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE=${PYTHON} -Dnanobind_DIR=${nanobind} -DTUCK_BUILD=${BUILD}
            -DTUCK_DEVICE=${DEVICE} -DCMAKE_CXX_COMPILER=${CXX})
if(DEVICE STREQUAL "cuda")
  set(ENV{CUDAARCHS} "${ARCHITECTURES}")
  # The C++ library of the machine may be an older one.
  list(APPEND options -DCMAKE_CUDA_COMPILER=${CUDACXX} "-DCMAKE_MODULE_LINKER_FLAGS=-static-libstdc++ -static-libgcc")
endif()
# Fresh: it may be another Python than before.
execute_process(COMMAND ${CMAKE_COMMAND} --fresh -S ${SOURCE}/examples/python -B ${BUILD}/python-build -G Ninja
                        ${options}
                RESULT_VARIABLE failed OUTPUT_FILE ${to}/build.log ERROR_FILE ${to}/build.log)
if(NOT failed)
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${BUILD}/python-build --target _tuck tuck_device
                  RESULT_VARIABLE failed OUTPUT_FILE ${to}/build.log ERROR_FILE ${to}/build.log)
endif()
if(failed)
  file(WRITE ${to}/why_not.txt "the package could not be built, as build.log beside it says\n")
  return()
endif()
file(COPY ${SOURCE}/examples/python/tuck DESTINATION ${to} FILES_MATCHING PATTERN "*.py")
file(GLOB libraries ${BUILD}/python-build/_tuck.*.so)
file(COPY ${libraries} ${BUILD}/python-build/libtuck_device.so DESTINATION ${to}/tuck)
