# The target `docs`: the reference, made by Doxygen of the headers with what users call. A comment that is missing or
# wrong is an error.
set(documented
  all_codecs.hpp host.hpp device.cuh swap.cuh swap.hpp model.hpp
  codec/concept.hpp codec/bitpack/bitpack.hpp codec/chain/chain.hpp codec/chain/chains.hpp codec/deflate/deflate.hpp
  codec/codebooks/codebooks.hpp codec/huffman/huffman.hpp codec/inflate/inflate.hpp
  codec/quantize/quantizer.hpp codec/quantize/quantize.hpp codec/mask/rle.hpp codec/steps/steps.hpp
  codec/transform/differences.hpp codec/transform/rows.hpp codec/mask/zvc.hpp
  core/dtype.hpp core/span.hpp core/status.hpp core/version.hpp
  frame/any_codec.hpp frame/batch.cuh frame/block.cuh frame/delta.cuh frame/device.cuh
  frame/delta_writers.hpp frame/execution.hpp frame/format.hpp frame/host.hpp frame/host_delta.hpp
  frame/launch.hpp frame/reader.hpp frame/statistics.cuh
  memory/cuda_mr.cuh memory/frame_buffer.cuh memory/frame_buffer.hpp memory/resource.hpp
  model/advisor.hpp model/bound_control.hpp model/predictor.hpp model/predictor_file.hpp
  model/vdnn.hpp
  swap/swap_options.hpp swap/swap_stream.cuh swap/swap_stream.hpp)
list(TRANSFORM documented PREPEND "${PROJECT_SOURCE_DIR}/include/tuck/")
list(APPEND documented ${PROJECT_SOURCE_DIR}/docs/reference.md)
list(JOIN documented " " tuck_documented)
configure_file(${PROJECT_SOURCE_DIR}/docs/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)

find_program(TUCK_DOXYGEN doxygen)
if(TUCK_DOXYGEN)
  add_custom_target(docs COMMAND ${TUCK_DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile
                    COMMENT "The reference: ${PROJECT_BINARY_DIR}/docs/html/index.html" VERBATIM)
endif()
