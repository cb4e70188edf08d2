# Which tests there are. Sanitizers build only those in which they can find something.
option(TUCK_LONG_TESTS "Compile the generic tests for every codec and type" OFF)
set(TUCK_TESTS all CACHE STRING "all, memory (what an address sanitizer may find something in) or threads (the same of races)")
set_property(CACHE TUCK_TESTS PROPERTY STRINGS all memory threads)

set(tuck_no_memory native_test model_test bench_test peers_test points_test predict_test timeline_test
                   golden_test swap_training_test tuner_test tuck_bench_test device_bench_test cli_test)
set(tuck_no_threads ${tuck_no_memory} core_test codec_test deflate_test chain_test quantize_test gpu_gzip_test
                    tools_test any_frame fused_relu inflate_batch small_tensors)

# Is this test, or example, to be built and run?
function(tuck_wants_test name answer)
  set(${answer} TRUE PARENT_SCOPE)
  if((TUCK_TESTS STREQUAL "memory" AND name IN_LIST tuck_no_memory) OR
     (TUCK_TESTS STREQUAL "threads" AND name IN_LIST tuck_no_threads))
    set(${answer} FALSE PARENT_SCOPE)
  endif()
endfunction()
