#include "gzip.hpp"
#include "support/files.hpp"

#include <tuck/core/bits.hpp>

#include <cstring>
#include <string>
#include <vector>

namespace gpu_gzip {
namespace {

using tuck::status;
using tuck::tools::byte_buffer;

// A part of the file that moves on with what is done of it.
class window {
 public:
  window(const source& in, uint64_t size) : in_(in), memory_(size) {}

  const_bytes all() const noexcept { return memory_.all().subspan(begin_, end_ - begin_); }
  uint64_t position() const noexcept { return position_; }

  // Has the next member in it, if there is one.
  void refill() {
    if (at_end_ || end_ - begin_ >= parse_bytes) return;
    std::memmove(memory_.all().data(), memory_.all().data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    end_ += in_(memory_.all().subspan(end_));
    at_end_ = end_ < memory_.size();
  }
  // Could one more member be told to be whole, `used` bytes on?
  bool has_member(uint64_t used) const noexcept {
    const uint64_t left = end_ - begin_ - used;
    return at_end_ ? left != 0 : left >= parse_bytes;
  }
  void drop(uint64_t used) noexcept {
    begin_ += used;
    position_ += used;
  }

 private:
  const source& in_;
  byte_buffer memory_;
  uint64_t begin_ = 0, end_ = 0;
  uint64_t position_ = 0;  // of begin_ in the file
  bool at_end_ = false;    // of the file, behind end_
};

std::string count_of_bytes(uint64_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

// What the decoder found wrong with a member, or nothing.
std::string fault_of(const member& m, const decoded& d) {
  if (d.result.code == status::deflate_too_long)
    return "ISIZE does not fit the stream, which gives more than " + count_of_bytes(m.size);
  if (!d.result) return message(d.result.code);
  if (d.result.consumed != m.stream.size())
    return "BSIZE is wrong: the stream ends " + count_of_bytes(m.stream.size() - d.result.consumed) + " earlier";
  if (d.result.bytes != m.size)
    return "ISIZE does not fit the stream: " + std::to_string(m.size) + " instead of " + count_of_bytes(d.result.bytes);
  return d.crc == m.crc ? "" : "the CRC-32 is wrong";
}

class decompressor {
 public:
  decompressor(const source& in, const sink& out, coder& by, uint64_t batch)
      : window_(in, batch * max_member_bytes + parse_bytes),
        out_(out),
        by_(by),
        batch_(batch),
        output_(batch * max_output),
        items_(batch),
        results_(batch) {}

  void run() {
    bool ended = false;
    window_.refill();
    if (window_.all().empty()) throw bad_input("empty, and no gzip file");
    if (!begins_gzip(window_.all())) throw bad_input("not a gzip file");
    for (; !window_.all().empty(); window_.refill()) {
      const std::string wrong = collect();
      decode();
      if (!wrong.empty()) fail(members_.size(), wrong);
      ended = is_end_member(members_.back().all);
      window_.drop(used_);
      done_ += members_.size();
    }
    if (!ended) throw bad_input("the end is missing: after its last member comes none of BGZF's that mark it");
  }

 private:
  // The next batch of members; what is wrong with the one behind them, or nothing.
  std::string collect() {
    members_.clear();
    used_ = 0;
    while (members_.size() < batch_ && window_.has_member(used_)) {
      member next;
      if (std::string wrong = parse_member(window_.all().subspan(used_), next); !wrong.empty()) return wrong;
      members_.push_back(next);
      used_ += next.all.size();
    }
    return {};
  }

  void decode() {
    uint64_t at = 0;
    for (size_t i = 0; i < members_.size(); ++i) {
      items_[i] = {members_[i].stream, at, members_[i].size};
      at = tuck::round_up_pow2(at + members_[i].size, output_alignment_log2);
    }
    by_.decode(window_.all().subspan(0, used_), {items_.data(), members_.size()}, output_.all(), results_);
    for (size_t i = 0; i < members_.size(); ++i)
      if (const std::string wrong = fault_of(members_[i], results_[i]); !wrong.empty()) fail(i, wrong);
    out_(close_gaps());
  }

  const_bytes close_gaps() noexcept {
    std::byte* const begin = output_.all().data();
    uint64_t end = 0;
    for (size_t i = 0; i < members_.size(); end += items_[i++].size)
      if (items_[i].at != end) std::memmove(begin + end, begin + items_[i].at, items_[i].size);
    return {begin, end};
  }

  [[noreturn]] void fail(uint64_t i, const std::string& wrong) const {
    uint64_t at = window_.position();
    for (uint64_t k = 0; k < i; ++k) at += members_[k].all.size();
    throw bad_input("member " + std::to_string(done_ + i) + ", at byte " + std::to_string(at) + ": " + wrong);
  }

  window window_;
  const sink& out_;
  coder& by_;
  uint64_t batch_;
  byte_buffer output_;
  std::vector<member> members_;
  std::vector<decode_item> items_;
  std::vector<decoded> results_;
  uint64_t used_ = 0;  // bytes of the members
  uint64_t done_ = 0;  // members of earlier batches
};

}  // namespace

void decompress(const source& in, const sink& out, coder& by, uint64_t batch) {
  decompressor(in, out, by, batch).run();
}

}  // namespace gpu_gzip
