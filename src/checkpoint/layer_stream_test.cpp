// Layers into a checkpoint and out of it, on a real file system.
#include "checkpoint/layer_stream.h"

#include "base/file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace glovebox::checkpoint {
namespace {

namespace fs = std::filesystem;

class LayerStream : public testing::Test {
 protected:
  LayerStream() {
    std::string name = "/tmp/glovebox-checkpoint-test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no place to test in");
    place_ = name;
    for (const char* dir : {"from", "frozen", "original", "original/d", "to"})
      fs::create_directory(place_ / dir);
  }
  ~LayerStream() override {
    for (const auto& entry :
         fs::recursive_directory_iterator(place_, fs::directory_options::skip_permission_denied)) {
      if (entry.is_directory() && !entry.is_symlink()) ::chmod(entry.path().c_str(), 0700);
    }
    std::error_code ignored;
    fs::remove_all(place_, ignored);
  }

  UniqueFd open(const char* dir) { return *open_file(place_ / dir, O_RDONLY | O_DIRECTORY); }

  void write(const workspace::Uppers& uppers) {
    forge([&](RecordWriter& records) {
      const UniqueFd original = open("original");
      const auto content = write_layer({uppers, original}, records);
      ASSERT_TRUE(content) << content.error().message;
      content_ = *content;
      bounds_.told = content_;
    });
  }

  Result<RecordKind> read() {
    Source source = [this,
                     at = std::size_t{0}](std::span<char> into) mutable -> Result<std::size_t> {
      const std::size_t size = std::min(into.size(), file_.size() - at);
      std::copy_n(file_.data() + at, size, into.data());
      at += size;
      return size;
    };
    TRY(const auto reader, SealedReader::open(std::move(source), key_, ""));
    RecordReader records(*reader);
    return read_layer(records, open("to"), workspace::MarkPrefix::User, {}, bounds_);
  }

  // A checkpoint of these records, also of such as no writer of ours writes.
  void forge(const std::function<void(RecordWriter&)>& put) {
    file_.clear();
    const auto writer = SealedWriter::open(
        [this](std::string_view bytes) -> Result<void> {
          file_ += bytes;
          return {};
        },
        Header{}, key_);
    ASSERT_TRUE(writer);
    RecordWriter records(**writer);
    put(records);
    ASSERT_TRUE(records.end());
    ASSERT_TRUE((*writer)->finish());
  }

  static std::string text_of(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  Key key_ = *make_key();
  fs::path place_;
  std::string file_;
  LayerContent content_;
  LayerBounds bounds_;
};

EntryRecord file_of(std::string path, std::uint64_t size) {
  EntryRecord record;
  record.mode = 0600;
  record.size = size;
  record.path = std::move(path);
  return record;
}

TEST_F(LayerStream, MoreThanTheCheckpointSaysIsRefused) {
  const LayerContent most = most_of({});
  forge([&](RecordWriter& out) {
    for (std::uint64_t i = 0; i <= most.entries; ++i) {
      ASSERT_TRUE(out.entry(file_of(std::to_string(i), 0)));
    }
  });
  auto refused = read();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Exhausted);
  forge([&](RecordWriter& out) {
    ASSERT_TRUE(out.entry(file_of("one", most.bytes)));
    ASSERT_TRUE(out.entry(file_of("more", 1)));
  });
  refused = read();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Exhausted);
  EXPECT_NE(refused.error().message.find("more"), std::string::npos);
}

