// Whole files in and out of a session, as streams: a file of any size costs one buffer.
#include "http/date.h"
#include "serve/bodies/file_paths.h"
#include "serve/bodies/file_ranges.h"
#include "serve/bodies/multipart.h"
#include "serve/helpers.h"
#include "serve/routes/handlers.h"

#include <charconv>
#include <memory>

namespace glovebox::serve {
namespace {

namespace json = boost::json;
using guest::JobKind;
using guest::StartJob;

constexpr std::size_t kBuffer = 256 << 10;
constexpr std::size_t kMaxMetadata = 64 << 10;
constexpr std::int64_t kSecond = 1'000'000'000;

// ---- Download -----------------------------------------------------------------------------------

struct DownloadOrder {
  FilePath path;
  std::optional<std::string> range;
  std::optional<std::uint64_t> first_line;
  std::optional<std::uint64_t> lines;
  bool by_lines() const { return first_line || lines; }
};

Result<std::optional<std::uint64_t>, ApiError> positive(const Request& request,
                                                        std::string_view name) {
  const std::string* text = request.find_query(name);
  std::uint64_t value = 0;
  if (text == nullptr || text->empty()) return std::optional<std::uint64_t>();
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (problem != std::errc() || end != text->data() + text->size() || value == 0) {
    return refuse(400, "INVALID_REQUEST_BODY", "'{}' is a whole number, 1 or more", name);
  }
  return std::optional<std::uint64_t>(value);
}

Result<DownloadOrder, ApiError> read_download(const Call& call, const FileRoots& roots) {
  DownloadOrder order;
  const std::string* path = call.request.find_query("path");
  if (path == nullptr || path->empty()) return refuse(400, "MISSING_QUERY", "path is required");
  TRY(order.path, roots.find(*path, FileUse::Read));
  TRY(order.first_line, positive(call.request, "offset"));
  TRY(order.lines, positive(call.request, "limit"));
  if (const std::string* range = call.request.find_header("range")) order.range = *range;
  if (order.range && order.by_lines()) {
    return refuse(400, "INVALID_REQUEST_BODY", "Range excludes offset and limit");
  }
  return order;
}

std::string last_modified(const guest::Entry& entry) {
  return http_date(static_cast<std::int64_t>(entry.modified_ns) / kSecond);
}

bool is_unchanged(const Request& request, const guest::Entry& entry) {
  const std::string* since = request.find_header("if-modified-since");
  return since != nullptr && *since == last_modified(entry);
}

// Sends exactly `count` bytes of the job, or breaks the answer off: the head has promised them.
asio::awaitable<void> send_bytes(Call& call, session::FileJob& job, std::uint64_t count) {
  const auto buffer = std::make_unique<char[]>(kBuffer);
  while (count > 0) {
    const std::span<char> space(buffer.get(), std::min<std::uint64_t>(kBuffer, count));
    const auto got = co_await job.read(space);
    if (!got || *got == 0) co_return;
    count -= *got;
    const std::string_view piece(buffer.get(), *got);
    if (count == 0) {
      (void)co_await call.exchange.finish(piece);  // the client may be gone
      co_return;
    }
    const auto sent = co_await call.exchange.send(piece);
    if (!sent) co_return;
  }
  (void)co_await call.exchange.finish("");
}

asio::awaitable<void> send_lines(Call& call, session::FileJob& job, const DownloadOrder& order) {
  Response head = text_answer(200, "");
  call.exchange.begin(std::move(head), Length{});
  LineCutter cutter(order.first_line.value_or(1), order.lines);
  const auto buffer = std::make_unique<char[]>(kBuffer);
  const std::span<char> space(buffer.get(), kBuffer);
  std::string out;
  for (bool more = true; more;) {
    const auto got = co_await job.read(space);
    if (!got) co_return;
    more = *got > 0 && cutter.add({buffer.get(), *got}, out);
    if (out.size() < kBuffer && more) continue;
    if (more) {
      const auto sent = co_await call.exchange.send(out);
      if (!sent) co_return;
      out.clear();
    }
  }
  (void)co_await call.exchange.finish(out);  // the client may be gone
}

Response file_head(int status, const guest::Entry& entry) {
  Response head;
  head.status = status;
  head.headers = {{"Content-Type", "application/octet-stream"},
                  {"Content-Disposition", content_disposition(entry.path)},
                  {"Last-Modified", last_modified(entry)},
                  {"Accept-Ranges", "bytes"}};
  return head;
}

// How large the file is, which a range must know before the file is read.
asio::awaitable<Result<std::optional<ByteRange>, ApiError>> find_range(Call& call,
                                                                       session::LiveSession& live,
                                                                       const DownloadOrder& order) {
  if (!order.range) co_return std::optional<ByteRange>();
  StartJob info;
  info.kind = JobKind::Info;
  info.path = order.path.path;
  info.flags = guest::kFollow;
  CO_TRY(const guest::JobOver over, or_refuse(co_await live.job(std::move(info))));
  if (over.error) co_return tl::unexpected(to_api_error(*over.error));
  if (!over.entry) co_return refuse(500, "RUNTIME_ERROR", "nothing is known of the file");
  // With If-Range a range is only good for the file that the client knows.
  const std::string* if_range = call.request.find_header("if-range");
  if (if_range != nullptr && *if_range != last_modified(*over.entry)) {
    co_return std::optional<ByteRange>();
  }
  co_return parse_range(*order.range, over.entry->size);
}

}  // namespace

asio::awaitable<Answer> download(Call& call) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  CO_TRY(const std::shared_ptr<session::LiveSession> live, attach_session(call));
  const FileRoots roots(info);
  CO_TRY(const DownloadOrder order, read_download(call, roots));
  CO_TRY(const std::optional<ByteRange> range, co_await find_range(call, *live, order));
  StartJob read;
  read.kind = JobKind::Read;
  read.path = order.path.path;
  if (range) {
    read.offset = range->first;
    read.limit = range->last - range->first + 1;
  }
  CO_TRY(const std::unique_ptr<session::FileJob> job,
         or_refuse(co_await live->start_job(std::move(read))));
  CO_TRY(const guest::Entry entry, or_refuse(co_await job->read_entry()));
  if (order.by_lines()) {
    co_await send_lines(call, *job, order);
    co_return already_sent();
  }
  if (!range && is_unchanged(call.request, entry)) {
    co_return Response{
        .status = 304, .headers = {{"Last-Modified", last_modified(entry)}}, .body = {}};
  }
  const std::uint64_t size = range ? range->last - range->first + 1 : entry.size;
  Response head = file_head(range ? 206 : 200, entry);
  if (range) {
    head.headers.push_back(
        {"Content-Range", fmt::format("bytes {}-{}/{}", range->first, range->last, entry.size)});
  }
  call.exchange.begin(std::move(head), Length{size});
  co_await send_bytes(call, *job, size);
  co_return already_sent();
}

