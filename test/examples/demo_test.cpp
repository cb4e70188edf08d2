#include "examples/cli_fixture.hpp"

#include <gtest/gtest.h>

namespace {

using namespace cli;

TEST(Demo, shows_the_tensors_that_come_with_it) {
  const answer a = run_program({TUCK_DEMO});
  EXPECT_EQ(a.code, 0) << a.err;
  for (const char* part : {"vgg_digits_epoch00_relu1", "vgg_digits_epoch08_pool1", "cDMA", "geometric mean"})
    EXPECT_NE(a.out.find(part), std::string::npos) << part << '\n' << a.out;
  for (size_t begin = 0, end; (end = a.out.find('\n', begin)) != std::string::npos; begin = end + 1)
    EXPECT_LE(end - begin, 100u) << "too wide for a terminal: " << a.out.substr(begin, end - begin);
}

TEST(Demo, takes_any_element_type) {
  const scratch::directory dir;
  for (const char* descr : {"|u1", "<i2", "<f2", "<u4", "<f8"})
    scratch::write(dir / (std::string(descr).substr(1) + ".npy"),
                   npy(dict(descr, "(1000,)"), sparse_data(1000 * static_cast<size_t>(descr[2] - '0'))));
  const answer a = run_program({TUCK_DEMO, dir / ""});
  EXPECT_EQ(a.code, 0) << a.err;
}

TEST(Demo, names_what_it_cannot_show) {
  const scratch::directory dir;
  EXPECT_EQ(run_program({TUCK_DEMO, dir / ""}).err, "tuck_demo: " + (dir / "") + ": there are no .npy files\n");
  scratch::write(dir / "bad.npy", "garbage");
  const answer a = run_program({TUCK_DEMO, dir / ""});
  EXPECT_EQ(a.code, 1);
  EXPECT_EQ(a.err, "tuck_demo: " + (dir / "bad.npy") + ": not a .npy file\n");
  EXPECT_EQ(run_program({TUCK_DEMO, "two", "directories"}).code, 2);
}

}  // namespace
