#include "doctor/probe.h"

#include "base/file.h"
#include "doctor/probe_child.h"
#include "doctor/probe_remedy.h"
#include "doctor/probe_trials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <initializer_list>
#include <set>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::host {
namespace {

using probe::Container;
using probe::Hints;
using probe::Lack;
using probe::remedy;
using probe::Reply;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ProbeOptions options() {
  ProbeOptions options;
  options.current_directory = "/tmp";
  return options;
}

bool is_root() { return ::geteuid() == 0; }

// From here on this process gets `os_errno` from the system calls named: they are hidden.
void hide(std::initializer_list<long> calls, int os_errno) {
  std::vector<sock_filter> filter{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const long call : calls) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1));
    filter.push_back(
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(os_errno)));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
    ::_exit(1);
  }
}

// Tries a feature in a child that does `first` before, and brings the verdict back.
Feature probe_after(const std::function<void()>& first, std::string_view id) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const pid_t pid = ::fork();
  if (pid == 0) {
    first();
    const auto feature = probe_feature(id, options());
    if (!feature) ::_exit(1);
    const std::string text =
        fmt::format("{}\n{}\n{}", static_cast<int>(feature->state), feature->detail, feature->fix);
    ::_exit(write_all(BorrowedFd(ends[1]), text) ? 0 : 1);
  }
  ::close(ends[1]);
  const UniqueFd read_end(ends[0]);
  const auto text = read_fd(read_end, 1U << 16U);
  ::waitpid(pid, nullptr, 0);
  Feature feature;
  feature.state = FeatureState::Ok;  // what the tests below do not expect
  if (!text || text->size() < 2) return feature;
  const std::size_t detail_end = text->find('\n', 2);
  feature.state = static_cast<FeatureState>(text->front() - '0');
  feature.detail = text->substr(2, detail_end - 2);
  feature.fix = text->substr(detail_end + 1);
  return feature;
}

Feature probe_hidden(std::string_view id, std::initializer_list<long> calls, int os_errno) {
  return probe_after([&] { hide(calls, os_errno); }, id);
}

TEST(Probe, WhatEveryBoxNeedsIsHereForRoot) {
  if (!is_root()) GTEST_SKIP() << "what an ordinary user may do is up to the host";
  const HostReport report = probe_host(options());
  for (const Feature& feature : report.features) {
    if (feature.requirement != Requirement::EveryBox) continue;
    EXPECT_NE(feature.state, FeatureState::Missing) << feature.id << ": " << feature.detail;
  }
  EXPECT_TRUE(can_run_boxes(report));
  EXPECT_EQ(report.tier, Tier::Root);
}

TEST(Probe, MissingFeaturesComeWithAFixAndOthersWithout) {
  std::set<std::string> ids;
  for (const Feature& feature : probe_host(options()).features) {
    EXPECT_TRUE(ids.insert(feature.id).second) << feature.id << " is there twice";
    EXPECT_EQ(feature.fix.empty(), feature.state != FeatureState::Missing) << feature.id;
    EXPECT_FALSE(feature.detail.empty()) << feature.id;
    EXPECT_FALSE(feature.needed_for.empty()) << feature.id;
  }
}

TEST(Probe, OneMissingNeedOfEveryBoxIsEnoughToSayNo) {
  Feature feature;
  feature.requirement = Requirement::EveryBox;
  feature.state = FeatureState::Ok;
  HostReport report{Tier::User, {feature, feature}};
  EXPECT_TRUE(can_run_boxes(report));
  report.features[1].requirement = Requirement::Optional;
  report.features[1].state = FeatureState::Missing;
  EXPECT_TRUE(can_run_boxes(report));
  report.features[1].requirement = Requirement::EveryBox;
  EXPECT_FALSE(can_run_boxes(report));
}

TEST(Probe, UnknownFeatureIsNotFound) {
  const auto feature = probe_feature("namespace.dream", options());
  ASSERT_FALSE(feature);
  EXPECT_EQ(feature.error().code, Code::NotFound);
}

struct Hidden {
  const char* id;
  std::initializer_list<long> calls;
  int os_errno;
};

