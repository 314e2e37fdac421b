#include "guest/protocol/protocol.h"

#include "guest/protocol/codec.h"

#include <type_traits>
#include <utility>

namespace glovebox::guest {
namespace {

// "GBA" and the version of the frame format.
constexpr std::uint32_t kMagic = 0x0141'4247;

template <class T, class Message>
concept Is = std::is_same_v<std::remove_const_t<T>, Message>;

// One list of fields per message, for writing and for reading. `Self` is const when writing.
template <Is<Hello> Self, class Visit>
void fields_of(Self& self, Visit& visit) {
  visit(self.version);
  visit(self.workspace);
  visit(self.shells);
  visit(self.env);
}
template <class Self, class Visit>
  requires Is<Self, CodePart> || Is<Self, Input>
void fields_of(Self& self, Visit& visit) {
  visit(self.bytes);
}
template <Is<StartRun> Self, class Visit>
void fields_of(Self& self, Visit& visit) {
  visit(self.mode);
  visit(self.io);
  visit(self.input);
  visit(self.rows);
  visit(self.columns);
  visit(self.code);
  visit(self.argv);
  visit(self.env);
  visit(self.cwd);
}
template <Is<Resize> Self, class Visit>
void fields_of(Self& self, Visit& visit) {
  visit(self.rows);
  visit(self.columns);
}
template <Is<SignalRun> Self, class Visit>
void fields_of(Self& self, Visit& visit) {
  visit(self.signal);
}
template <Is<KillRun> Self, class Visit>
void fields_of(Self& self, Visit& visit) {
  visit(self.grace_ms);
}
template <Is<StartJob> Self, class Visit>
void fields_of(Self& self, Visit& visit) {
  visit(self.kind);
  visit(self.flags);
  visit(self.path);
  visit(self.target);
  visit(self.old_text);
  visit(self.new_text);
  visit(self.owner);
  visit(self.group);
  visit(self.mode);
  visit(self.offset);
  visit(self.limit);
}
template <Is<Credit> Self, class Visit>
void fields_of(Self& self, Visit& visit) {
  visit(self.stream);
  visit(self.bytes);
}
template <Is<Ready> Self, class Visit>
void fields_of(Self& self, Visit& visit) {
  visit(self.version);
  visit(self.shell);
}
template <Is<RunEnded> Self, class Visit>
void fields_of(Self& self, Visit& visit) {
  visit(self.kind);
  visit(self.value);
  visit(self.shell);
}
template <Is<RunDone> Self, class Visit>
void fields_of(Self& self, Visit& visit) {
  fields_of(self.end, visit);
  visit(self.output);
  visit(self.error);
}
template <Is<JobEnded> Self, class Visit>
void fields_of(Self& self, Visit& visit) {
  visit(self.os_errno);
  visit(self.code);
  visit(self.message);
  visit(self.count);
  visit(self.detail);
}
template <Is<Refused> Self, class Visit>
void fields_of(Self& self, Visit& visit) {
  visit(self.code);
  visit(self.os_errno);
  visit(self.message);
}
template <Is<Output> Self, class Visit>
void fields_of(Self& self, Visit& visit) {
  visit(self.stream);
  visit(self.bytes);
}
template <Is<OutputEnd> Self, class Visit>
void fields_of(Self& self, Visit& visit) {
  visit(self.stream);
}
template <class Self, class Visit>
  requires std::is_empty_v<std::remove_const_t<Self>>
void fields_of(Self& /*self*/, Visit& /*visit*/) {}

// The type on the wire is the place in the variant, counted from here. Appending a message keeps
// the others' numbers; any other change of the lists needs a new version.
constexpr std::uint16_t kFirstRequest = 1;
constexpr std::uint16_t kFirstReply = 65;

template <class Body>
constexpr std::uint16_t first_type() {
  return std::is_same_v<Body, Request> ? kFirstRequest : kFirstReply;
}

template <class Body>
Result<std::string> encode_frame(const Frame<Body>& frame) {
  std::string payload;
  FieldWriter write_payload(payload);
  std::visit([&](const auto& message) { fields_of(message, write_payload); }, frame.body);
  if (payload.size() > kMaxFrame - kHeaderSize) {
    return fail(Code::Exhausted, "a message of {} bytes does not fit in a frame of {}",
                payload.size(), kMaxFrame);
  }
  std::string bytes;
  bytes.reserve(kHeaderSize + payload.size());
  FieldWriter write(bytes);
  write(kMagic);
  write(static_cast<std::uint16_t>(first_type<Body>() + frame.body.index()));
  write(frame.fd_count);
  write(static_cast<std::uint32_t>(payload.size()));
  write(frame.id);
  bytes += payload;
  return bytes;
}

struct Header {
  std::uint32_t magic = 0;
  std::uint16_t type = 0;
  std::uint16_t fd_count = 0;
  std::uint32_t length = 0;
  std::uint64_t id = 0;
};

Result<Header> take_header(FieldReader& read) {
  Header header;
  read(header.magic);
  read(header.type);
  read(header.fd_count);
  read(header.length);
  read(header.id);
  if (read.failed()) return fail(Code::Invalid, "a frame without a whole header");
  if (header.magic != kMagic) {
    return fail(Code::Invalid, "a frame that begins with {:08x}: another protocol or version",
                header.magic);
  }
  if (header.length > kMaxFrame - kHeaderSize) {
    return fail(Code::Invalid, "a frame of {} bytes; {} is the most", header.length, kMaxFrame);
  }
  if (header.fd_count > kMaxFrameFds) {
    return fail(Code::Invalid, "a frame with {} descriptors", header.fd_count);
  }
  return header;
}

template <class Body, std::size_t... Places>
bool read_body(std::size_t place, FieldReader& read, Body& body,
               std::index_sequence<Places...> /*places*/) {
  const auto read_one = [&]<std::size_t Place>() {
    if (Place != place) return false;
    fields_of(body.template emplace<Place>(), read);
    return true;
  };
  return (read_one.template operator()<Places>() || ...);
}

template <class Body>
Result<Frame<Body>> decode_frame(std::string_view bytes) {
  FieldReader read(bytes);
  TRY(const Header header, take_header(read));
  if (header.length != read.rest().size()) {
    return fail(Code::Invalid, "a frame says {} bytes and has {}", header.length,
                read.rest().size());
  }
  Frame<Body> frame{header.id, header.fd_count, {}};
  const std::size_t place = std::size_t{header.type} - first_type<Body>();
  if (header.type < first_type<Body>() ||
      !read_body(place, read, frame.body, std::make_index_sequence<std::variant_size_v<Body>>())) {
    return fail(Code::Invalid, "a frame of unknown type {}", header.type);
  }
  if (!read.complete()) return fail(Code::Invalid, "a malformed frame of type {}", header.type);
  return frame;
}

}  // namespace

Result<std::string> encode(const Frame<Request>& frame) { return encode_frame(frame); }
Result<std::string> encode(const Frame<Reply>& frame) { return encode_frame(frame); }
Result<Frame<Request>> decode_request(std::string_view bytes) {
  return decode_frame<Request>(bytes);
}
Result<Frame<Reply>> decode_reply(std::string_view bytes) { return decode_frame<Reply>(bytes); }

Result<std::optional<std::size_t>> frame_size(std::string_view bytes) {
  if (bytes.size() < kHeaderSize) return std::nullopt;
  FieldReader read(bytes);
  TRY(const Header header, take_header(read));
  return kHeaderSize + header.length;
}

}  // namespace glovebox::guest