// ---- Upload -------------------------------------------------------------------------------------

namespace {

// Takes pairs of parts, `metadata` and `file`, and writes each file while it comes in.
class Uploader {
 public:
  Uploader(Call& call, std::shared_ptr<session::LiveSession> live, const session::SessionInfo& info,
           std::string_view boundary)
      : call_(call), live_(std::move(live)), roots_(info), reader_(boundary) {}

  asio::awaitable<Result<void, ApiError>> run() {
    for (;;) {
      auto event = reader_.next();
      if (!event) co_return refuse(400, "INVALID_FILE", "{}", event.error().message);
      if (std::holds_alternative<BodyEnd>(*event)) co_return check_counts();
      CO_TRY_VOID(co_await take(*event));
    }
  }

 private:
  asio::awaitable<Result<void, ApiError>> take(const MultipartEvent& event) {
    if (std::holds_alternative<NeedMore>(event)) co_return co_await read_more();
    if (const auto* begin = std::get_if<PartBegin>(&event)) co_return co_await begin_part(*begin);
    if (const auto* data = std::get_if<PartData>(&event)) co_return co_await take_data(data->bytes);
    co_return co_await end_part();
  }

  asio::awaitable<Result<void, ApiError>> read_more() {
    if (!buffer_) buffer_ = std::make_unique<char[]>(kBuffer);
    const std::span<char> space(buffer_.get(), kBuffer);
    auto got = co_await call_.exchange.read_some(space);
    if (!got) co_return tl::unexpected(body_refusal(got.error(), "INVALID_FILE"));
    received_ += *got;
    const Config& config = call_.service.config;
    if (config.upload_bytes > 0 && received_ > config.upload_bytes) {
      co_return refuse(413, "BODY_TOO_LARGE", "an upload has at most {} bytes",
                       config.upload_bytes);
    }
    if (const auto taken = call_.service.manager.layer_usage().take(*got); !taken) {
      co_return refuse(507, "RUNTIME_ERROR", "{}", taken.error().message);
    }
    if (*got == 0) reader_.end_input();
    reader_.feed({buffer_.get(), *got});
    co_return Result<void, ApiError>{};
  }

