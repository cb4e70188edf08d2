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
  # Programs find the libraries that gpu_check puts beside them, and what these need, wherever both are carried to.
  set(CMAKE_BUILD_RPATH "$ORIGIN/../lib")
  add_link_options(LINKER:--disable-new-dtags)
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
  if(TARGET cudasim)
    set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON LINK_LIBRARY_OVERRIDE_cudasim WHOLE_ARCHIVE)
  endif()
endfunction()

function(tuck_for_device name)
  if(tuck_backend STREQUAL "cuda")
    # Not as a feature: an older CMake knows none of a newer nvcc's.
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
  else()
    # Kernels of many codecs in one file: -O3 takes minutes.
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++;-O2")
    get_target_property(type ${name} TYPE)
    if(type STREQUAL "MODULE_LIBRARY")
      foreach(property INCLUDE_DIRECTORIES COMPILE_DEFINITIONS COMPILE_OPTIONS)
        set_property(TARGET ${name} APPEND PROPERTY ${property} $<TARGET_PROPERTY:cudasim,INTERFACE_${property}>)
      endforeach()
    else()
      target_link_libraries(${name} PRIVATE cudasim)  # first: its headers stand before the library's
    endif()
  endif()
  target_link_libraries(${name} PRIVATE tuck::tuck tuck_warnings)
endfunction()

# Files that hold all codecs for all types and no logic of their own: under sanitizers they alone would take a third of
# the build, and tests have the same codecs with sanitizers.
function(tuck_never_sanitize)
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all)
  endif()
endfunction()
