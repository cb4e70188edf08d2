// Batches for tests: tensors of many sizes, in one stretch of device memory each way, and what must become of them.
#pragma once

#include "support/codecs.hpp"
#include "support/device.hpp"

#include <memory>

namespace tuck::test {

// Sizes in values from none to 256 KiB of them, most of them small.
inline std::vector<uint64_t> batch_sizes_of(uint64_t items, uint64_t value_bytes, uint64_t largest, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::vector<uint64_t> sizes(items);
  for (uint64_t& size : sizes) size = (random() % (largest + 1) >> random() % 12) / value_bytes;
  if (items > 4) sizes[1] = 0, sizes[2] = 1, sizes[items - 1] = largest / value_bytes;
  return sizes;
}

// A batch both ways: tensors on the device, rooms for their frames, rooms for what is restored, and the tables.
template <codec C> class device_batch {
 public:
  using T = value_t<C>;

  explicit device_batch(std::vector<std::vector<T>> tensors, C codec = sample<C>::codec(), frame_options options = {})
      : codec_(codec), options_(options), host_(std::move(tensors)) {
    for (const auto& tensor : host_) {
      sizes_.values += tensor.size();
      value_at_.push_back(values_.size());
      frame_at_.push_back(room_);
      values_.insert(values_.end(), tensor.begin(), tensor.end());
      values_.resize((values_.size() + 15) / 16 * 16);
      room_ += (max_frame_bytes(codec_, tensor.size(), options_) + 15) / 16 * 16;
    }
    sizes_.items = host_.size();
    in_ = std::make_unique<device_array<T>>(values_, stream_);
    out_ = std::make_unique<device_array<T>>(values_.size());
    frames_ = std::make_unique<device_array<std::byte>>(room_);
    outcomes_ = std::make_unique<device_array<outcome>>(host_.size());
    for (uint64_t i = 0; i < host_.size(); ++i) {
      encode_items.push_back({{in_->data() + value_at_[i], host_[i].size()}, room_of(i)});
      decode_items.push_back({room_of(i), {out_->data() + value_at_[i], host_[i].size()}});
    }
    scratch_ = std::make_unique<device_array<std::byte>>(scratch_bytes(codec_, sizes_, options_));
    EXPECT_EQ(initialize(scratch_->scratch(), stream_).code, status::ok);
  }

  // One call each, with the items as they stand there; waits.
  std::vector<outcome> encode(launch_options how = {}) {
    const device_array<encode_item<T>> table(encode_items, stream_);
    EXPECT_EQ(encode_batch(codec_, table.all(), sizes_, scratch(), outcomes_->all(), stream_, options_, how).code,
              status::ok);
    return outcomes_->download(stream_);
  }
  std::vector<outcome> decode(launch_options how = {}) {
    const device_array<decode_item<T>> table(decode_items, stream_);
    EXPECT_EQ(decode_batch(C{}, table.all(), sizes_, scratch(), outcomes_->all(), stream_, how).code, status::ok);
    return outcomes_->download(stream_);
  }

  std::vector<outcome> outcomes_now() const { return outcomes_->download(stream_); }

  uint64_t size() const { return host_.size(); }
  const std::vector<T>& tensor(uint64_t i) const { return host_[i]; }
  const C& codec() const { return codec_; }
  const frame_options& options() const { return options_; }
  batch_sizes& sizes() { return sizes_; }
  scratch_span scratch() const {
    return other_scratch_.memory().data() != nullptr ? other_scratch_ : scratch_->scratch();
  }
  void use_scratch(scratch_span initialized) { other_scratch_ = initialized; }
  span<outcome> outcomes() const { return outcomes_->all(); }
  const device_stream& stream() const { return stream_; }
  // All the room that there is for the frame of item i.
  bytes room_of(uint64_t i) const {
    return {frames_->data() + frame_at_[i], max_frame_bytes(codec_, host_[i].size(), options_)};
  }

  frame_bytes frame(uint64_t i, uint64_t size) const {
    frame_bytes all(size);
    download(all.data(), frames_->data() + frame_at_[i], size);
    return all;
  }
  void put_frame(uint64_t i, const frame_bytes& frame) {
    check(cudaMemcpyAsync(frames_->data() + frame_at_[i], frame.data(), frame.size(), cudaMemcpyDefault, stream_));
    stream_.wait();
  }
  // What item i was restored to.
  std::vector<T> restored(uint64_t i) const {
    std::vector<T> values(host_[i].size());
    download(values.data(), out_->data() + value_at_[i], values.size() * sizeof(T));
    return values;
  }
  void fill_restored(const T& value) { out_->upload(std::vector<T>(values_.size(), value), stream_); }

 private:
  void download(void* to, const void* from, uint64_t size) const {
    if (size != 0) check(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream_));
    stream_.wait();
  }

  C codec_;
  frame_options options_;
  std::vector<std::vector<T>> host_;
  batch_sizes sizes_;
  std::vector<uint64_t> value_at_, frame_at_;
  std::vector<T> values_;
  uint64_t room_ = 0;
  scratch_span other_scratch_;
  device_stream stream_;
  std::unique_ptr<device_array<T>> in_, out_;
  std::unique_ptr<device_array<std::byte>> frames_, scratch_;
  std::unique_ptr<device_array<outcome>> outcomes_;

 public:
  std::vector<encode_item<T>> encode_items;
  std::vector<decode_item<T>> decode_items;
};

// Tensors of the sample's kind.
template <codec C>
std::vector<std::vector<value_t<C>>> tensors_of(const std::vector<uint64_t>& sizes, uint64_t seed = 1) {
  std::vector<std::vector<value_t<C>>> tensors;
  for (const uint64_t size : sizes) {
    ++seed;
    tensors.push_back(sample<C>::tensor(size, .1 * static_cast<double>(seed % 11), pattern::clustered, seed));
  }
  return tensors;
}

// Each frame is the host's and each outcome ok, both ways.
template <codec C> void expect_round_trip(device_batch<C>& batch, launch_options how = {}) {
  const auto written = batch.encode(how);
  for (uint64_t i = 0; i < batch.size(); ++i) {
    const auto expected = encoded(batch.codec(), batch.tensor(i), batch.options());
    ASSERT_EQ(written[i].code, status::ok) << "item " << i;
    ASSERT_EQ(written[i].bytes, expected.size()) << "item " << i;
    ASSERT_EQ(batch.frame(i, expected.size()), expected) << "item " << i << ", " << batch.tensor(i).size() << " values";
  }
  using T = value_t<C>;
  batch.fill_restored(
      __builtin_bit_cast(T, static_cast<bits_t<T>>(~bits_t<T>{0} / 3)));  // not what was restored before
  const auto restored = batch.decode(how);
  for (uint64_t i = 0; i < batch.size(); ++i) {
    ASSERT_EQ(restored[i].code, status::ok) << "item " << i;
    ASSERT_EQ(restored[i].bytes, batch.tensor(i).size() * sizeof(value_t<C>));
    ASSERT_EQ(restored[i].first_bad_chunk, no_chunk);
    ASSERT_TRUE(same_bits(batch.restored(i), expected_values<C>(batch.tensor(i), batch.frame(i, written[i].bytes))))
        << "item " << i;
  }
}

}  // namespace tuck::test
