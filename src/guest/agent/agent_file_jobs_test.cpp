// File jobs by a real agent, on a real file system.
#include "base/file.h"
#include "base/tar.h"
#include "guest/agent/agent_test_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::guest {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

StartJob job_for(JobKind kind, std::string path, std::uint32_t flags = 0) {
  StartJob job;
  job.kind = kind;
  job.path = std::move(path);
  job.flags = flags;
  return job;
}

int errno_of(const TestAgent::JobResult& result) {
  return result.over.error ? result.over.error->os_errno : 0;
}

class FileJobs : public ::testing::TestWithParam<Transport> {
 protected:
  FileJobs() : agent_(options()) {}
  static TestAgent::Options options() {
    TestAgent::Options options;
    options.transport = GetParam();
    return options;
  }

  void write(const std::string& path, std::string_view data) {
    const auto result = agent_.job(job_for(JobKind::Write, path, kParents), data);
    ASSERT_EQ(errno_of(result), 0) << result.over.error->message;
    EXPECT_EQ(result.over.count, data.size());
  }
  std::string content(const std::string& name) {
    return read_file(agent_.path_of(name), std::size_t{1} << 24).value_or("(missing)");
  }
  std::vector<std::string> paths(const TestAgent::JobResult& result) {
    std::vector<std::string> found;
    for (const Entry& entry : result.entries) {
      found.push_back(fs::path(entry.path).lexically_relative(agent_.workspace()).string());
    }
    return found;
  }

  TestAgent agent_;
};

INSTANTIATE_TEST_SUITE_P(Transports, FileJobs,
                         ::testing::Values(Transport::Packets, Transport::Stream),
                         [](const auto& transport) {
                           return transport.param == Transport::Packets ? "Packets" : "Stream";
                         });

TEST_P(FileJobs, WriteReadInfo) {
  write("d/a.txt", "hello");
  const auto info = agent_.job(job_for(JobKind::Info, agent_.path_of("d/a.txt")));
  ASSERT_TRUE(info.over.entry);
  EXPECT_EQ(info.over.entry->kind, EntryKind::File);
  EXPECT_EQ(info.over.entry->size, 5U);
  EXPECT_EQ(info.over.entry->mode, 0644U);
  EXPECT_EQ(info.over.entry->path, agent_.path_of("d/a.txt"));
  const auto read = agent_.job(job_for(JobKind::Read, "d/a.txt"));
  EXPECT_EQ(read.output, "hello");
  ASSERT_EQ(read.entries.size(), 1U);
  EXPECT_EQ(read.entries[0].size, 5U);
}

