// The interpreter's end of the two pipes to the supervisor, which carry frames
// (python/python_protocol.h).
//
// Code in the interpreter can write into these pipes too, if it gets at the descriptor. The
// supervisor believes a frame no further than that.
#pragma once

#include "python/python_protocol.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::pyhost {

using python::Form;
using python::Order;
using python::Word;

struct Frame : python::FrameHeader {
  std::string payload;
};

// Bytes that follow the JSON of a message. Their owner keeps them until the message is sent.
using Blob = std::span<const char>;

class Channel {
 public:
  Channel(int in, int out) : in_(in), out_(out) {}

  // Waits for the next frame. False when the supervisor is gone or breaks the rules.
  bool receive(Frame& frame);
  static std::size_t payload_size(std::string_view head, const std::vector<Blob>& blobs);
  // From here on another thread does the writing: those who send may be refused the descriptor.
  // Before the first of them is. False when there is no thread to be had.
  bool start_sender();
  // Waits until all of it is in the pipe. Call it without the GIL. False when the reader is gone.
  bool send(Word word, std::uint32_t cell, std::string_view head, const std::vector<Blob>& blobs);

 private:
  bool read_all(char* into, std::size_t size);
  bool write_all(std::vector<Blob>& parts);
  void send_for_others();

  // What another thread waits to be sent, in memory of that thread.
  struct Outgoing {
    std::vector<Blob>& parts;
    std::condition_variable done{};
    bool is_done = false;
    bool is_sent = false;
  };

  int in_;
  int out_;
  bool is_in_wide_ = false;
  bool is_out_wide_ = false;
  std::string buffer_;
  std::size_t used_ = 0;
  std::mutex sending_;
  std::condition_variable waiting_;
  std::deque<Outgoing*> outgoing_;
  bool has_sender_ = false;
};

}  // namespace glovebox::pyhost
