#include "planted.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <exception>
#include <string>

int main(int argc, char** argv) {
  const std::string planted = "--planted=";
  if (argc > 1 && std::string(argv[1]).starts_with(planted)) {
    try {
      return sim_test::run_planted(argv[1] + planted.size()) ? 0 : 2;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      return 3;
    }
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
