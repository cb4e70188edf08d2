# What programs and tests need beyond the library: the system's package if there is one, a pinned release if not.
include(FetchContent)

function(tuck_fetch name tag repository)
  message(STATUS "${name} is not installed; fetching ${tag}")
  FetchContent_Declare(${name} GIT_REPOSITORY https://github.com/${repository} GIT_TAG ${tag} GIT_SHALLOW ON SYSTEM
                       ${ARGN})
  FetchContent_MakeAvailable(${name})
endfunction()

# CLI11::CLI11
macro(tuck_find_cli11)
  find_package(CLI11 2.1 QUIET)
  if(NOT TARGET CLI11::CLI11)
    tuck_fetch(CLI11 v2.1.2 CLIUtils/CLI11)
  endif()
endmacro()

# nlohmann_json::nlohmann_json
macro(tuck_find_json)
  find_package(nlohmann_json 3.11 QUIET)
  if(NOT TARGET nlohmann_json::nlohmann_json)
    tuck_fetch(nlohmann_json v3.11.2 nlohmann/json)
  endif()
endmacro()

# GTest::gtest_main
macro(tuck_find_gtest)
  find_package(GTest 1.12 QUIET)
  if(NOT TARGET GTest::gtest_main)
    tuck_fetch(googletest release-1.12.1 google/googletest)
  endif()
endmacro()

# ZLIB::ZLIB. Its own build would bring tests and programs along, and is not asked.
macro(tuck_find_zlib)
  find_package(ZLIB 1.2.11 QUIET)
  if(NOT TARGET ZLIB::ZLIB)
    tuck_fetch(zlib v1.2.13 madler/zlib SOURCE_SUBDIR none)
    FetchContent_GetProperties(zlib)
    enable_language(C)
    add_library(tuck_zlib STATIC)
    foreach(part adler32 crc32 deflate inffast inflate inftrees trees zutil)
      target_sources(tuck_zlib PRIVATE ${zlib_SOURCE_DIR}/${part}.c)
    endforeach()
    target_include_directories(tuck_zlib SYSTEM INTERFACE ${zlib_SOURCE_DIR})
    add_library(ZLIB::ZLIB ALIAS tuck_zlib)
  endif()
endmacro()

# benchmark::benchmark, where it is installed; only measurements need it.
macro(tuck_find_benchmark)
  find_package(benchmark 1.7 QUIET)
endmacro()