TEST_F(LayerStream, MoreThanThereIsRoomForIsRefusedAndHolesTakeNone) {
  constexpr std::uint64_t kRoom = 100'000;
  const auto with_data = [](std::size_t bytes) {
    return [bytes](RecordWriter& out) {
      ASSERT_TRUE(out.entry(file_of("sparse", 40 << 20)));
      ASSERT_TRUE(out.entry(file_of("file", bytes)));
      ASSERT_TRUE(out.data(0, std::string(bytes, 'x')));
    };
  };
  std::uint64_t room = kRoom;
  bounds_.take_room = [&room](std::uint64_t bytes) -> Result<void> {
    if (bytes > room) return fail(Code::Exhausted, "no room");
    room -= bytes;
    return {};
  };
  forge(with_data(90'000));
  const auto fits = read();
  ASSERT_TRUE(fits) << fits.error().message;
  EXPECT_LT(room, 10'000u);
  fs::remove_all(place_ / "to");
  fs::create_directory(place_ / "to");
  room = kRoom;
  forge(with_data(kRoom));
  const auto refused = read();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Exhausted);
}

TEST_F(LayerStream, DataThatLeadsNowhereIsRefused) {
  const std::vector<std::pair<std::uint64_t, std::string>> forged[] = {
      {{0, ""}}, {{0, "abc"}, {0, "abc"}}, {{3, "abc"}, {2, "a"}}};
  int number = 0;
  for (const auto& pieces : forged) {
    forge([&](RecordWriter& out) {
      ASSERT_TRUE(out.entry(file_of(std::to_string(number++), 10)));
      for (const auto& [offset, bytes] : pieces) ASSERT_TRUE(out.data(offset, bytes));
    });
    const auto refused = read();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Invalid);
  }
}

TEST_F(LayerStream, EverythingThatALayerCanHoldComesBack) {
  const fs::path from = place_ / "from";
  fs::create_directories(from / "dir/deep");
  std::ofstream(from / "dir/file") << "hello\n";
  fs::create_symlink("../../etc/passwd", from / "dir/link");
  ASSERT_EQ(::mkfifo((from / "pipe").c_str(), 0640), 0);
  std::ofstream(place_ / "original/gone") << "gone";
  for (const char* name : {"gone", "never", "dir/never"}) {
    ASSERT_EQ(::mknod((from / name).c_str(), S_IFCHR, makedev(0, 0)), 0);
  }
  ASSERT_EQ(::setxattr((from / "dir").c_str(), "user.overlay.opaque", "y", 1, 0), 0);
  ASSERT_EQ(::setxattr((from / "dir/file").c_str(), "user.note", "mine", 4, 0), 0);
  ASSERT_EQ(::chmod((from / "dir/file").c_str(), 0604), 0);
  const timespec times[2] = {{1, 2}, {1'600'000'000, 123'456'789}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (from / "dir/file").c_str(), times, 0), 0);
  ASSERT_EQ(::chmod((from / "dir/deep").c_str(), 0500), 0);
  write(open("from"));
  EXPECT_EQ(content_, (LayerContent{6, 6}));
  const auto end = read();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(*end, RecordKind::End);

  const fs::path to = place_ / "to";
  EXPECT_EQ(text_of(to / "dir/file"), "hello\n");
  EXPECT_EQ(fs::read_symlink(to / "dir/link"), "../../etc/passwd");
  EXPECT_TRUE(fs::is_fifo(to / "pipe"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(to / "never"))) << "it hides nothing";
  EXPECT_FALSE(fs::exists(fs::symlink_status(to / "dir/never")));
  struct stat facts{};
  ASSERT_EQ(::lstat((to / "gone").c_str(), &facts), 0);
  EXPECT_TRUE(S_ISCHR(facts.st_mode) && facts.st_rdev == makedev(0, 0));
  ASSERT_EQ(::lstat((to / "dir/file").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777U, 0604U);
  EXPECT_EQ(facts.st_mtim.tv_sec, 1'600'000'000);
  EXPECT_EQ(facts.st_mtim.tv_nsec, 123'456'789);
  ASSERT_EQ(::lstat((to / "dir/deep").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777U, 0500U);
  char value[8] = {};
  EXPECT_EQ(::getxattr((to / "dir").c_str(), "user.overlay.opaque", value, sizeof(value)), 1);
  EXPECT_EQ(::getxattr((to / "dir/file").c_str(), "user.note", value, sizeof(value)), 4);
}

TEST_F(LayerStream, AStackOfLayersBecomesOne) {
  const fs::path top = place_ / "from";
  const fs::path frozen = place_ / "frozen";
  fs::create_directories(frozen / "d");
  std::ofstream(frozen / "d/old") << "old";
  std::ofstream(frozen / "d/changed") << "before";
  std::ofstream(frozen / "d/gone") << "gone";
  std::ofstream(frozen / "d/brief") << "only ever in a layer";
  std::ofstream(place_ / "original/d/gone") << "before";
  fs::create_directories(top / "d");
  std::ofstream(top / "d/changed") << "after";
  ASSERT_EQ(::mknod((top / "d/gone").c_str(), S_IFCHR, makedev(0, 0)), 0);
  ASSERT_EQ(::mknod((top / "d/brief").c_str(), S_IFCHR, makedev(0, 0)), 0);
  std::vector<UniqueFd> trees;
  trees.push_back(open("from"));
  trees.push_back(open("frozen"));
  write(workspace::Uppers(std::move(trees)));
  ASSERT_TRUE(read());
  EXPECT_EQ(text_of(place_ / "to/d/old"), "old");
  EXPECT_EQ(text_of(place_ / "to/d/changed"), "after");
  EXPECT_TRUE(fs::is_character_file(place_ / "to/d/gone"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(place_ / "to/d/brief")));
}

TEST_F(LayerStream, HolesStayHoles) {
  const fs::path sparse = place_ / "from/sparse";
  std::ofstream(sparse) << "begin";
  fs::resize_file(sparse, std::uintmax_t{4} << 30);
  {
    std::fstream out(sparse, std::ios::in | std::ios::out);
    out.seekp(std::streamoff{2} << 30);
    out << "middle";
  }
  write(open("from"));
  EXPECT_LT(file_.size(), 1u << 20);
  ASSERT_TRUE(read());
  struct stat facts{};
  ASSERT_EQ(::stat((place_ / "to/sparse").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_size, off_t{4} << 30);
  EXPECT_LT(facts.st_blocks, 1000);
  std::ifstream in(place_ / "to/sparse");
  in.seekg(std::streamoff{2} << 30);
  std::string text(6, '\0');
  in.read(text.data(), 6);
  EXPECT_EQ(text, "middle");
}

TEST_F(LayerStream, EntriesInNoDirectoryAndTwiceAreRefused) {
  const auto with = [&](const std::vector<EntryRecord>& entries) {
    file_.clear();
    const auto writer = SealedWriter::open(
        [this](std::string_view bytes) -> Result<void> {
          file_ += bytes;
          return {};
        },
        Header{}, key_);
    RecordWriter records(**writer);
    for (const EntryRecord& entry : entries) EXPECT_TRUE(records.entry(entry));
    EXPECT_TRUE(records.end());
    EXPECT_TRUE((*writer)->finish());
    return read();
  };
  EntryRecord file;
  file.path = "a/b";
  EXPECT_EQ(with({file}).error().code, Code::Invalid) << "no directory a";
  EntryRecord link;
  link.type = EntryType::Symlink;
  link.path = "a";
  link.target = "/tmp";
  EXPECT_EQ(with({link, file}).error().code, Code::Invalid) << "through a link";
  EXPECT_FALSE(fs::exists("/tmp/b"));
  EntryRecord once;
  once.path = "once";
  EXPECT_EQ(with({once, once}).error().code, Code::Invalid);
}

}  // namespace
}  // namespace glovebox::checkpoint