  asio::awaitable<Result<void, ApiError>> begin_part(const PartBegin& part) {
    kind_ = part.name;
    if (part.name == "metadata" && part.filename) {
      metadata_.clear();
      ++metadata_parts_;
    } else if (part.name == "file" && part.filename) {
      ++file_parts_;
      if (file_parts_ > metadata_parts_) {
        if (metadata_parts_ == 0) {
          co_return refuse(400, "INVALID_FILE_METADATA", "metadata file is missing");
        }
        co_return mismatch();
      }
      CO_TRY_VOID(co_await open_file());
    } else {
      kind_.clear();  // read over
    }
    co_return Result<void, ApiError>{};
  }

  asio::awaitable<Result<void, ApiError>> open_file() {
    CO_TRY(const json::value body, metadata_json());
    BodyProblems problems;
    StartJob job;
    job.kind = JobKind::Write;
    job.flags = guest::kParents;
    job.mode = 0644;
    std::string path;
    {
      ObjectReader reader(body, "metadata.", problems, unknown_fields(call_));
      path = reader.text("path").value_or("");
      job.owner = reader.text("owner").value_or("");
      job.group = reader.text("group").value_or("");
      const std::int64_t digits = reader.number("mode", 0, 1'000'000'000).value_or(0);
      if (digits != 0) job.mode = mode_from_digits(digits).value_or(0644);
    }
    if (problems.any() || path.empty()) {
      co_return refuse(400, "INVALID_FILE_METADATA", "{}",
                       problems.any() ? problems.check().error().message : "path is empty");
    }
    CO_TRY(const FilePath found, roots_.find(path, FileUse::Write));
    job.path = found.path;
    CO_TRY(job_, or_refuse(co_await live_->start_job(std::move(job))));
    co_return Result<void, ApiError>{};
  }

  Result<json::value, ApiError> metadata_json() const {
    auto body = parse_json(metadata_, call_.service.config.json_depth);
    if (!body) return refuse(400, "INVALID_FILE_METADATA", "{}", body.error().message);
    return body;
  }

  asio::awaitable<Result<void, ApiError>> take_data(std::string_view bytes) {
    if (kind_ == "metadata") {
      metadata_ += bytes;
      if (metadata_.size() > kMaxMetadata) {
        co_return refuse(400, "INVALID_FILE_METADATA", "metadata has at most {} bytes",
                         kMaxMetadata);
      }
    } else if (kind_ == "file") {
      auto written = co_await job_->write(bytes);
      if (!written) {
        // The job's own word says more than a broken pipe.
        CO_TRY_VOID(co_await end_part());
        co_return tl::unexpected(to_api_error(written.error()));
      }
    }
    co_return Result<void, ApiError>{};
  }

  asio::awaitable<Result<void, ApiError>> end_part() {
    if (kind_ == "file" && job_) {
      auto over = co_await job_->finish();
      job_.reset();
      if (!over) co_return tl::unexpected(to_api_error(over.error()));
      if (over->error) co_return tl::unexpected(to_api_error(*over->error));
    }
    kind_.clear();
    co_return Result<void, ApiError>{};
  }

  Result<void, ApiError> mismatch() const {
    return refuse(400, "INVALID_FILE", "metadata and file count mismatch: {} vs {}",
                  metadata_parts_, file_parts_);
  }

  Result<void, ApiError> check_counts() const {
    if (metadata_parts_ == 0) {
      return refuse(400, "INVALID_FILE_METADATA", "metadata file is missing");
    }
    if (file_parts_ == 0) return refuse(400, "INVALID_FILE_CONTENT", "file is missing");
    if (file_parts_ != metadata_parts_) return mismatch();
    return {};
  }

  Call& call_;
  std::shared_ptr<session::LiveSession> live_;
  FileRoots roots_;
  MultipartReader reader_;
  std::unique_ptr<char[]> buffer_;
  std::unique_ptr<session::FileJob> job_;
  std::string kind_;
  std::string metadata_;
  std::size_t metadata_parts_ = 0;
  std::size_t file_parts_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace

asio::awaitable<Answer> upload(Call& call) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  CO_TRY(std::shared_ptr<session::LiveSession> live, attach_session(call));
  const std::string* type = call.request.find_header("content-type");
  const auto boundary = multipart_boundary(type == nullptr ? "" : *type);
  if (!boundary) co_return refuse(400, "INVALID_FILE", "{}", boundary.error().message);
  Uploader uploader(call, std::move(live), info, *boundary);
  CO_TRY_VOID(co_await uploader.run());
  co_return empty_answer();
}

}  // namespace glovebox::serve
