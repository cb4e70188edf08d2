# What tuck needs of the languages that a project has enabled by now; CUDA alone will do.
if(CMAKE_C_COMPILER_LOADED OR CMAKE_CXX_COMPILER_LOADED)
  include(CMakeFindDependencyMacro)
  find_dependency(Threads)
elseif(NOT TARGET Threads::Threads)  # which CMake looks for in C and C++ only
  add_library(Threads::Threads INTERFACE IMPORTED)
  set_target_properties(Threads::Threads PROPERTIES INTERFACE_LINK_LIBRARIES pthread)
endif()

# C++20 for the .cu files of whoever links `target` too. Generator expressions see a CUDA that is enabled later. CMake
# before 3.26 does not know that nvcc can do that; there it is a flag.
macro(tuck_adapt_to_cuda target)
  if(CMAKE_VERSION VERSION_LESS 3.26)
    target_compile_options(${target} INTERFACE $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>>)
  else()
    target_compile_features(${target} INTERFACE $<BUILD_INTERFACE:$<$<BOOL:$<CUDA_COMPILER_ID>>:cuda_std_20>>)
  endif()
endmacro()