TEST_P(FileJobs, BinaryContentComesBack) {
  std::string data;
  for (int i = 0; i < 700'000; ++i) data += static_cast<char>(i * 7 + i / 256);
  write("binary", data);
  EXPECT_EQ(agent_.job(job_for(JobKind::Read, "binary")).output, data);
}

TEST_P(FileJobs, ReadsRanges) {
  write("r", "0123456789");
  StartJob job = job_for(JobKind::Read, "r");
  job.offset = 3;
  job.limit = 4;
  EXPECT_EQ(agent_.job(job).output, "3456");
  job.offset = 8;
  EXPECT_EQ(agent_.job(job).output, "89");
  job.offset = 50;
  EXPECT_EQ(agent_.job(job).output, "");
}

TEST_P(FileJobs, WhatIsNoRegularFileIsNotRead) {
  EXPECT_EQ(agent_.run("mkfifo p; mkdir d; ln -s /dev/zero z").end.value, 0U);
  EXPECT_TRUE(agent_.job(job_for(JobKind::Read, "p")).over.error);
  EXPECT_EQ(errno_of(agent_.job(job_for(JobKind::Read, "d"))), EISDIR);
  EXPECT_TRUE(agent_.job(job_for(JobKind::Read, "z")).over.error);
  EXPECT_EQ(errno_of(agent_.job(job_for(JobKind::Read, "none"))), ENOENT);
  EXPECT_TRUE(agent_.job(job_for(JobKind::Write, "p"), "x").over.error);
  EXPECT_EQ(errno_of(agent_.job(job_for(JobKind::Write, "d"), "x")), EISDIR);
}

TEST_P(FileJobs, WriteKeepsTheModeUnlessToldAndLeavesNothingBehind) {
  write("f", "one");
  EXPECT_EQ(agent_.run("chmod 750 f; ln -s f link; ln f hard").end.value, 0U);
  write("link", "two");
  EXPECT_EQ(content("f"), "two") << "a link to a file is written through";
  EXPECT_TRUE(fs::is_symlink(agent_.path_of("link")));
  EXPECT_EQ(content("hard"), "one") << "the file was replaced, not changed";
  EXPECT_EQ(fs::status(agent_.path_of("f")).permissions(), fs::perms(0750));
  StartJob job = job_for(JobKind::Write, "f");
  job.mode = 0600;
  EXPECT_EQ(errno_of(agent_.job(job, "x")), 0);
  EXPECT_EQ(fs::status(agent_.path_of("f")).permissions(), fs::perms(0600));
  job.flags = kKeepTarget;
  EXPECT_EQ(errno_of(agent_.job(job, "y")), EEXIST);
  EXPECT_EQ(content("f"), "x");
  EXPECT_EQ(agent_.run("ls -A").output, "f\nhard\nlink\n");
}

TEST_P(FileJobs, WritesBelongToTheBoxAndRefusalsAreTheKernels) {
  EXPECT_EQ(errno_of(agent_.job(job_for(JobKind::Write, "/etc/glovebox-test"), "x")), EACCES);
  write("mine", "x");
  EXPECT_EQ(agent_.run("[ -O mine ] && echo own").output, "own\n");
}

TEST_P(FileJobs, RemoveMoveAndAttributes) {
  write("a", "1");
  StartJob move = job_for(JobKind::Move, "a", kParents);
  move.target = "x/y/b";
  EXPECT_EQ(errno_of(agent_.job(move)), 0);
  EXPECT_EQ(content("x/y/b"), "1");
  write("c", "2");
  move.path = "c";
  move.flags = kKeepTarget;
  EXPECT_EQ(errno_of(agent_.job(move)), EEXIST);
  StartJob mode = job_for(JobKind::SetAttributes, "c");
  mode.mode = 0711;
  EXPECT_EQ(errno_of(agent_.job(mode)), 0);
  EXPECT_EQ(agent_.job(job_for(JobKind::Info, "c")).over.entry->mode, 0711U);
  mode.mode = 04755;
  EXPECT_EQ(errno_of(agent_.job(mode)), EPERM) << "set-user-ID is refused by the filter";
  mode.mode = kAnyMode;
  mode.owner = "no-such-user";
  EXPECT_EQ(agent_.job(mode).over.error->code, Code::NotFound);
  mode.owner = "root";  // EINVAL where the box's namespace does not know it
  EXPECT_THAT(errno_of(agent_.job(mode)), ::testing::AnyOf(EPERM, EINVAL));
  EXPECT_EQ(errno_of(agent_.job(job_for(JobKind::Remove, "c"))), 0);
  EXPECT_EQ(errno_of(agent_.job(job_for(JobKind::Remove, "c"))), ENOENT);
  EXPECT_EQ(errno_of(agent_.job(job_for(JobKind::Remove, "c", kMissingIsFine))), 0);
  EXPECT_EQ(errno_of(agent_.job(job_for(JobKind::Remove, "x"))), ENOTEMPTY);
}

TEST_P(FileJobs, MakeAndRemoveTrees) {
  StartJob make = job_for(JobKind::MakeDirectory, "d/e/f", kParents);
  make.mode = 0700;
  EXPECT_EQ(errno_of(agent_.job(make)), 0);
  EXPECT_EQ(errno_of(agent_.job(make)), 0) << "again is fine";
  EXPECT_EQ(agent_.job(job_for(JobKind::Info, "d/e/f")).over.entry->mode, 0700U);
  EXPECT_EQ(errno_of(agent_.job(job_for(JobKind::MakeDirectory, "d"))), EEXIST);
  EXPECT_EQ(agent_.run("echo out > keep; ln -s ../keep d/link; touch d/e/g").end.value, 0U);
  const auto removed = agent_.job(job_for(JobKind::Remove, "d", kRecursive));
  EXPECT_EQ(errno_of(removed), 0);
  EXPECT_EQ(removed.over.count, 5U);
  EXPECT_FALSE(fs::exists(agent_.path_of("d")));
  EXPECT_EQ(content("keep"), "out\n") << "links are removed, not followed";
}

TEST_P(FileJobs, ListIsOrderedBoundedAndFollowsNoLink) {
  EXPECT_EQ(agent_.run("mkdir -p b/c; touch a b/x b/c/y; ln -s b l; ln -s / root").end.value, 0U);
  StartJob list = job_for(JobKind::List, agent_.workspace());
  EXPECT_THAT(paths(agent_.job(list)), ElementsAre("a", "b", "b/c", "b/c/y", "b/x", "l", "root"));
  list.limit = 1;
  const auto shallow = agent_.job(list);
  EXPECT_THAT(paths(shallow), ElementsAre("a", "b", "l", "root"));
  EXPECT_EQ(shallow.entries[2].kind, EntryKind::Symlink);
  EXPECT_EQ(shallow.entries[2].target, "b");
  EXPECT_EQ(errno_of(agent_.job(job_for(JobKind::List, "a"))), ENOTDIR);
}

TEST_P(FileJobs, SearchByPattern) {
  EXPECT_EQ(agent_.run("mkdir -p s/t; touch A.TXT s/b.txt s/t/c.txt s/t/d.md").end.value, 0U);
  StartJob search = job_for(JobKind::Search, agent_.workspace());
  search.target = "*.txt";
  EXPECT_THAT(paths(agent_.job(search)), ElementsAre("s/b.txt", "s/t/c.txt"));
  search.flags = kIgnoreCase;
  EXPECT_THAT(paths(agent_.job(search)), ElementsAre("A.TXT", "s/b.txt", "s/t/c.txt"));
  search.limit = 2;
  EXPECT_EQ(agent_.job(search).over.count, 2U);
  search.limit = 0;
  search.target = "s/**/*.md";
  EXPECT_THAT(paths(agent_.job(search)), ElementsAre("s/t/d.md"));
  search.target = "[";
  EXPECT_EQ(agent_.job(search).over.error->code, Code::Invalid);
}

TEST_P(FileJobs, ReplaceCountsAndKeepsTheMode) {
  write("f", "one two one");
  EXPECT_EQ(agent_.run("chmod 755 f").end.value, 0U);
  StartJob replace = job_for(JobKind::Replace, "f");
  replace.old_text = "one";
  replace.new_text = "1";
  EXPECT_EQ(agent_.job(replace).over.count, 2U);
  EXPECT_EQ(content("f"), "1 two 1");
  EXPECT_EQ(fs::status(agent_.path_of("f")).permissions(), fs::perms(0755));
  EXPECT_EQ(agent_.job(replace).over.count, 0U);
  replace.old_text.clear();
  EXPECT_EQ(agent_.job(replace).over.error->code, Code::Invalid);
}

TEST_P(FileJobs, Hash) {
  write("f", "abc");
  EXPECT_EQ(agent_.job(job_for(JobKind::Hash, "f")).over.hash,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_P(FileJobs, PackIsReadByTar) {
  const std::string deep = std::string(90, 'd') + "/" + std::string(90, 'e');
  EXPECT_EQ(
      agent_
          .run("mkdir -p t/" + deep + "; echo hi > t/" + deep + "/f; ln -s f t/link; chmod 640 t/" +
               deep + "/f; head -c 200000 /dev/zero > t/big; mkfifo t/pipe")
          .end.value,
      0U);
  const auto packed = agent_.job(job_for(JobKind::Pack, "t"));
  EXPECT_EQ(errno_of(packed), 0);
  write("t.tar", packed.output);
  EXPECT_EQ(to_text(agent_.run(
                "mkdir o && tar -xf t.tar -C o && rm t/pipe && diff --no-dereference -r t o && "
                "stat -c %a o/" +
                deep + "/f && readlink o/link")),
            "0 kept out=[640\nf\n] err=[]");
}

TEST_P(FileJobs, UnpackReadsWhatTarWrites) {
  const std::string deep = std::string(90, 'd') + "/" + std::string(90, 'e');
  EXPECT_EQ(agent_
                .run("mkdir -p t/" + deep + "; echo hi > t/" + deep +
                     "/f; ln -s f t/link; echo x > t/x; ln t/x t/hard; chmod 500 t/" +
                     std::string(90, 'd'))
                .end.value,
            0U);
  for (const char* format : {"gnu", "pax", "ustar"}) {
    EXPECT_EQ(
        to_text(agent_.run("rm -rf o; tar --format=" + std::string(format) + " -cf t.tar -C t .")),
        "0 kept out=[] err=[]");
    const auto result = agent_.job(job_for(JobKind::Unpack, "o", kParents), content("t.tar"));
    ASSERT_EQ(errno_of(result), 0) << format;
    EXPECT_EQ(
        to_text(agent_.run("diff --no-dereference -r t o && [ o/x -ef o/hard ] && stat -c %a o/d*; "
                           "chmod 700 o/d*")),
        "0 kept out=[500\n] err=[]")
        << format;
  }
}

TEST_P(FileJobs, HostileArchivesStayInside) {
  const auto member = [](TarMember::Kind kind, std::string path, std::string target) {
    return format_tar_member(TarMember{kind, std::move(path), std::move(target), 0644, 0, 0});
  };
  const std::string end(1024, '\0');
  write("victim", "safe");
  const auto unpack = [&](const std::string& archive) {
    return agent_.job(job_for(JobKind::Unpack, "o", kParents), archive);
  };
  using Kind = TarMember::Kind;
  EXPECT_TRUE(unpack(member(Kind::File, "../victim", "") + end).over.error);
  EXPECT_TRUE(unpack(member(Kind::File, agent_.path_of("victim"), "") + end).over.error);
  EXPECT_TRUE(
      unpack(member(Kind::Symlink, "out", "..") + member(Kind::File, "out/victim", "") + end)
          .over.error);
  EXPECT_TRUE(unpack(member(Kind::HardLink, "h", "../victim") + end).over.error);
  EXPECT_EQ(content("victim"), "safe");
  EXPECT_TRUE(unpack("no archive at all").over.error);
  EXPECT_TRUE(unpack("").over.error);
  EXPECT_TRUE(unpack(member(Kind::File, "cut", "")).over.error);
}

TEST_P(FileJobs, RequestsThatDoNotFitAreRefusedBeforeTheyAreSent) {
  EXPECT_TRUE(agent_.job(job_for(JobKind::Info, "")).over.error);
  EXPECT_TRUE(agent_.job(job_for(JobKind::Info, std::string("a\0b", 3))).over.error);
  EXPECT_TRUE(agent_.job(job_for(JobKind::Read, "x", kRecursive)).over.error);
  EXPECT_TRUE(agent_.job(job_for(JobKind::Info, std::string(5000, 'x'))).over.error);
}

TEST(FileJobsMore, CancelEndsAJobAndLeavesNoTemporaryFile) {
  TestAgent agent;
  auto pipe = open_pipe();
  ASSERT_TRUE(pipe);
  const auto id = agent.link().start_job(job_for(JobKind::Write, "f"), std::move(pipe->read));
  ASSERT_TRUE(id);
  ASSERT_TRUE(write_all(pipe->write, "beginning"));
  EXPECT_TRUE(agent.serve_until([&] { return agent.run("ls -A").output != ""; }));
  EXPECT_TRUE(agent.link().cancel_job(*id));
  EXPECT_TRUE(agent.serve_until([&] { return agent.link().under_way() == 0; }));
  EXPECT_EQ(agent.run("ls -A").output, "");
}

TEST(FileJobsMore, AReaderThatGoesAwayEndsTheJob) {
  TestAgent agent;
  EXPECT_EQ(agent.run("head -c 10000000 /dev/zero > big").end.value, 0U);
  auto pipe = open_pipe();
  ASSERT_TRUE(pipe);
  ASSERT_TRUE(agent.link().start_job(job_for(JobKind::Read, "big"), std::move(pipe->write)));
  pipe->read.reset();
  EXPECT_TRUE(agent.serve_until([&] { return agent.link().under_way() == 0; }));
}

// A thread inside swaps a directory for a link, over and over; every call ends, with data or errno.
TEST(FileJobsMore, SwappedDirectoriesNeverConfuseTheAgent) {
  TestAgent agent;
  EXPECT_EQ(agent.run("mkdir real other; echo 1 > real/f; echo 2 > other/f").end.value, 0U);
  StartRun swapper;
  swapper.mode = RunMode::Fresh;
  swapper.code =
      "while :; do mkdir d 2>/dev/null; echo x > d/f; rm -rf d; ln -s real d; rm -f d; "
      "ln -s /etc d; rm -f d; done 2>/dev/null";
  const Id id = agent.start(swapper);
  std::size_t fine = 0;
  for (int i = 0; i < 10'000; ++i) {
    const JobKind kinds[] = {JobKind::Info, JobKind::MakeDirectory, JobKind::Remove, JobKind::Move};
    StartJob job = job_for(kinds[i % 4], i % 8 < 4 ? "d/f" : "d");
    job.target = "moved";
    if (i % 100 == 0) job = job_for(JobKind::List, "d");
    if (i % 100 == 1) job = job_for(JobKind::Remove, "d", kRecursive);
    if (i % 100 == 2) job = job_for(JobKind::Read, "d/f");
    const auto result = agent.job(job);
    fine += result.over.error ? 0 : 1;
  }
  EXPECT_GT(fine, 0U);
  EXPECT_TRUE(agent.link().kill_run(id, std::chrono::milliseconds(100)));
  agent.finish(id);
  EXPECT_EQ(agent.run("cat other/f; echo fine").output, "2\nfine\n");
}

}  // namespace
}  // namespace glovebox::guest
