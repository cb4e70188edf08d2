#include "support/files.hpp"

#include "support/scratch.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sched.h>
#include <cerrno>
#include <csignal>
#include <thread>

namespace {
std::vector<std::string> calls;  // of those below
}  // namespace

// In place of those of the C library.
extern "C" int fsync(int descriptor) {
  struct stat status;
  calls.push_back(::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode) ? "fsync folder" : "fsync file");
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}
extern "C" int rename(const char* from, const char* to) noexcept {
  calls.emplace_back("rename");
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

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

// Runs work in a process of its own, without root's rights if `as_nobody`. Returns its status.
template <class Work> int in_child(bool as_nobody, const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_ready = !as_nobody || ::getuid() != 0 || (::setgid(65534) == 0 && ::setuid(65534) == 0);
    try {
      ::_exit(is_ready && work() ? 0 : 1);
    } catch (const std::exception& e) {
      ::_exit((std::cerr << e.what() << '\n', 2));
    }
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

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

TEST(OutputFile, is_on_the_disk_before_and_after_it_appears) {
  const scratch::directory dir;
  for (int i = 0; i < 2; ++i) {
    calls.clear();
    write_all(dir / "a", "x");
    EXPECT_EQ(calls, (names{"fsync file", "rename", "fsync folder"}));
  }
}

TEST(OutputFile, a_killed_process_leaves_nothing) {
  const scratch::directory dir;
  const int unnamed = ::open((dir / "").c_str(), O_TMPFILE | O_RDWR, 0600);
  if (unnamed < 0) GTEST_SKIP() << "the file system has no files without names";
  ::close(unnamed);
  scratch::write(dir / "old", "old");
  for (const char* name : {"old", "new"}) {
    const int status = in_child(false, [&] {
      output_file file(dir / name);
      file.write(bytes_of("x"));
      return ::raise(SIGKILL) == 0;
    });
    EXPECT_TRUE(WIFSIGNALED(status));
  }
  EXPECT_EQ(dir.names(), names{"old"});
  EXPECT_EQ(scratch::read(dir / "old"), "old");
}

TEST(OutputFile, in_a_folder_with_a_name_that_is_too_long) {
  const scratch::directory dir;
  EXPECT_EQ(in_child(false,
                     [&] {
                       if (::chdir((dir / "").c_str()) != 0) return false;
                       const std::string name(250, 'd');
                       for (int i = 0; i < 20; ++i)
                         if (::mkdir(name.c_str(), 0700) != 0 || ::chdir(name.c_str()) != 0) return false;
                       std::filesystem::create_directory("sub");
                       std::filesystem::create_symlink("sub/b", "link");
                       for (int i = 0; i < 2; ++i)
                         for (const char* file : {"a", "sub/a", "link"}) write_all(file, file);
                       return scratch::read("a") == "a" && scratch::read("sub/a") == "sub/a" &&
                              scratch::read("sub/b") == "link";
                     }),
            0);
}

TEST(OutputFile, in_place_where_it_cannot_be_replaced) {
  const scratch::directory dir;
  const bool is_root = ::getuid() == 0;
  ASSERT_EQ(::chmod((dir / "").c_str(), 0755), 0);
  for (const mode_t mode : {0555u, 01777u}) {
    if (mode == 01777u && !is_root) continue;  // of another owner
    const std::string folder = dir / ("of mode " + std::to_string(mode)), file = folder + "/a";
    std::filesystem::create_directory(folder);
    scratch::write(file, "old and long");
    ASSERT_EQ(::chmod(file.c_str(), 0666) | ::chmod(folder.c_str(), mode), 0);
    EXPECT_EQ(in_child(true, [&] { return output_file(file), scratch::read(file) == "old and long"; }), 0);
    EXPECT_EQ(in_child(true, [&] { return write_all(file, "new"), true; }), 0);
    EXPECT_EQ(scratch::read(file), "new");
    EXPECT_EQ(mode_of(file), 0666u);
    EXPECT_EQ(in_child(true, [&] { return message_of([&] { write_all(folder + "/b", "x"); }).empty(); }) == 0,
              mode == 01777u);
    ::chmod(folder.c_str(), 0755);
  }
}

TEST(OutputFile, mount_points) {
  const scratch::directory dir;
  scratch::write(dir / "behind", "old and long");
  scratch::write(dir / "a", "");
  const auto mounted = [&](const auto& work) {
    return WEXITSTATUS(in_child(false, [&] {
      if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
          ::mount((dir / "behind").c_str(), (dir / "a").c_str(), nullptr, MS_BIND, nullptr) != 0)
        ::_exit(77);
      return work();
    }));
  };
  const int status = mounted([&] { return write_all(dir / "a", "new"), true; });
  if (status == 77) GTEST_SKIP() << "nothing can be mounted here";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(scratch::read(dir / "behind"), "new");
  EXPECT_EQ(dir.names(), (names{"a", "behind"}));
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
