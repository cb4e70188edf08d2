#include "support/files.hpp"

#include "support/scratch.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <thread>

namespace {

using namespace tuck::tools;

mode_t mode_of(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

template <class Work> std::string message_of(const Work& work) {
  try {
    work();
  } catch (const file_error& e) {
    return e.what();
  }
  return "";
}

void write_all(const std::string& path, const std::string& content) {
  output_file file(path);
  file.write(bytes_of(content));
  file.commit();
}

using names = std::vector<std::string>;

TEST(FileError, is_one_line) {
  EXPECT_STREQ(file_error("a\nb", "c\rd").what(), "a?b: c?d");
  EXPECT_STREQ(file_error("a", ENOENT).what(), "a: No such file or directory");
  EXPECT_STREQ(file_error("", ENOENT).what(), "'': No such file or directory");
}

TEST(ReadFile, whole_files) {
  const scratch::directory dir;
  for (const size_t size : {0u, 1u, 100000u}) {
    const std::string content = scratch::sparse_data(size);
    scratch::write(dir / "a", content);
    const byte_buffer read = read_file(dir / "a");
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(read.all().data()), read.size()), content);
  }
}

TEST(InputFile, piece_by_piece) {
  const scratch::directory dir;
  const std::string content = scratch::sparse_data(1000);
  scratch::write(dir / "a", content);
  input_file file(dir / "a");
  EXPECT_EQ(file.size(), 1000u);
  std::string read, piece(300, ' ');
  const tuck::bytes room(reinterpret_cast<std::byte*>(piece.data()), piece.size());
  for (const uint64_t expected : {300u, 300u, 300u, 100u, 0u, 0u}) {
    ASSERT_EQ(file.read(room), expected);
    read += piece.substr(0, expected);
  }
  EXPECT_EQ(read, content);
}

TEST(InputFile, notices_a_file_that_changes) {
  const scratch::directory dir;
  const std::string changed = dir / "a" + ": the file changed its size while it was read";
  for (const size_t later : {5u, 20u}) {
    scratch::write(dir / "a", std::string(10, 'x'));
    input_file file(dir / "a");
    scratch::write(dir / "a", std::string(later, 'x'));
    byte_buffer room(100);
    EXPECT_EQ(message_of([&] { file.read(room.all()); }), changed);
  }
}

TEST(ReadFile, refuses_what_is_no_regular_file) {
  const scratch::directory dir;
  EXPECT_EQ(message_of([&] { read_file(dir / "none"); }), dir / "none" + ": No such file or directory");
  EXPECT_EQ(message_of([&] { read_file(dir / ""); }), dir / "" + ": Is a directory");
  EXPECT_EQ(message_of([&] { read_file("/dev/null"); }), "/dev/null: not a regular file");
}

TEST(ReadFile, reads_a_pipe_to_its_end) {
  const scratch::directory dir;
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(message_of([&] { input_file file(dir / "pipe"); }), dir / "pipe" + ": not a regular file");
  const std::string content(200'000, 'x');
  std::jthread writer([&] { scratch::write(dir / "pipe", content); });
  const byte_buffer read = read_file(dir / "pipe");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(read.all().data()), read.size()), content);
}

TEST(OutputFile, appears_on_commit) {
  const scratch::directory dir;
  {
    output_file file(dir / "a");
    file.write(bytes_of("one "));
    file.write(bytes_of("two"));
    EXPECT_FALSE(std::filesystem::exists(dir / "a"));
    file.commit();
  }
  EXPECT_EQ(scratch::read(dir / "a"), "one two");
  EXPECT_EQ(dir.names(), names{"a"});
}

TEST(OutputFile, without_commit_nothing_changes) {
  const scratch::directory dir;
  scratch::write(dir / "a", "old");
  EXPECT_THROW(
      {
        output_file file(dir / "a");
        file.write(bytes_of("new"));
        throw std::runtime_error("on the way");
      },
      std::runtime_error);
  EXPECT_EQ(scratch::read(dir / "a"), "old");
  EXPECT_EQ(dir.names(), names{"a"});
}

TEST(OutputFile, has_the_mode_of_a_plain_open) {
  const scratch::directory dir;
  const mode_t before = ::umask(027);
  write_all(dir / "fresh", "x");
  ::umask(before);
  EXPECT_EQ(mode_of(dir / "fresh"), 0640u);
  ASSERT_EQ(::chmod((dir / "fresh").c_str(), 0604), 0);
  write_all(dir / "fresh", "y");
  EXPECT_EQ(mode_of(dir / "fresh"), 0604u);
}

TEST(OutputFile, follows_links) {
  const scratch::directory dir;
  std::filesystem::create_directory(dir / "sub");
  std::filesystem::create_symlink("sub/target", dir / "link");
  for (const char* content : {"to a link into nothing", "to a link to a file"}) {
    write_all(dir / "link", content);
    EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
    EXPECT_EQ(scratch::read(dir / "sub/target"), content);
  }
  std::filesystem::create_symlink("loop", dir / "loop");
  EXPECT_EQ(message_of([&] { write_all(dir / "loop", "x"); }), dir / "loop" + ": Too many levels of symbolic links");
}

TEST(OutputFile, refuses_places_that_cannot_be) {
  const scratch::directory dir;
  scratch::write(dir / "file", "x");
  const auto refusal = [&](const std::string& path) {
    const std::string text = message_of([&] { output_file file(path); });
    return text.substr(std::min(text.size(), path.size() + 2));
  };
  EXPECT_EQ(refusal(dir / "file/below"), "Not a directory");
  EXPECT_EQ(refusal(dir / "none/below"), "No such file or directory");
  EXPECT_EQ(refusal(dir / ""), "Is a directory");
  EXPECT_EQ(refusal(dir / "."), "Is a directory");
  EXPECT_EQ(refusal(dir / "new/"), "Is a directory");
  EXPECT_EQ(dir.names(), names{"file"});
}

TEST(OutputFile, long_names) {
  const scratch::directory dir;
  const std::string longest(255, 'n');
  write_all(dir / longest, "x");
  EXPECT_EQ(dir.names(), names{longest});
  EXPECT_NE(message_of([&] { write_all(dir / (longest + "n"), "x"); }), "");
  EXPECT_EQ(dir.names(), names{longest});
}

TEST(OutputFile, devices_are_written_directly) {
  write_all("/dev/null", "x");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_EQ(message_of([] { write_all("/dev/full", "x"); }), "/dev/full: No space left on device");
}

TEST(SameFile, by_identity_not_by_name) {
  const scratch::directory dir;
  scratch::write(dir / "a", "x");
  scratch::write(dir / "b", "x");
  std::filesystem::create_hard_link(dir / "a", dir / "hard");
  std::filesystem::create_symlink("a", dir / "soft");
  EXPECT_TRUE(same_file(dir / "a", dir / "./a"));
  EXPECT_TRUE(same_file(dir / "a", dir / "hard"));
  EXPECT_TRUE(same_file(dir / "soft", dir / "a"));
  EXPECT_FALSE(same_file(dir / "a", dir / "b"));
  EXPECT_FALSE(same_file(dir / "none", dir / "none"));
}

}  // namespace