// Each of these works on the machine that runs the tests, or the test says nothing: so it is tried
// once without hiding too.
TEST(Probe, HiddenFeaturesAreMissing) {
  const std::initializer_list<long> kUserCalls{SYS_clone3, SYS_unshare};
  const std::array cases{Hidden{"process.clone3", {SYS_clone3}, ENOSYS},
                         Hidden{"process.clone3", {SYS_clone3}, EPERM},
                         Hidden{"namespace.user", kUserCalls, EPERM},
                         Hidden{"namespace.pid", {SYS_clone3}, EPERM},
                         Hidden{"namespace.net", {SYS_unshare}, EPERM},
                         Hidden{"namespace.uts", {SYS_sethostname}, EPERM},
                         Hidden{"mount.tmpfs", {SYS_fsopen}, ENOSYS},
                         Hidden{"mount.tmpfs", {SYS_fsconfig}, EPERM},
                         Hidden{"mount.open-tree", {SYS_open_tree}, ENOSYS},
                         Hidden{"mount.setattr", {SYS_mount_setattr}, ENOSYS},
                         Hidden{"mount.move", {SYS_move_mount}, EPERM},
                         Hidden{"mount.pivot-root", {SYS_pivot_root}, EPERM},
                         Hidden{"mount.proc", {SYS_fsmount}, EPERM},
                         Hidden{"mount.devpts", {SYS_ioctl}, ENOTTY},
                         Hidden{"mount.overlay", {SYS_fsopen}, ENODEV},
                         Hidden{"wall.capabilities", {SYS_capset}, EPERM},
                         Hidden{"wall.landlock", {SYS_landlock_create_ruleset}, EOPNOTSUPP},
                         Hidden{"wall.landlock", {SYS_landlock_restrict_self}, EPERM},
                         Hidden{"wall.seccomp", {SYS_seccomp}, EINVAL},
                         Hidden{"seccomp.notify", {SYS_seccomp}, EINVAL},
                         Hidden{"seccomp.notify", {SYS_ioctl}, EINVAL},
                         Hidden{"seccomp.addfd", {SYS_ioctl}, EINVAL},
                         Hidden{"process.pidfd-getfd", {SYS_pidfd_getfd}, ENOSYS},
                         Hidden{"files.close-range", {SYS_close_range}, ENOSYS},
                         Hidden{"files.openat2", {SYS_openat2}, ENOSYS},
                         Hidden{"keyring.session", {SYS_keyctl}, EPERM},
                         Hidden{"process.clone3", {SYS_pidfd_open}, ENOSYS}};
  for (const Hidden& hidden : cases) {
    const auto open = probe_feature(hidden.id, options());
    ASSERT_TRUE(open) << hidden.id;
    if (open->state != FeatureState::Ok) continue;
    const Feature feature = probe_hidden(hidden.id, hidden.calls, hidden.os_errno);
    EXPECT_EQ(feature.state, FeatureState::Missing) << hidden.id << ": " << feature.detail;
    EXPECT_THAT(feature.detail, HasSubstr(strerrorname_np(hidden.os_errno))) << hidden.id;
    EXPECT_FALSE(feature.fix.empty()) << hidden.id;
  }
}

TEST(Probe, CallsThatReportSuccessAndDoNothingAreMissing) {
  const std::array cases{Hidden{"namespace.net", {SYS_unshare}, 0},
                         Hidden{"mount.setattr", {SYS_mount_setattr}, 0},
                         Hidden{"wall.capabilities", {SYS_capset}, 0},
                         Hidden{"wall.landlock", {SYS_landlock_restrict_self}, 0},
                         Hidden{"files.close-range", {SYS_close_range}, 0}};
  for (const Hidden& hidden : cases) {
    const Feature feature = probe_hidden(hidden.id, hidden.calls, 0);
    EXPECT_EQ(feature.state, FeatureState::Missing) << hidden.id << ": " << feature.detail;
  }
}

TEST(Probe, HiddenIdmappedMountsAndBoxUidsAreMissing) {
  if (!is_root()) GTEST_SKIP() << "this is about what root can do";
  EXPECT_EQ(probe_hidden("mount.idmap.tmp", {SYS_mount_setattr}, EINVAL).state,
            FeatureState::Missing);
  EXPECT_EQ(probe_hidden("identity.box-uid", {SYS_setresuid}, EINVAL).state, FeatureState::Missing);
}

// A kernel without keyrings has none to hide from a box: the launcher goes on, so do we.
TEST(Probe, KernelWithoutKeyringsIsFine) {
  EXPECT_EQ(probe_hidden("keyring.session", {SYS_keyctl}, ENOSYS).state, FeatureState::Ok);
}

TEST(Probe, MaskedProcIsMissingAndTheFixNamesIt) {
  if (!is_root()) GTEST_SKIP() << "only root can mask a file of /proc";
  const Feature feature = probe_after(
      [] {
        if (::unshare(CLONE_NEWNS) != 0 ||
            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("/dev/null", "/proc/uptime", nullptr, MS_BIND, nullptr) != 0) {
          ::_exit(1);
        }
      },
      "mount.proc");
  EXPECT_EQ(feature.state, FeatureState::Missing) << feature.detail;
  EXPECT_THAT(feature.fix, HasSubstr("systempaths=unconfined"));
}

std::string mount_table() { return read_file("/proc/self/mountinfo", 4U << 20U).value_or(""); }

