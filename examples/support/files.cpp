#include "support/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace tuck::tools {
namespace {

constexpr uint64_t largest_transfer = uint64_t{1} << 30;  // Linux moves at most 2 GiB a call

std::string line(std::string_view file, std::string_view reason) {
  constexpr size_t most = 200;  // of a reason that may quote anything
  const std::string why = printable(reason.substr(0, most)) + (reason.size() > most ? "..." : "");
  return (file.empty() ? "''" : printable(file)) + ": " + why;
}

std::string reason_of(int error_number) { return std::generic_category().message(error_number); }

// Reads until `room` is full or the file ends; the bytes read.
uint64_t read_fully(int descriptor, bytes room, const std::string& path) {
  uint64_t done = 0;
  while (done < room.size()) {
    const ssize_t got = ::read(descriptor, room.data() + done, std::min(room.size() - done, largest_transfer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw file_error(path, errno);
    if (got == 0) break;
    done += static_cast<uint64_t>(got);
  }
  return done;
}

// Reads what comes from a pipe or a terminal, whose size is not known before its end.
byte_buffer read_to_end(int descriptor, const std::string& path) {
  byte_buffer content(uint64_t{1} << 16);
  for (uint64_t used = 0;;) {
    used += read_fully(descriptor, content.all().subspan(used), path);
    const bool ended = used < content.size();
    byte_buffer next(ended ? used : 2 * used);
    std::memcpy(next.all().data(), content.all().data(), used);
    content = std::move(next);
    if (ended) return content;
  }
}

byte_buffer read_pipe(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw file_error(path, errno);
  const std::unique_ptr<const int, void (*)(const int*)> closing(&descriptor, [](const int* d) { ::close(*d); });
  return read_to_end(descriptor, path);
}

// Where a name leads once its symbolic links have been followed; the last part need not exist.
struct destination {
  std::string path;
  std::optional<int> open_as;  // it stands for this descriptor of ours, as /dev/stdout does
};

std::pair<std::string, std::string> split(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

// The directory as an absolute name, which stays right when the process changes its own; or as it is named, where names
// of files in it would be too long for the system.
std::string canonical_directory(const std::string& directory, const std::string& shown) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(directory.c_str(), nullptr), &std::free);
  if (real == nullptr && errno != ENAMETOOLONG) throw file_error(shown, errno);
  return real != nullptr && std::strlen(real.get()) + NAME_MAX + 2 <= PATH_MAX ? real.get() : directory;
}

std::string link_target(const std::string& path, const std::string& shown) {
  char target[4096];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
  if (length < 0) throw file_error(shown, errno);
  return {target, static_cast<size_t>(length)};
}

destination follow(const std::string& shown) {
  constexpr int most_links = 40;  // as the kernel has it
  std::string path = shown;
  for (int links = 0; links < most_links; ++links) {
    const auto [parent, name] = split(path);
    if (name.empty() || name == "." || name == "..") return {path, {}};
    const std::string directory = canonical_directory(parent, shown);
    path = directory == "/" ? "/" + name : directory + "/" + name;
    struct stat status;
    if (::lstat(path.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return {path, {}};
    if (directory == "/proc/" + std::to_string(::getpid()) + "/fd") return {path, std::atoi(name.c_str())};
    const std::string target = link_target(path, shown);
    path = target.front() == '/' ? target : directory + "/" + target;
  }
  throw file_error(shown, ELOOP);
}

// Mode and owner of the file that is to be replaced, as far as we may: only root gives files away.
void inherit(int descriptor, const struct stat& old) {
  if (::fchown(descriptor, old.st_uid, old.st_gid) != 0) errno = 0;
  if (::fchmod(descriptor, old.st_mode & 0777) != 0) errno = 0;
}

// The temporary file under way, of a program with handle_ending_signals: where it is told to end, the file goes first.
// One at a time, as programs have it.
bool handles_signals = false;
char abandoned[4096];

// And all that is in a temporary folder, the last first.
struct abandoned_entry {
  std::string path;
  bool is_folder = false;
  const abandoned_entry* before = nullptr;
};
std::deque<abandoned_entry> abandoned_entries;
std::atomic<const abandoned_entry*> last_abandoned{nullptr};

extern "C" void unlink_and_end(int signal) {
  if (abandoned[0] != '\0') ::unlink(abandoned);
  for (const abandoned_entry* entry = last_abandoned; entry != nullptr; entry = entry->before)
    entry->is_folder ? ::rmdir(entry->path.c_str()) : ::unlink(entry->path.c_str());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

constexpr int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGXCPU};

// Brings what was written to the disk. Not all file systems and files can.
bool is_synced(int descriptor) {
  if (::fsync(descriptor) == 0) return true;
  return errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP || errno == EROFS;
}

// Brings the names in a folder to the disk.
bool is_folder_synced(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return true;  // it can be written but not read
  const bool synced = is_synced(descriptor);
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return synced;
}

void write_fully(int descriptor, const_bytes data, const std::string& shown) {
  while (!data.empty()) {
    const ssize_t put = ::write(descriptor, data.data(), std::min(data.size(), largest_transfer));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw file_error(shown, errno);
    data = data.subspan(static_cast<uint64_t>(put));
  }
}

// A file without a name, which goes when its process ends, in whatever way. -1 where the file system has none.
int open_unnamed(const std::string& folder) {
#ifdef O_TMPFILE
  const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
  struct stat status;
  if (descriptor < 0) return -1;
  // Before Linux 5.19 some file systems ignore umask here.
  if (::fstat(descriptor, &status) == 0 && (status.st_mode & 0666) != 0666) return descriptor;
  ::close(descriptor);
#else
  static_cast<void>(folder);
#endif
  return -1;
}

// Errors of the system that stand for: this name cannot be given to another file, or no file be made beside it.
bool is_fixed_in_place(int error) {
  return error == EACCES || error == EPERM || error == EROFS || error == EBUSY || error == EXDEV;
}

void unlink_when_ended(const std::string& path) {
  if (handles_signals && path.size() < sizeof abandoned) std::memcpy(abandoned, path.c_str(), path.size() + 1);
}

// Puts those signals off while it lives.
class uninterrupted {
 public:
  uninterrupted() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : ending_signals) sigaddset(&set, signal);
    ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  uninterrupted(const uninterrupted&) = delete;
  uninterrupted& operator=(const uninterrupted&) = delete;
  ~uninterrupted() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

file_error::file_error(std::string_view file, std::string_view reason)
    : std::runtime_error(line(file, reason)), file_(file) {}
file_error::file_error(std::string_view file, int error_number) : file_error(file, reason_of(error_number)) {
  error_number_ = error_number;
}

std::string printable(std::string_view text) {
  std::string clean(text);
  std::replace_if(clean.begin(), clean.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return clean;
}

input_file::input_file(std::string path) : input_file() {  // which is whole, and so is destroyed if this throws
  path_ = std::move(path);
  // Without O_NONBLOCK the opening of a pipe would wait for its writer, only for the pipe to be refused.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status;
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) throw file_error(path_, errno);
  if (S_ISDIR(status.st_mode)) throw file_error(path_, EISDIR);
  if (!S_ISREG(status.st_mode)) throw file_error(path_, "not a regular file");
  size_ = static_cast<uint64_t>(status.st_size);
}

input_file::~input_file() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

uint64_t input_file::read(bytes room) {
  const uint64_t got = read_fully(descriptor_, room, path_);
  done_ += got;
  if (done_ > size_ || (got < room.size() && done_ < size_))
    throw file_error(path_, "the file changed its size while it was read");
  return got;
}

void input_file::skip(uint64_t count) {
  done_ += count;
  if (done_ > size_ || ::lseek(descriptor_, static_cast<off_t>(done_), SEEK_SET) < 0)
    throw file_error(path_, "the file ends too early");
}

byte_buffer read_range(const std::string& path, uint64_t first, uint64_t count) {
  input_file file(path);
  if (first > file.size() || count > file.size() - first) throw file_error(path, "the file ends too early");
  file.skip(first);
  byte_buffer content(count);
  file.read(content.all());
  return content;
}

std::string shown_input(const std::string& path) { return path == standard_stream ? "standard input" : path; }

byte_buffer read_file(const std::string& path) {
  if (path == standard_stream) return read_to_end(STDIN_FILENO, shown_input(path));
  struct stat status;
  if (::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode)) return read_pipe(path);
  input_file file(path);
  byte_buffer content(file.size());
  std::byte beyond;
  file.read(content.all());
  file.read({&beyond, 1});
  return content;
}

bool same_file(const std::string& a, const std::string& b) noexcept {
  struct stat first, second;
  if (::stat(a.c_str(), &first) != 0 || ::stat(b.c_str(), &second) != 0) return false;
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

void handle_ending_signals() {
  handles_signals = true;
  for (const int signal : ending_signals)
    if (std::signal(signal, unlink_and_end) == SIG_IGN) std::signal(signal, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

output_file::output_file(std::string path) : path_(std::move(path)) {
  if (path_ == standard_stream) {
    path_ = "standard output";
    if ((descriptor_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)) < 0) fail(errno);
    return;
  }
  const destination to = follow(path_);
  target_ = to.path;
  struct stat status;
  const bool exists = ::stat(target_.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) fail(errno);
  if (exists && S_ISDIR(status.st_mode)) fail(EISDIR);
  if (to.open_as) {
    // A second opening of the file behind it would start at its beginning instead of where others write.
    if ((descriptor_ = ::fcntl(*to.open_as, F_DUPFD_CLOEXEC, 0)) < 0) fail(errno);
  } else if (exists && !S_ISREG(status.st_mode)) {
    if ((descriptor_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC)) < 0) fail(errno);
  } else {
    // A rename asks only the directory; who may not write the file itself shall not replace it either.
    if (exists && ::faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0) fail(errno);
    open_beside(exists);
    if (exists && !is_in_place_) inherit(descriptor_, status);
  }
}

output_file::~output_file() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (temporary_.empty()) return;
  ::unlink(temporary_.c_str());
  unlink_when_ended({});
}

void output_file::open_beside(bool exists) {
  const auto [folder, name] = split(target_);
  if (name.empty()) fail(path_.empty() ? ENOENT : EISDIR);
  is_unnamed_ = (descriptor_ = open_unnamed(folder)) >= 0;
  const int error = is_unnamed_ ? 0 : open_named();
  if (error == 0) return;
  is_in_place_ = exists && is_fixed_in_place(error);
  if (!is_in_place_) fail(error);
  if ((descriptor_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC)) < 0) fail(errno);
}

int output_file::open_named() {
  return name_temporary([&](const char* candidate) {
    return (descriptor_ = ::open(candidate, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) >= 0;
  });
}

// Calls make(name) with names beside the target until one is free. Returns the error of the system, or 0.
template <class Make> int output_file::name_temporary(const Make& make) {
  constexpr int tries = 1000;
  // Without the target's own name in it, which may be as long as names can be.
  const std::string stem = split(target_).first + "/.tuck-" + std::to_string(::getpid()) + "-";
  const uninterrupted until_known;  // to the handler that removes it
  for (int i = 0; i < tries; ++i) {
    const std::string candidate = stem + std::to_string(i);
    if (make(candidate.c_str())) {
      unlink_when_ended(temporary_ = candidate);
      return 0;
    }
    if (errno != EEXIST) return errno;
  }
  return EEXIST;
}

void output_file::write(const_bytes data) {
  write_fully(descriptor_, data, path_);
  written_ += data.size();
}

void output_file::close_or_throw() {
  // Some file systems tell only now that the disk is full. After EINTR the descriptor is gone all the same.
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail(errno);
}

// Copies what was written from this file to the one that is open now.
void output_file::copy_from(int from) {
  const std::unique_ptr<const int, void (*)(const int*)> closing(&from, [](const int* d) { ::close(*d); });
  if (::lseek(from, 0, SEEK_SET) != 0) fail(errno);
  byte_buffer room(uint64_t{1} << 20);
  while (const uint64_t got = read_fully(from, room.all(), path_))
    write_fully(descriptor_, room.all().subspan(0, got), path_);
  if (!is_synced(descriptor_)) fail(errno);
}

// Gives a file without a name one beside the target. Returns the error of the system, or 0.
int output_file::link_unnamed() {
  is_unnamed_ = false;
  const std::string unnamed = "/proc/self/fd/" + std::to_string(descriptor_);
  const auto link = [&](const char* candidate) {
    return ::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, candidate, AT_SYMLINK_FOLLOW) == 0;
  };
  if (name_temporary(link) == 0) return 0;
  // Without /proc, or where links are forbidden.
  const int from = descriptor_;
  if (const int error = open_named(); error != 0) return descriptor_ = from, error;
  struct stat status;
  if (::fstat(from, &status) == 0) inherit(descriptor_, status);
  copy_from(from);
  return 0;
}

// Gives the temporary file the name of the target. Returns the error of the system, or 0.
int output_file::rename_temporary() {
  const uninterrupted until_renamed;
  if (is_unnamed_)
    if (const int error = link_unnamed(); error != 0) return error;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return errno;
  temporary_.clear();
  unlink_when_ended({});
  return 0;
}

void output_file::commit() {
  if (is_unnamed_ || !temporary_.empty()) {
    if (!is_synced(descriptor_)) fail(errno);
    if (const int error = rename_temporary(); error == 0) {
      close_or_throw();
      if (!is_folder_synced(split(target_).first)) fail(errno);
      return;
    } else if (!is_fixed_in_place(error) || ::access(target_.c_str(), F_OK) != 0) {
      fail(error);
    }
    // As a mount point, which is only written in place.
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    temporary_.clear();
    unlink_when_ended({});
    const int from = std::exchange(descriptor_, ::open(target_.c_str(), O_WRONLY | O_CLOEXEC));
    if (descriptor_ < 0) return descriptor_ = from, fail(errno);
    copy_from(from);
    is_in_place_ = true;
  }
  if (is_in_place_ && (::ftruncate(descriptor_, static_cast<off_t>(written_)) != 0 || !is_synced(descriptor_)))
    fail(errno);
  close_or_throw();
}

output_folder::output_folder(std::string path) : path_(std::move(path)), target_(path_) {
  namespace fs = std::filesystem;
  while (target_.size() > 1 && target_.back() == '/') target_.pop_back();
  const destination to = follow(target_);
  target_ = to.path;
  std::error_code error;
  const fs::file_status there = fs::status(target_, error);
  if (there.type() == fs::file_type::none) throw file_error(path_, error.value());
  if (fs::exists(there)) {
    if (!fs::is_directory(there)) throw file_error(path_, "the output is a folder, and this is a file");
    if (!fs::is_empty(target_, error)) throw file_error(path_, "the folder exists and is not empty");
  }
  constexpr int tries = 1000;
  const auto [parent, name] = split(target_);
  if (name.empty() || name == "." || name == "..") throw file_error(path_, "name a folder that does not exist");
  const uninterrupted until_known;
  for (int i = 0; i < tries && temporary_.empty(); ++i) {
    const std::string candidate = parent + "/.tuck-" + std::to_string(::getpid()) + "-" + std::to_string(i);
    if (::mkdir(candidate.c_str(), 0777) == 0)
      add(temporary_ = candidate, true);
    else if (errno != EEXIST)
      throw file_error(path_, errno);
  }
  if (temporary_.empty()) throw file_error(path_, EEXIST);
  if (fs::exists(there)) fs::permissions(temporary_, there.permissions(), error);
}

output_folder::~output_folder() {
  std::error_code ignored;
  if (!temporary_.empty()) std::filesystem::remove_all(temporary_, ignored);
  last_abandoned = nullptr;
  abandoned_entries.clear();
}

void output_folder::add(const std::string& path, bool is_folder) {
  abandoned_entries.push_back({path, is_folder, last_abandoned});
  last_abandoned = &abandoned_entries.back();
}

std::string output_folder::place(const std::string& name) {
  for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    const std::string folder = temporary_ + "/" + name.substr(0, slash);
    if (::mkdir(folder.c_str(), 0777) == 0)
      add(folder, true);
    else if (errno != EEXIST)
      throw file_error(path_, errno);
  }
  add(temporary_ + "/" + name, false);
  return abandoned_entries.back().path;
}

void output_folder::commit() {
  // The files are on the disk, and now their folders.
  for (const abandoned_entry& entry : abandoned_entries)
    if (entry.is_folder && !is_folder_synced(entry.path)) throw file_error(path_, errno);
  const uninterrupted until_renamed;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) throw file_error(path_, errno);
  temporary_.clear();
  last_abandoned = nullptr;
  if (!is_folder_synced(split(target_).first)) throw file_error(path_, errno);
}

}  // namespace tuck::tools
