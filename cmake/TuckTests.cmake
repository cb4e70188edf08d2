# Which tests there are.
set(TUCK_TESTS quick CACHE STRING
    "quick (what users must be able to trust), full (all), memory and threads (where sanitizers may find something), \
kernels (what runs some)")
set_property(CACHE TUCK_TESTS PROPERTY STRINGS quick full memory threads kernels)
option(TUCK_LONG_TESTS "Tests of every codec and type, compiler, flag and architecture, which take long to compile" OFF)
option(TUCK_ALL_KERNELS "With TUCK_TESTS=kernels: all programs that run some, not a few" OFF)

# Examples are short, and their headers have tests of their own.
set(tuck_no_memory cuda_types_test any_frame fused_relu inflate_batch small_tensors kv_cache evicting_pool swap_training kernels_test
                   native_test model_test peers_test points_test predict_test timeline_test
                   golden_test swap_training_test tuck_bench_test device_bench_test cli_test
                   guide_device_1 guide_device_2 guide_device_3 adding_a_codec adding_a_codec_test
                   cudasim_page)
set(tuck_no_threads ${tuck_no_memory} core_test codec_test deflate_test chain_test quantize_test gpu_gzip_test
                    files_test)
# One build is enough for these. The fuzzers have ASan and UBSan for quantize. The engine executes kernels_test. Of the
# examples' tests each has one sanitizer: those that make threads TSan, the others ASan and UBSan.
if(NOT TUCK_LONG_TESTS)
  list(APPEND tuck_no_memory quantize_test evicting_pool_test guide_device_4 torch_allocator_test)
  list(APPEND tuck_no_threads block_test gpu_gzip_device_test guide_device_4 kv_pool_test)
  set(tuck_no_full_sim block_test kernels_test)
endif()
set(tuck_no_kernels cuda_types_test native_test model_test peers_test points_test predict_test timeline_test
                    core_test codec_test deflate_test chain_test quantize_test frame_test files_test)
# Of what runs kernels, enough to run each template; compiling the rest by nvcc takes most of an hour.
set(tuck_few_kernels device_functions_test kernels_test nvrtc_test fused_relu small_tensors thrust_vectors)
# Compilers, measurements and what takes long.
set(tuck_no_quick cuda_types_test native_test peers_test points_test predict_test timeline_test tuck_bench_test
                  device_bench_test kernels_test block_test cudasim_test swap_training swap_training_test inflate_batch
                  kv_cache torch_allocator_test guide_device_1 guide_device_2 guide_device_3)

set(tuck_quick_python docs.links format.decoder)

# The file that this variable of the environment names gets a line of the CPU time of each command of the build and of
# each test that is a program (.ci/timed).
if(NOT "$ENV{TUCK_TIMES}" STREQUAL "")
  set(tuck_timed ${PROJECT_SOURCE_DIR}/.ci/timed $ENV{TUCK_TIMES})
  list(JOIN tuck_timed " " tuck_timed_command)
  set_property(GLOBAL PROPERTY RULE_LAUNCH_COMPILE "${tuck_timed_command}")
  set_property(GLOBAL PROPERTY RULE_LAUNCH_LINK "${tuck_timed_command}")
  set(CMAKE_CROSSCOMPILING_EMULATOR ${tuck_timed})
endif()

# Is this test, or example, to be built and run?
function(tuck_wants_test name answer)
  set(${answer} TRUE PARENT_SCOPE)
  if(name IN_LIST tuck_no_${TUCK_TESTS} OR name IN_LIST tuck_no_${TUCK_TESTS}_${tuck_backend} OR
     (TUCK_TESTS STREQUAL "kernels" AND NOT TUCK_ALL_KERNELS AND NOT name IN_LIST tuck_few_kernels))
    set(${answer} FALSE PARENT_SCOPE)
  endif()
endfunction()

# How tests are compiled: nothing in them is timed, and all codecs for all types take longer to compile than to run.
set(tuck_test_options $<$<COMPILE_LANGUAGE:CXX>:-Og> $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
# AddressSanitizer's checks as calls in what is large: a third less time for g++, and tests run hardly longer.
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=address")
  list(APPEND tuck_test_options
       $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=asan-instrumentation-with-call-threshold=150>)
endif()
# The files of a program as one translation unit: what they share is compiled once.
option(TUCK_UNITY "Compile the files of each test together" ON)
# How much they try (test/support/effort.hpp). The quick tests are the programs of the full tests: nothing is compiled
# again.
if(TUCK_LONG_TESTS)
  list(APPEND tuck_test_options -DTUCK_LONG_TESTS)
endif()
if(TUCK_TESTS STREQUAL "quick")
  set(tuck_test_environment TUCK_BRIEF=1)
endif()

# tuck_one_unit(variable name source...): a file of this name that includes the sources, for compilers that CMake does
# not give several files at once.
function(tuck_one_unit variable name)
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/${name})
  list(TRANSFORM ARGN REPLACE "(.+)" "#include \"\\1\"\n" OUTPUT_VARIABLE lines)
  list(JOIN lines "" lines)
  file(CONFIGURE OUTPUT ${unit} CONTENT "${lines}")
  set(${variable} ${unit} PARENT_SCOPE)
endfunction()

file(WRITE ${PROJECT_BINARY_DIR}/googletest-programs.txt "")

# tuck_add_gtest(name [shards]): the tests of a program, as one process or several beside each other. Each says what
# passed in test-results/, where RunTests.cmake counts it.
function(tuck_add_gtest name)
  set(shards 1)
  if(ARGN)
    set(shards ${ARGN})
  endif()
  foreach(shard RANGE 1 ${shards})
    set(test ${name})
    if(shards GREATER 1)
      string(APPEND test ".${shard}")
    endif()
    math(EXPR index "${shard} - 1")
    add_test(NAME ${test} COMMAND ${name})
    set_tests_properties(${test} PROPERTIES TIMEOUT 1200 COST ${shards} ENVIRONMENT
      "GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/test-results/${test}.xml;GTEST_BRIEF=1;GTEST_TOTAL_SHARDS=${shards};\
GTEST_SHARD_INDEX=${index};GTEST_FILTER=*;GTEST_REPEAT=1;${tuck_test_environment}")
    file(APPEND ${PROJECT_BINARY_DIR}/googletest-programs.txt "${test}\n")
  endforeach()
  set_property(GLOBAL APPEND PROPERTY tuck_tests ${name})
endfunction()

# The target check, with one test that is skipped for this reason.
function(tuck_skip_all reason)
  message(STATUS "Skipped: ${reason}")
  add_test(NAME ${tuck_backend} COMMAND sh -c "echo 'skipped: ${reason}'; exit 77")
  set_tests_properties(${tuck_backend} PROPERTIES SKIP_RETURN_CODE 77)
  tuck_add_check()
endfunction()

# Runs all tests, when these targets are built. tuck_least_tests: -DLEAST= for RunTests.cmake.
function(tuck_add_check)
  add_custom_target(check
    COMMAND ${CMAKE_COMMAND} ${tuck_least_tests} -P ${PROJECT_SOURCE_DIR}/cmake/RunTests.cmake
    WORKING_DIRECTORY ${PROJECT_BINARY_DIR}
    USES_TERMINAL
    COMMENT "Tests")
  if(ARGN)
    add_dependencies(check ${ARGN})
  endif()
endfunction()
