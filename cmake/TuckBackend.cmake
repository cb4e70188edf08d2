# Where kernels run: TUCK_BACKEND = cuda (nvcc and a GPU), sim (the simulator of test/cudasim), ptx (nvcc, and the engine
# of test/ptx that executes its PTX), or auto.
set(TUCK_BACKEND auto CACHE STRING "cuda, sim, ptx, or auto: CUDA when an nvcc and a GPU are there, else the simulator")
set_property(CACHE TUCK_BACKEND PROPERTY STRINGS auto cuda sim ptx)
set(TUCK_PTX_ARCH 75 CACHE STRING "The architecture that the backend ptx has nvcc compile for")
set_property(CACHE TUCK_PTX_ARCH PROPERTY STRINGS 75 80 86 89 90 100 120)

set(tuck_backend ${TUCK_BACKEND})
if(tuck_backend STREQUAL "auto")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER AND EXISTS /dev/nvidiactl)
    set(tuck_backend cuda)
  else()
    set(tuck_backend sim)
  endif()
endif()
message(STATUS "Kernels run by: ${tuck_backend}")

if(tuck_backend STREQUAL "cuda")
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES native)
  endif()
  enable_language(CUDA)
  # Programs find the libraries that gpu_check puts beside them, and what these need, wherever both are carried to.
  set(CMAKE_BUILD_RPATH "$ORIGIN/../lib")
  add_link_options(LINKER:--disable-new-dtags)
elseif(tuck_backend STREQUAL "sim")
  set(tuck_simulator cudasim)
  add_subdirectory(test/cudasim)
elseif(tuck_backend STREQUAL "ptx")
  find_program(TUCK_PTX_NVCC nvcc HINTS ENV CUDA_PATH PATH_SUFFIXES bin PATHS /usr/local/cuda/bin)
  if(TUCK_PTX_NVCC)
    if(NOT DEFINED CMAKE_CUDA_COMPILER)
      set(CMAKE_CUDA_COMPILER ${TUCK_PTX_NVCC})
    endif()
    # PTX that the engine can read, no machine code; the host's code is compiled quickly.
    set(CMAKE_CUDA_ARCHITECTURES ${TUCK_PTX_ARCH}-virtual)
    set(CMAKE_CUDA_RUNTIME_LIBRARY None)
    set(CMAKE_CUDA_FLAGS_RELEASE "-O1 -DNDEBUG" CACHE STRING "nvcc's flags")
    enable_language(CUDA)
    set(tuck_simulator cudaptx)
    add_subdirectory(test/ptx)
    file(STRINGS test/ptx/may_read_unwritten.txt tuck_unwritten REGEX "^[^#]")
    list(TRANSFORM tuck_unwritten REPLACE " .*" "")
    list(JOIN tuck_unwritten ":" tuck_unwritten)
    set(tuck_test_environment CUDASIM_MAY_READ_UNWRITTEN=${tuck_unwritten})
  else()
    set(tuck_backend_lacks "there is no nvcc, which the backend ptx needs")
    return()
  endif()
else()
  message(FATAL_ERROR "TUCK_BACKEND is '${TUCK_BACKEND}'; it can be cuda, sim, ptx or auto")
endif()

# Programs and libraries of .cu files: by nvcc, or as C++ on the simulator.
function(tuck_add_device_executable name)
  add_executable(${name} ${ARGN})
  tuck_for_device(${name} ${ARGN})
endfunction()

function(tuck_add_device_library name)
  add_library(${name} STATIC ${ARGN})
  tuck_for_device(${name} ${ARGN})
endfunction()

# A shared library that programs load while they run. It has no simulator of its own, which would know nothing of its
# program's memory and streams: the program lends it the one that it has (tuck_lends_simulator).
function(tuck_add_device_module name)
  add_library(${name} MODULE ${ARGN})
  tuck_for_device(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden
                                           LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
endfunction()

# Makes a program export the simulator, also what it does not call itself.
function(tuck_lends_simulator name)
  if(tuck_simulator)
    set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON
                                             LINK_LIBRARY_OVERRIDE_${tuck_simulator} WHOLE_ARCHIVE)
  endif()
endfunction()

# First: its headers stand before the library's.
function(tuck_use_simulator name)
  get_target_property(type ${name} TYPE)
  if(type STREQUAL "MODULE_LIBRARY")
    foreach(property INCLUDE_DIRECTORIES COMPILE_DEFINITIONS COMPILE_OPTIONS)
      set_property(TARGET ${name} APPEND PROPERTY ${property}
                                                  $<TARGET_PROPERTY:${tuck_simulator},INTERFACE_${property}>)
    endforeach()
  else()
    target_link_libraries(${name} PRIVATE ${tuck_simulator})
  endif()
endfunction()

function(tuck_for_device name)
  if(tuck_backend STREQUAL "sim")
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX)
    # Kernels of many codecs in one file: -O3 takes minutes, and -O1 half as long again as -Og. (g++ 12 takes objects
    # without members for uninitialised ones.)
    target_compile_options(${name} PRIVATE -Og $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  else()
    # Not as a feature: an older CMake knows none of a newer nvcc's.
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
  endif()
  if(tuck_backend STREQUAL "ptx")
    target_compile_options(${name} PRIVATE
      "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-cudart none;SHELL:-Xfatbin --compress=false;-lineinfo>")
  endif()
  if(tuck_simulator)
    tuck_use_simulator(${name})
  endif()
  target_link_libraries(${name} PRIVATE tuck::tuck tuck_warnings)
endfunction()

# Programs of the simulator that take kernels of tuck_device_codecs, in place of compiling them again. Sanitizers have
# fewer codecs, and so few kernels in several programs that each compiles its own.
function(tuck_share_kernels)
  if(NOT tuck_backend STREQUAL "sim" OR CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    return()
  endif()
  foreach(name ${ARGN})
    target_compile_options(${name} PRIVATE "SHELL:-include ${PROJECT_SOURCE_DIR}/examples/tuck/kernels.cuh")
    tuck_link_kernels(${name})
  endforeach()
endfunction()
function(tuck_link_kernels name)  # by its file: some programs have a simulator of their own to lend
  target_link_libraries(${name} PRIVATE $<TARGET_FILE:tuck_device_codecs> tuck_host_codecs)
  add_dependencies(${name} tuck_device_codecs)
endfunction()

# Files that hold all codecs for all types and no logic of their own: under sanitizers they alone would take a third of
# the build, and tests have the same codecs with sanitizers.
function(tuck_never_sanitize)
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all)
  endif()
endfunction()
