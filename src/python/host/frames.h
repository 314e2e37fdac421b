// Frames between the Python host and the supervisor, over two pipes.
//
// A frame is twelve bytes (payload size, kind, form, the number of a cell) and a payload. The
// payload of most is a message of the Python channel (docs/reference/python.md): JSON, or with
// Form::Binary the length of the JSON, the JSON and the bytes it refers to.
//
// Code in the interpreter can write into these pipes too, if it gets at the descriptor. The
// supervisor believes a frame no further than that.
#pragma once

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

inline constexpr std::size_t kMaxPayload = std::size_t{64} << 20;
// The JSON of a request; the bytes beside it are only bounded by the above.
inline constexpr std::size_t kMaxRequestJson = std::size_t{1} << 20;

enum class Form : std::uint8_t { Text, Binary };

// To the host.
enum class Order : std::uint8_t {
  Begin = 1,      // a cell starts, with its authority
  Operation = 2,  // exec, call, define, stats
  Post = 3,       // a value for recv()
  Reply = 4,      // the answer to a request
  Cancel = 5,     // the operation with the id in the payload (u64)
  End = 6,        // the cell ends
  Room = 7,       // how many messages and bytes were taken off the cell's hands, in all (u64 each)
};

// From the host.
enum class Word : std::uint8_t {
  Ready = 1,    // the interpreter is there and takes Begin
  Answer = 2,   // result or error of an operation
  Post = 3,     //
  Request = 4,  // something for the supervisor to do
  Event = 5,    // log, metric, output, denial
  Over = 6,     // a cell has ended
  Opened = 7,   // a cell of a worker has its authority and takes operations
};

struct Frame {
  std::uint8_t kind = 0;
  Form form = Form::Text;
  std::uint32_t cell = 0;
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
  // Waits until all of it is in the pipe. Call it without the GIL. False when nobody reads.
  bool send(Word word, std::uint32_t cell, std::string_view head, const std::vector<Blob>& blobs);

 private:
  bool read_all(char* into, std::size_t size);
  bool write_all(std::vector<Blob>& parts);
  void send_for_others();

  // What somebody waits to be sent, in memory of theirs.
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
