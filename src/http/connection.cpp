#include "http/connection.h"

#include "http/date.h"
#include "http/url.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/verb.hpp>

#include <algorithm>
#include <array>
#include <exception>

#include <poll.h>
#include <sys/socket.h>

namespace glovebox::serve {
namespace {

namespace http = boost::beast::http;
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

constexpr std::size_t kReadSize = 64 << 10;
// A body that no handler read is read away up to here, so that the connection can be used again.
constexpr std::size_t kMostDrained = 256 << 10;
// How long, and how much, a client that is told to stop may go on sending before the connection is
// closed. Closing at once could take the answer from it.
constexpr std::chrono::milliseconds kLinger{2'000};
constexpr std::size_t kMostLingered = 4 << 20;

Method to_method(http::verb verb) {
  switch (verb) {
    case http::verb::get: return Method::Get;
    case http::verb::head: return Method::Head;
    case http::verb::post: return Method::Post;
    case http::verb::put: return Method::Put;
    case http::verb::patch: return Method::Patch;
    case http::verb::delete_: return Method::Delete;
    case http::verb::options: return Method::Options;
    default: return Method::Other;
  }
}

std::string lower(std::string_view text) {
  std::string lowered(text);
  std::ranges::transform(lowered, lowered.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  return lowered;
}

Response refusal(int status, std::string_view code, std::string_view message) {
  return to_response(ApiError{.status = status,
                              .code = std::string(code),
                              .message = std::string(message),
                              .more = {},
                              .headers = {}});
}

Response parse_refusal(const boost::system::error_code& problem) {
  if (problem == http::error::header_limit) {
    return refusal(431, "HEADER_TOO_LARGE", "the head of the request is too large");
  }
  if (problem == http::error::bad_version) {
    return refusal(505, "INVALID_REQUEST", "only HTTP/1.0 and HTTP/1.1 are spoken here");
  }
  return refusal(400, "INVALID_REQUEST", fmt::format("not HTTP: {}", problem.message()));
}

// Whether the other side has closed, or at least will send nothing more.
bool is_hung_up(int fd) {
  pollfd state{.fd = fd, .events = POLLRDHUP, .revents = 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

// Waits beside a handler for the client to go away. Readable means: bytes of a next request, or the
// end. While bytes are there the socket is always readable, so from then on a timer asks.
class Watch final : public std::enable_shared_from_this<Watch> {
 public:
  Watch(Stream::Socket& socket, std::function<void()> when_gone)
      : socket_(socket), timer_(socket.get_executor()), when_gone_(std::move(when_gone)) {}

  void start() {
    socket_.async_wait(
        Stream::Socket::wait_read,
        asio::bind_cancellation_slot(
            signal_.slot(), [self = shared_from_this()](const boost::system::error_code& problem) {
              if (!problem) self->look();
            }));
  }
  void stop() {
    stopped_ = true;
    signal_.emit(asio::cancellation_type::terminal);
    timer_.cancel();
  }

 private:
  void look() {
    if (stopped_) return;
    if (is_hung_up(socket_.native_handle())) {
      stopped_ = true;
      when_gone_();
      return;
    }
    timer_.expires_after(std::chrono::milliseconds(250));
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& problem) {
      if (!problem) self->look();
    });
  }

  Stream::Socket& socket_;
  asio::steady_timer timer_;
  std::function<void()> when_gone_;
  asio::cancellation_signal signal_;
  bool stopped_ = false;
};

}  // namespace

Connection::Connection(Server& server, Stream::Socket socket, Peer peer,
                       std::shared_ptr<asio::ssl::context> tls)
    : server_(server), stream_(std::move(socket)), peer_(std::move(peer)), tls_(std::move(tls)) {}

void Connection::wait_for(Wait what, std::chrono::milliseconds patience) {
  waiting_ = what;
  if (what == Wait::Idle) idle_since_ = Clock::now();
  deadline_ = what == Wait::Nothing ? Clock::time_point::max() : Clock::now() + patience;
}

void Connection::check_deadline(Clock::time_point now) {
  if (now < deadline_) return;
  deadline_ = Clock::time_point::max();
  timed_out_ = true;
  boost::system::error_code ignored;
  stream_.socket().cancel(ignored);
}

void Connection::end_if_idle() {
  if (waiting_ == Wait::Idle) cut();
}

void Connection::cut() {
  boost::system::error_code ignored;
  stream_.socket().shutdown(Stream::Socket::shutdown_both, ignored);
  stream_.socket().cancel(ignored);
}

void Connection::evict() {
  is_evicted_ = true;
  cut();
}

asio::awaitable<void> Connection::turn_away() {
  close_ = true;
  Response busy = refusal(429, "TOO_MANY_REQUESTS", "too many connections");
  busy.headers.push_back({"Retry-After", "1"});
  if (!tls_) co_await write_response(busy);
}

asio::awaitable<bool> Connection::shake_hands() {
  wait_for(Wait::Head, server_.limits_.header);
  auto& tls = stream_.use_tls(*tls_);
  const auto [problem] = co_await tls.async_handshake(Stream::Tls::server, kTuple);
  wait_for(Wait::Nothing, {});
  co_return !problem;
}

asio::awaitable<void> Connection::run() {
  if (tls_) {
    const bool secured = co_await shake_hands();
    if (!secured) co_return;
  }
  for (;;) {
    const After after = co_await serve_one();
    if (after == After::Close) break;
  }
  if (!upgraded_) co_await linger();
}

asio::awaitable<bool> Connection::fill_buffer(std::size_t most) {
  const auto space = buffer_.prepare(most);
  const auto [problem, count] = co_await stream_.async_read_some(space, kTuple);
  if (problem || count == 0) co_return false;
  buffer_.commit(count);
  co_return true;
}

asio::awaitable<std::optional<Response>> Connection::read_head() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(server_.limits_.header_bytes));
  parser_->body_limit(boost::none);
  const bool has_bytes = buffer_.size() > 0;
  // One that is not known has no time to be idle: there is one deadline for the whole head.
  wait_for(has_bytes ? Wait::Head : Wait::Idle,
           has_bytes || !is_known_ ? server_.limits_.header : server_.limits_.idle);
  for (;;) {
    if (buffer_.size() > 0) {
      boost::system::error_code problem;
      const std::size_t used = parser_->put(buffer_.data(), problem);
      buffer_.consume(used);
      if (problem && problem != http::error::need_more && problem != http::error::need_buffer) {
        co_return parse_refusal(problem);
      }
      if (parser_->is_header_done()) break;
      if (buffer_.size() > server_.limits_.header_bytes)
        co_return parse_refusal(http::error::header_limit);
    }
    const bool more = co_await fill_buffer(kReadSize);
    if (!more) {
      if (timed_out_ && waiting_ == Wait::Head) {
        co_return refusal(408, "TIMEOUT", "the head of the request did not come in time");
      }
      co_return already_sent();
    }
    if (waiting_ == Wait::Idle && is_known_) wait_for(Wait::Head, server_.limits_.header);
    waiting_ = Wait::Head;
  }
  wait_for(Wait::Nothing, {});
  co_return std::nullopt;
}

std::optional<Response> Connection::take_request() {
  const auto& head = parser_->get();
  request_ = Request{};
  request_.peer = peer_;
  request_.method = to_method(head.method());
  const std::string_view target(head.target().data(), head.target().size());
  const std::size_t mark = target.find('?');
  request_.path = std::string(target.substr(0, mark));
  for (const auto& field : head) {
    const std::string_view name(field.name_string().data(), field.name_string().size());
    const std::string_view value(field.value().data(), field.value().size());
    request_.headers.push_back({lower(name), std::string(value)});
  }
  if (const auto length = parser_->content_length()) request_.content_length = *length;
  close_ = !parser_->keep_alive() || server_.is_draining();
  chunked_ = head.version() >= 11;
  const std::string* expect = request_.find_header("expect");
  continue_wanted_ = chunked_ && expect != nullptr && lower(*expect) == "100-continue";
  begun_ = finished_ = timed_out_ = body_broke_ = false;
  body_step_ = 0;
  pending_head_.clear();
  // A proxy before us may read such a body otherwise, and take its end for a request (request
  // smuggling).
  if (request_.find_header("transfer-encoding") != nullptr && !parser_->chunked()) {
    close_ = true;
    return refusal(400, "INVALID_REQUEST", "the only Transfer-Encoding is chunked");
  }
  if (mark != std::string_view::npos) {
    auto query = parse_query(target.substr(mark + 1));
    if (!query) return refusal(400, "INVALID_REQUEST", "the query of the request is malformed");
    request_.query = *std::move(query);
  }
  if (!request_.path.starts_with('/')) {
    return refusal(400, "INVALID_REQUEST", "the target of the request is no path");
  }
  return std::nullopt;
}

asio::awaitable<Response> Connection::handle() {
  if (!server_.has_room_for_request(peer_)) {
    ++server_.counts_.refused;
    Response busy = refusal(429, "TOO_MANY_REQUESTS", "too many requests at the same time");
    busy.headers.push_back({"Retry-After", "1"});
    co_return busy;
  }
  struct Open {
    std::size_t& count;
    explicit Open(std::size_t& counter) : count(counter) { ++count; }
    ~Open() { --count; }
  } const open(server_.counts_.open_requests);
  std::string bug;
  try {
    co_return co_await server_.handler_(*this);
  } catch (const Bug& problem) {
    bug = problem.message;
  } catch (const std::exception& problem) {
    bug = problem.what();
  }
  server_.bug_sink_(fmt::format("{} {}: {}", to_text(request_.method), request_.path, bug));
  co_return refusal(500, "RUNTIME_ERROR", "a bug in glovebox; its log has the details");
}

asio::awaitable<Connection::After> Connection::serve_one() {
  const std::optional<Response> refused = co_await read_head();
  if (refused) {
    if (refused->status == kAlreadySent) co_return After::Close;
    close_ = true;
    ++server_.counts_.refused;
    co_await write_response(*refused);
    co_return After::Close;
  }
  ++server_.counts_.requests;
  std::optional<Response> response = take_request();
  if (!response) response = co_await handle();
  co_return co_await answer(*std::move(response));
}

asio::awaitable<Connection::After> Connection::answer(Response response) {
  if (upgraded_) co_return After::Close;
  if (response.status == kAlreadySent || begun_) {
    // An answer that broke off can only be told by closing.
    if (!finished_) co_return After::Close;
  } else {
    // Decided before the answer is sent, because it says so.
    if (!parser_->is_done()) {
      const bool drained = co_await drain_body();
      if (!drained) close_ = true;
    }
    const bool sent = co_await write_response(response);
    if (!sent) co_return After::Close;
  }
  if (!parser_->is_done()) {
    const bool drained = co_await drain_body();
    if (!drained) co_return After::Close;
  }
  co_return close_ ? After::Close : After::Next;
}

asio::awaitable<bool> Connection::drain_body() {
  // A client that waits for "100 Continue" has not sent its body and may never do so. For the body
  // of a caller that is not known nothing waits.
  if (continue_wanted_ || body_broke_ || !is_known_) co_return false;
  if (request_.content_length && *request_.content_length > kMostDrained) co_return false;
  std::array<char, 16 << 10> away;
  std::size_t drained = 0;
  while (!parser_->is_done()) {
    const auto count = co_await read_some(away);
    if (!count) co_return false;
    drained += *count;
    if (drained > kMostDrained) co_return false;
  }
  co_return true;
}

// Says that nothing more is coming, and reads what is still on its way for a moment.
asio::awaitable<void> Connection::linger() {
  if (write_broke_) co_return;
  boost::system::error_code ignored;
  stream_.socket().shutdown(Stream::Socket::shutdown_send, ignored);
  if (is_hung_up(stream_.socket().native_handle())) co_return;
  timed_out_ = false;
  wait_for(Wait::Head, kLinger);
  for (std::size_t seen = 0; seen < kMostLingered;) {
    buffer_.clear();
    const auto space = buffer_.prepare(kReadSize);
    const auto [problem, count] = co_await stream_.socket().async_read_some(space, kTuple);
    if (problem || count == 0) break;
    seen += count;
  }
}

asio::awaitable<Result<void>> Connection::send_continue() {
  continue_wanted_ = false;
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  const std::array<asio::const_buffer, 1> pieces = {asio::buffer(kContinue)};
  co_return co_await write(pieces);
}

// How much of the buffer the parser took. It throws at trailers that no string can hold.
std::size_t Connection::feed_parser(boost::system::error_code& problem) {
  if (buffer_.size() == 0) return 0;
  try {
    const std::size_t used = parser_->put(buffer_.data(), problem);
    buffer_.consume(used);
    return used;
  } catch (const std::exception&) {
    problem = http::error::bad_value;
    return 0;
  }
}

tl::unexpected<Error> Connection::late_body() {
  body_broke_ = true;
  return fail_os(ETIMEDOUT, "the body did not come in time");
}

asio::awaitable<Result<std::size_t>> Connection::read_some(std::span<char> into) {
  if (parser_->is_done()) co_return std::size_t{0};
  if (continue_wanted_) CO_TRY_VOID(co_await send_continue());
  auto& body = parser_->get().body();
  body.data = into.data();
  body.size = into.size();
  body.more = true;
  // It may have been over while no handler read.
  if (timed_out_) co_return late_body();
  if (waiting_ != Wait::Body) wait_for(Wait::Body, server_.limits_.body);
  for (;;) {
    boost::system::error_code problem;
    const std::size_t used = feed_parser(problem);
    const bool starving = buffer_.size() == 0 || used == 0 || problem == http::error::need_more;
    if (problem && problem != http::error::need_buffer && problem != http::error::need_more) {
      body_broke_ = true;
      co_return fail(Code::Invalid, "the body is malformed: {}", problem.message());
    }
    const std::size_t produced = into.size() - body.size;
    if (parser_->is_done() || produced > 0) {
      count_body(produced);
      co_return produced;
    }
    if (!starving) continue;  // the head of a chunk was read, and its bytes are here
    // What is left is the head of a chunk or a trailer that has no end.
    if (buffer_.size() > server_.limits_.header_bytes) {
      body_broke_ = true;
      co_return fail(Code::Invalid, "the body is malformed: the head of a chunk is too long");
    }
    const bool more = co_await fill_buffer(kReadSize);
    if (!more) {
      body_broke_ = true;
      if (timed_out_) co_return late_body();
      co_return fail_os(ECONNRESET, "read the body");
    }
  }
}

// Time for the next step of a body begins when one is complete.
void Connection::count_body(std::size_t bytes) {
  body_step_ += bytes;
  if (!parser_->is_done() && body_step_ < kBodyStep) return;
  body_step_ = 0;
  wait_for(Wait::Nothing, {});
}

asio::awaitable<Result<std::string>> Connection::read_body(std::size_t limit) {
  std::string body;
  if (request_.content_length && *request_.content_length > limit) {
    co_return fail(Code::Exhausted, "the body has {} bytes; {} is the most",
                   *request_.content_length, limit);
  }
  std::size_t filled = 0;
  for (;;) {
    if (filled == body.size()) {
      body.resize(std::min(limit + 1, std::max<std::size_t>(2 * filled, 4'096)));
    }
    const std::span<char> space(body.data() + filled, body.size() - filled);
    CO_TRY(const std::size_t count, co_await read_some(space));
    filled += count;
    if (filled > limit) co_return fail(Code::Exhausted, "the body has more than {} bytes", limit);
    if (parser_->is_done()) break;
  }
  body.resize(filled);
  co_return body;
}

std::string Connection::make_head(const Response& response, Length length) {
  if (!length.bytes && !chunked_) close_ = true;
  std::string head;
  head.reserve(256);
  fmt::format_to(std::back_inserter(head), "HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status,
                 reason_of(response.status), http_date());
  for (const Field& field : response.headers) {
    if (close_ && field.name == "Connection") continue;
    // A line break in a value would let a client of ours write headers of its own.
    std::string value = field.value;
    std::erase_if(value, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
    fmt::format_to(std::back_inserter(head), "{}: {}\r\n", field.name, value);
  }
  if (length.bytes) {
    fmt::format_to(std::back_inserter(head), "Content-Length: {}\r\n", *length.bytes);
  } else if (chunked_) {
    head += "Transfer-Encoding: chunked\r\n";
  }
  if (close_) head += "Connection: close\r\n";
  head += "\r\n";
  return head;
}

asio::awaitable<Result<void>> Connection::write(std::span<const asio::const_buffer> pieces) {
  // After a write that failed the socket never becomes ready again: the next one would wait for its
  // deadline.
  if (write_broke_) co_return fail_os(EPIPE, "write to the client");
  wait_for(Wait::Write, server_.limits_.write);
  const auto [problem, count] = co_await asio::async_write(stream_, pieces, kTuple);
  wait_for(Wait::Nothing, {});
  if (problem) {
    close_ = write_broke_ = true;
    co_return fail_os(EPIPE, "write to the client");
  }
  co_return Result<void>{};
}

asio::awaitable<bool> Connection::write_response(const Response& response) {
  const std::string head = make_head(response, Length{response.body.size()});
  const std::array<asio::const_buffer, 2> pieces = {
      asio::buffer(head),
      request_.method == Method::Head ? asio::const_buffer() : asio::buffer(response.body)};
  const auto written = co_await write(pieces);
  co_return written.has_value();
}

void Connection::begin(Response head, Length length) {
  GLOVEBOX_CHECK(!begun_);
  begun_ = true;
  if (length.bytes) chunked_ = false;
  pending_head_ = make_head(head, length);
}

asio::awaitable<Result<void>> Connection::flush_head() {
  const std::string head = std::exchange(pending_head_, {});
  const std::array<asio::const_buffer, 1> pieces = {asio::buffer(head)};
  co_return co_await write(pieces);
}

asio::awaitable<Result<void>> Connection::send(std::string_view bytes) {
  if (bytes.empty()) co_return Result<void>{};
  const std::string head = std::exchange(pending_head_, {});
  const std::string size = chunked_ ? fmt::format("{:x}\r\n", bytes.size()) : std::string();
  const std::array<asio::const_buffer, 4> pieces = {
      asio::buffer(head), asio::buffer(size), asio::buffer(bytes),
      asio::buffer(std::string_view(chunked_ ? "\r\n" : ""))};
  co_return co_await write(pieces);
}

asio::awaitable<Result<void>> Connection::finish(std::string_view rest) {
  const std::string head = std::exchange(pending_head_, {});
  finished_ = true;
  const bool framed = chunked_ && !rest.empty();
  const std::string size = framed ? fmt::format("{:x}\r\n", rest.size()) : std::string();
  const std::string_view end = !chunked_ ? "" : framed ? "\r\n0\r\n\r\n" : "0\r\n\r\n";
  const std::array<asio::const_buffer, 4> pieces = {asio::buffer(head), asio::buffer(size),
                                                    asio::buffer(rest), asio::buffer(end)};
  const auto written = co_await write(pieces);
  if (!written) finished_ = false;
  co_return written;
}

std::shared_ptr<void> Connection::watch_client(std::function<void()> when_gone) {
  auto watch = std::make_shared<Watch>(stream_.socket(), std::move(when_gone));
  watch->start();
  // The deleter runs when the guard goes; the watch itself may be in the hands of the loop longer.
  return {watch.get(), [watch](Watch* /*unused*/) { watch->stop(); }};
}

asio::awaitable<Result<std::unique_ptr<WebSocket>>> Connection::upgrade() {
  upgraded_ = true;
  co_return co_await accept_websocket(stream_, request_, shared_from_this());
}

}  // namespace glovebox::serve
