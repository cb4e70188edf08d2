# Where kernels run: TUCK_BACKEND = cuda (nvcc and a GPU), sim (the simulator of test/cudasim), or auto.
set(TUCK_BACKEND auto CACHE STRING "cuda, sim, or auto: CUDA when an nvcc and a GPU are there, else the simulator")
set_property(CACHE TUCK_BACKEND PROPERTY STRINGS auto cuda sim)

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
elseif(tuck_backend STREQUAL "sim")
  add_subdirectory(test/cudasim)
else()
  message(FATAL_ERROR "TUCK_BACKEND is '${TUCK_BACKEND}'; it can be cuda, sim or auto")
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

function(tuck_for_device name)
  if(tuck_backend STREQUAL "cuda")
    # Not as a feature: an older CMake knows none of a newer nvcc's.
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
  else()
    # Kernels of many codecs in one file: -O3 takes minutes.
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++;-O2")
    target_link_libraries(${name} PRIVATE cudasim)  # first: its headers stand before the library's
  endif()
  target_link_libraries(${name} PRIVATE tuck::tuck tuck_warnings)
endfunction()
