# Which tests there are. Sanitizers build only those in which they can find something.
option(TUCK_LONG_TESTS "Compile the generic tests for every codec and type" OFF)
set(TUCK_TESTS all CACHE STRING
    "all, memory (what an address sanitizer may find something in), threads (the same of races) or kernels (what runs some)")
set_property(CACHE TUCK_TESTS PROPERTY STRINGS all memory threads kernels)

set(tuck_no_memory native_test model_test bench_test peers_test points_test predict_test timeline_test
                   golden_test swap_training_test tuner_test tuck_bench_test device_bench_test cli_test
                   guide_device_1 guide_device_2 guide_device_3 guide_device_4 adding_a_codec)
set(tuck_no_threads ${tuck_no_memory} core_test codec_test deflate_test chain_test quantize_test gpu_gzip_test
                    tools_test any_frame fused_relu inflate_batch small_tensors)

set(tuck_no_kernels native_test model_test bench_test peers_test points_test predict_test timeline_test tuner_test
                    core_test codec_test deflate_test chain_test quantize_test frame_test tools_test)

# Of what runs kernels, enough to run each template; compiling the rest by nvcc takes most of an hour.
option(TUCK_ALL_KERNELS "With TUCK_TESTS=kernels: all programs that run some, not a few" OFF)
set(tuck_few_kernels device_functions_test kernels_test fused_relu small_tensors)

# Is this test, or example, to be built and run?
function(tuck_wants_test name answer)
  set(${answer} TRUE PARENT_SCOPE)
  if((TUCK_TESTS STREQUAL "memory" AND name IN_LIST tuck_no_memory) OR
     (TUCK_TESTS STREQUAL "threads" AND name IN_LIST tuck_no_threads) OR
     (TUCK_TESTS STREQUAL "kernels" AND name IN_LIST tuck_no_kernels) OR
     (TUCK_TESTS STREQUAL "kernels" AND NOT TUCK_ALL_KERNELS AND NOT name IN_LIST tuck_few_kernels))
    set(${answer} FALSE PARENT_SCOPE)
  endif()
endfunction()

# The target check, with one test that is skipped for this reason.
function(tuck_skip_all reason)
  message(STATUS "Skipped: ${reason}")
  add_test(NAME ${tuck_backend} COMMAND sh -c "echo 'skipped: ${reason}'; exit 77")
  set_tests_properties(${tuck_backend} PROPERTIES SKIP_RETURN_CODE 77)
  tuck_add_check()
endfunction()

# Runs all tests, when these targets are built.
function(tuck_add_check)
  add_custom_target(check
    COMMAND ${CMAKE_COMMAND} -P ${PROJECT_SOURCE_DIR}/cmake/RunTests.cmake
    WORKING_DIRECTORY ${PROJECT_BINARY_DIR}
    USES_TERMINAL
    COMMENT "Tests")
  if(ARGN)
    add_dependencies(check ${ARGN})
  endif()
endfunction()