std::set<std::string> cgroups_of_doctor(const CgroupFacts& facts) {
  std::set<std::string> found;
  for (const auto& [controller, parent] : facts.parents) {
    const std::string path = fmt::format("{}/glovebox-{}-doctor", parent, ::getpid());
    if (::access(path.c_str(), F_OK) == 0) found.insert(path);
  }
  return found;
}

TEST(Probe, LeavesNothingBehind) {
  const std::string mounts = mount_table();
  (void)probe_host(options());
  EXPECT_EQ(mount_table(), mounts);
  const auto facts = read_cgroup_facts();
  ASSERT_TRUE(facts);
  EXPECT_TRUE(cgroups_of_doctor(*facts).empty());
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

// The v2 way of joining, on a hierarchy of that version that this machine may have without
// controllers: enough for the clone.
TEST(Probe, CloneIntoCgroupIsTried) {
  if (!is_root()) GTEST_SKIP() << "only root can mount a cgroup hierarchy";
  std::array<char, 32> directory{"/tmp/glovebox-probe-XXXXXX"};
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  probe::Stage stage;
  stage.facts.cgroups.version = CgroupVersion::V2;
  stage.facts.cgroups.parents["pids"] = directory.data();
  stage.cgroup_name = fmt::format("glovebox-{}-doctor", ::getpid());
  const Reply reply = probe::run_trial(
      [&] {
        if (::unshare(CLONE_NEWNS) != 0 ||
            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("cgroup2", directory.data(), "cgroup2", 0, nullptr) != 0) {
          return probe::failed("mount cgroup2");
        }
        return probe::try_clone_into_cgroup(stage);
      },
      milliseconds(5000));
  ::rmdir(directory.data());
  EXPECT_EQ(reply.outcome, probe::Outcome::Ok) << reply.view() << " " << errno_text(reply.os_errno);
}

TEST(Trial, HangingChildIsEndedWithAllThatItStarted) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const Reply reply = probe::run_trial(
      [] {
        (void)::fork();
        while (true) ::pause();
        return Reply();
      },
      milliseconds(100));
  EXPECT_EQ(reply.outcome, probe::Outcome::Failed);
  EXPECT_EQ(reply.view(), "no answer within 100 ms");
  ::close(ends[1]);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0);  // no process holds the other end any more
  ::close(ends[0]);
}

TEST(Trial, KilledChildIsAFailure) {
  const Reply reply = probe::run_trial(
      [] {
        ::kill(::getpid(), SIGSYS);
        return probe::seen("survived");
      },
      milliseconds(5000));
  EXPECT_EQ(reply.outcome, probe::Outcome::Failed);
  EXPECT_EQ(reply.view(), fmt::format("the trial was killed by signal {}", SIGSYS));
}

TEST(Trial, NonsenseFromTheChildIsNoAnswer) {
  const UniqueFd floor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Reply reply = probe::run_trial(
      [&] {
        for (int fd = floor.get() + 1; fd < floor.get() + 8; ++fd) {
          (void)!::write(fd, "nonsense", 8);
        }
        return probe::seen("fine");
      },
      milliseconds(5000));
  EXPECT_EQ(reply.outcome, probe::Outcome::Failed);
  EXPECT_EQ(reply.view(), "the trial ended without an answer");
}

TEST(Trial, LongWordsAreCut) {
  const Reply reply =
      probe::run_trial([] { return probe::seen(std::string(4000, 'x')); }, milliseconds(5000));
  EXPECT_EQ(reply.outcome, probe::Outcome::Ok);
  EXPECT_EQ(reply.view(), std::string(reply.text.size() - 1, 'x'));
}

Hints user_hints() {
  Hints hints;
  hints.mounted = CgroupVersion::V2;
  return hints;
}

TEST(Remedy, UbuntuGetsTheSysctlAndTheProfile) {
  Hints hints = user_hints();
  hints.apparmor_restrict = 1;
  hints.program = "/opt/glovebox";
  const std::string fix = remedy(Lack::UserNamespace, EACCES, "5.5", hints);
  EXPECT_THAT(fix, HasSubstr("sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"));
  EXPECT_THAT(fix, HasSubstr("profile glovebox /opt/glovebox flags=(unconfined)"));
  EXPECT_THAT(fix, HasSubstr("apparmor_parser -r"));
  // The namespace is made there, but has no power: it is the mounts that fail.
  EXPECT_EQ(remedy(Lack::Mounts, EPERM, "5.12", hints), fix);
}

TEST(Remedy, AppArmorIsNoCauseForRoot) {
  Hints hints = user_hints();
  hints.tier = Tier::Root;
  hints.apparmor_restrict = 1;
  EXPECT_THAT(remedy(Lack::UserNamespace, EPERM, "5.5", hints), Not(HasSubstr("apparmor")));
}

