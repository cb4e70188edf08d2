// Files are read entirely, at once or piece by piece, and written entirely or not at all.
#pragma once

#include <tuck/core/span.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tuck::tools {

// What is wrong with a file, in one line "file: reason" that can be shown as it is.
class file_error : public std::runtime_error {
 public:
  file_error(std::string_view file, std::string_view reason);
  file_error(std::string_view file, int error_number);  // the reason is the system's, as strerror tells it

  const std::string& file() const noexcept { return file_; }
  int error_number() const noexcept { return error_number_; }  // 0: another reason

 private:
  std::string file_;
  int error_number_ = 0;
};

// `text` without control characters, so that hostile names stay on their line.
std::string printable(std::string_view text);

// Bytes that start uninitialised and lie aligned for any element. Throws std::bad_alloc.
class byte_buffer {
 public:
  byte_buffer() = default;
  explicit byte_buffer(uint64_t size) : data_(new std::byte[size]), size_(size) {}

  uint64_t size() const noexcept { return size_; }
  bytes all() noexcept { return {data_.get(), size_}; }
  const_bytes all() const noexcept { return {data_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> data_;
  uint64_t size_ = 0;
};

inline const_bytes bytes_of(std::string_view text) noexcept {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// A regular file, read from its begin to its end. Anything else, and whatever goes wrong, is a file_error.
class input_file {
 public:
  explicit input_file(std::string path);
  ~input_file();
  input_file(const input_file&) = delete;
  input_file& operator=(const input_file&) = delete;

  uint64_t size() const noexcept { return size_; }
  // Fills the room, or as much of it as there are bytes left; how many. The file must not change its size.
  uint64_t read(bytes room);
  // Goes on behind the next `count` bytes.
  void skip(uint64_t count);

 private:
  input_file() = default;

  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  uint64_t done_ = 0;
};

// The name that stands for standard input and standard output.
inline constexpr std::string_view standard_stream = "-";

// The content of a regular file or a pipe, or of standard input for "-". Waits for the writer of a pipe. Throws
// file_error.
byte_buffer read_file(const std::string& path);

// `count` bytes of a regular file from offset `first` on. Throws file_error where the file has fewer.
byte_buffer read_range(const std::string& path, uint64_t first, uint64_t count);

// An input as messages name it: "-" is standard input.
std::string shown_input(const std::string& path);

// Do both names lead to one existing file?
bool same_file(const std::string& a, const std::string& b) noexcept;

// For programs, before the first output: signals that end the process remove the temporary file first, and a limit of
// file sizes is an error instead of a signal. Without it no handler changes, as a library's caller expects.
void handle_ending_signals();

// A file being written. Bytes go to a temporary beside the target, which has no name where the file system allows that.
// commit() brings it to the disk and renames it over the target, also on the disk; without commit() the temporary goes
// and the target stays as it was. A target that exists keeps its mode, and its owner where that is allowed; a new one
// gets what umask leaves. Symbolic links are followed. Devices, pipes, /dev/stdout and standard output, "-", are
// written directly. A file that cannot be replaced, such as a mount point or one in a folder without write permission,
// is written in place: who ends the process then can leave a part. Whatever goes wrong is a file_error.
class output_file {
 public:
  explicit output_file(std::string path);
  ~output_file();
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;

  void write(const_bytes data);
  void commit();

 private:
  void open_beside(bool exists);
  template <class Make> int name_temporary(const Make& make);
  int open_named();
  int link_unnamed();
  int rename_temporary();
  void copy_from(int descriptor);
  void close_or_throw();
  [[noreturn]] void fail(int error_number) const { throw file_error(path_, error_number); }

  std::string path_;       // as the user named it, for messages
  std::string target_;     // what it leads to
  std::string temporary_;  // empty where the target is written directly, and while the temporary has no name
  bool is_unnamed_ = false;
  bool is_in_place_ = false;  // a file that cannot be replaced
  uint64_t written_ = 0;
  int descriptor_ = -1;
};

// A folder being written. Its files go to a temporary folder beside it, which commit() renames; without commit() the
// temporary goes. The folder must not exist, or be empty. Whatever goes wrong is a file_error.
class output_folder {
 public:
  explicit output_folder(std::string path);
  ~output_folder();
  output_folder(const output_folder&) = delete;
  output_folder& operator=(const output_folder&) = delete;

  // Returns where to write the file of this name, such as "a/b". Makes the folders in it.
  std::string place(const std::string& name);
  void commit();

 private:
  void add(const std::string& path, bool is_folder);

  std::string path_;  // as the user named it, for messages
  std::string target_, temporary_;
};

}  // namespace tuck::tools
