#include "python/host/frames.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

namespace glovebox::pyhost {
namespace {

constexpr std::size_t kReadSize = std::size_t{64} << 10;
constexpr std::size_t kMostParts = 64;

// A pipe that has carried a large payload gets more room: with the usual 64 KiB both sides wake
// each other for every piece. Only then, because what all pipes of a user may take is bounded.
constexpr std::size_t kLarge = std::size_t{64} << 10;
constexpr int kWidePipe = 1 << 20;

void widen(int pipe, std::size_t payload, bool& is_wide) {
  if (payload <= kLarge || is_wide) return;
  is_wide = true;
  (void)::fcntl(pipe, F_SETPIPE_SZ, kWidePipe);  // without it, it is as it was
}

}  // namespace

bool Channel::read_all(char* into, std::size_t size) {
  while (size > 0) {
    if (used_ < buffer_.size()) {
      const std::size_t part = std::min(size, buffer_.size() - used_);
      std::memcpy(into, buffer_.data() + used_, part);
      used_ += part;
      into += part;
      size -= part;
      continue;
    }
    // Large payloads go to their place directly.
    const bool is_large = size >= kReadSize;
    if (!is_large) buffer_.resize(kReadSize);
    used_ = 0;
    const ssize_t got = ::read(in_, is_large ? into : buffer_.data(), is_large ? size : kReadSize);
    if (got < 0 && errno == EINTR) {
      buffer_.clear();
      continue;
    }
    if (got <= 0) return false;
    if (is_large) {
      into += got;
      size -= static_cast<std::size_t>(got);
      buffer_.clear();
    } else {
      buffer_.resize(static_cast<std::size_t>(got));
    }
  }
  return true;
}

bool Channel::receive(Frame& frame) {
  std::array<char, python::kHeaderSize> bytes{};
  if (!read_all(bytes.data(), bytes.size())) return false;
  const auto header = python::decode_header({bytes.data(), bytes.size()});
  if (!header) return false;
  static_cast<python::FrameHeader&>(frame) = *header;
  widen(in_, header->size, is_in_wide_);
  frame.payload.resize(header->size);
  return read_all(frame.payload.data(), header->size);
}

bool Channel::write_all(std::vector<Blob>& parts) {
  std::size_t size = 0;
  for (const Blob& part : parts) size += part.size();
  widen(out_, size, is_out_wide_);
  std::size_t first = 0;
  while (first < parts.size()) {
    std::array<iovec, kMostParts> list{};
    const std::size_t count = std::min(parts.size() - first, kMostParts);
    for (std::size_t i = 0; i < count; ++i) {
      list[i] = {const_cast<char*>(parts[first + i].data()), parts[first + i].size()};
    }
    const ssize_t sent = ::writev(out_, list.data(), static_cast<int>(count));
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    auto left = static_cast<std::size_t>(sent);
    while (first < parts.size() && left >= parts[first].size()) left -= parts[first++].size();
    if (first < parts.size()) parts[first] = parts[first].subspan(left);
  }
  return true;
}

std::size_t Channel::payload_size(std::string_view head, const std::vector<Blob>& blobs) {
  std::size_t size = head.size() + (blobs.empty() ? 0 : python::kJsonLengthSize);
  for (const Blob& blob : blobs) size += blob.size();
  return size;
}

bool Channel::send(Word word, std::uint32_t cell, std::string_view head,
                   const std::vector<Blob>& blobs) {
  const Form form = blobs.empty() ? Form::Text : Form::Binary;
  const std::size_t size = payload_size(head, blobs);
  if (size > python::kMaxMessage) return false;
  const auto header = python::encode_header(
      {static_cast<std::uint32_t>(size), static_cast<std::uint8_t>(word), form, cell});
  std::array<char, python::kJsonLengthSize> json_length{};
  python::put_number(json_length.data(), static_cast<std::uint32_t>(head.size()));
  std::vector<Blob> parts{Blob(header)};
  if (form == Form::Binary) parts.emplace_back(json_length);
  parts.emplace_back(head);
  parts.insert(parts.end(), blobs.begin(), blobs.end());
  std::unique_lock lock(sending_);
  if (!has_sender_) return write_all(parts);
  Outgoing outgoing{parts};
  outgoing_.push_back(&outgoing);
  waiting_.notify_one();
  while (!outgoing.is_done) outgoing.done.wait(lock);
  return outgoing.is_sent;
}

void Channel::send_for_others() {
  std::unique_lock lock(sending_);
  while (true) {
    while (outgoing_.empty()) waiting_.wait(lock);
    Outgoing& next = *outgoing_.front();
    outgoing_.pop_front();
    lock.unlock();
    const bool is_sent = write_all(next.parts);
    lock.lock();
    next.is_sent = is_sent;
    next.is_done = true;
    next.done.notify_one();
  }
}

bool Channel::start_sender() {
  const auto body = [](void* self) -> void* {
    static_cast<Channel*>(self)->send_for_others();
    return nullptr;
  };
  pthread_t thread{};
  const std::scoped_lock lock(sending_);
  has_sender_ = ::pthread_create(&thread, nullptr, body, this) == 0;
  return has_sender_;
}

}  // namespace glovebox::pyhost