TEST(Remedy, SwitchedOffUserNamespacesAreSwitchedOn) {
  Hints hints = user_hints();
  hints.userns_clone = 0;
  EXPECT_THAT(remedy(Lack::UserNamespace, EPERM, "5.5", hints),
              HasSubstr("kernel.unprivileged_userns_clone=1"));
  hints.userns_clone = 1;
  hints.max_user_namespaces = 0;
  EXPECT_THAT(remedy(Lack::UserNamespace, ENOSPC, "5.5", hints),
              AllOf(HasSubstr("user.max_user_namespaces=15000"), Not(HasSubstr("userns_clone"))));
}

TEST(Remedy, ContainersAreStartedAnotherWay) {
  Hints hints = user_hints();
  hints.container = Container::Docker;
  EXPECT_THAT(remedy(Lack::UserNamespace, EPERM, "5.5", hints),
              AllOf(HasSubstr("seccomp=unconfined"), HasSubstr("systempaths=unconfined")));
  EXPECT_THAT(remedy(Lack::SystemCall, ENOSYS, "5.5", hints), HasSubstr("seccomp=unconfined"));
  hints.container = Container::Podman;
  EXPECT_THAT(remedy(Lack::Proc, EPERM, "5.12", hints), HasSubstr("unmask=ALL"));
}

TEST(Remedy, CgroupsAreDelegated) {
  Hints hints = user_hints();
  hints.has_systemd = true;
  EXPECT_THAT(remedy(Lack::Cgroup, 0, "5.7", hints),
              HasSubstr("systemd-run --user --scope -p Delegate=yes"));
  EXPECT_THAT(remedy(Lack::CgroupCpu, 0, "5.7", hints),
              HasSubstr("/etc/systemd/system/user@.service.d/delegate.conf"));
  hints.tier = Tier::Root;
  EXPECT_THAT(remedy(Lack::Cgroup, 0, "5.7", hints), HasSubstr("cgroup.subtree_control"));
  hints.tier = Tier::User;
  hints.mounted = CgroupVersion::V1;
  EXPECT_THAT(remedy(Lack::Cgroup, 0, "5.7", hints), HasSubstr("/sys/fs/cgroup/$c/$USER/tasks"));
}

TEST(Remedy, LandlockIsAddedToTheModulesThatAreThere) {
  Hints hints = user_hints();
  hints.security_modules = "lockdown,capability,selinux";
  EXPECT_THAT(
      remedy(Lack::Landlock, EOPNOTSUPP, "5.13", hints),
      AllOf(HasSubstr("lsm=landlock,lockdown,capability,selinux"), HasSubstr("--waive landlock")));
  EXPECT_THAT(remedy(Lack::Landlock, ENOSYS, "5.13", hints), HasSubstr("Linux 5.13"));
}

TEST(Remedy, SelinuxAndFiltersAreNamed) {
  Hints hints = user_hints();
  hints.selinux_enforces = true;
  EXPECT_THAT(remedy(Lack::UserNamespace, EACCES, "5.5", hints), HasSubstr("audit2allow"));
  hints.is_filtered = true;
  EXPECT_THAT(remedy(Lack::UserNamespace, EPERM, "5.5", hints), HasSubstr("seccomp filter"));
}

TEST(Remedy, RootOfAUserNamespaceIsToldSo) {
  Hints hints;
  hints.tier = Tier::Root;
  EXPECT_THAT(remedy(Lack::UserNamespace, EPERM, "5.5", hints), HasSubstr("--privileged"));
  hints.in_user_namespace = true;
  EXPECT_THAT(remedy(Lack::UserNamespace, EPERM, "5.5", hints), HasSubstr("ordinary user"));
  EXPECT_THAT(remedy(Lack::BoxUid, EINVAL, "5.12", hints), HasSubstr("GLOVEBOX_UID_RANGE"));
}

TEST(Remedy, EveryLackHasOneOnEveryHost) {
  for (const Tier tier : {Tier::Root, Tier::User}) {
    for (const CgroupVersion version :
         {CgroupVersion::None, CgroupVersion::V1, CgroupVersion::V2}) {
      for (const int os_errno : {0, EPERM, ENOSYS, EINVAL, ENODEV, EROFS, EOPNOTSUPP}) {
        Hints hints;
        hints.tier = tier;
        hints.mounted = version;
        for (int lack = 0; lack <= static_cast<int>(Lack::Kvm); ++lack) {
          EXPECT_FALSE(remedy(static_cast<Lack>(lack), os_errno, "5.5", hints).empty());
        }
      }
    }
  }
}

}  // namespace
}  // namespace glovebox::host
