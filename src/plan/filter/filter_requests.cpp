#include "plan/filter/filter_requests.h"

#include <asm/termbits.h>

#include <linux/fs.h>
#include <linux/prctl.h>
#include <linux/random.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

// Newer than Debian's headers.
#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_GET_MDWE 66
#endif
#ifndef PR_GET_AUXV
#define PR_GET_AUXV 0x41555856
#endif
#ifndef PR_SME_SET_VL
#define PR_SME_SET_VL 63
#define PR_SME_GET_VL 64
#endif
#ifndef PR_GET_SHADOW_STACK_STATUS
#define PR_GET_SHADOW_STACK_STATUS 74
#endif

namespace glovebox::plan {
namespace {

constexpr std::uint64_t kAllowedIoctls[] = {
    // Terminals: their settings, size, session and job control; pseudo-terminals of the box's own.
    TCGETS,
    TCSETS,
    TCSETSW,
    TCSETSF,
    TCGETS2,
    TCSETS2,
    TCSETSW2,
    TCSETSF2,
    TCGETA,
    TCSETA,
    TCSETAW,
    TCSETAF,
    TCSBRK,
    TCSBRKP,
    TCXONC,
    TCFLSH,
    TIOCEXCL,
    TIOCNXCL,
    TIOCGEXCL,
    TIOCSCTTY,
    TIOCNOTTY,
    TIOCGPGRP,
    TIOCSPGRP,
    TIOCGSID,
    TIOCOUTQ,
    TIOCGWINSZ,
    TIOCSWINSZ,
    TIOCSBRK,
    TIOCCBRK,
    TIOCPKT,
    TIOCGPKT,
    TIOCGPTN,
    TIOCSPTLCK,
    TIOCGPTLCK,
    TIOCGPTPEER,
    TIOCGETD,
    TIOCSIG,
    // Any file: how much is there, and how it is waited for.
    FIONREAD,
    FIONBIO,
    FIOASYNC,
    FIOCLEX,
    FIONCLEX,
    FIOQSIZE,
    FIGETBSZ,
    // Copies that share their blocks, and what lsattr prints. Setting flags is left out: a program
    // that restores them goes on without.
    FICLONE,
    FICLONERANGE,
    FS_IOC_GETFLAGS,
    FS_IOC_GETVERSION,
    FS_IOC_FSGETXATTR,
    // Sockets: owners, marks and stamps, and devices of the network that a socket belongs to (the
    // box's own, or the host's when it was handed in). Java lists devices when it makes addresses.
    FIOSETOWN,
    FIOGETOWN,
    SIOCSPGRP,
    SIOCGPGRP,
    SIOCATMARK,
    SIOCGSTAMP_OLD,
    SIOCGSTAMPNS_OLD,
    SIOCGSTAMP_NEW,
    SIOCGSTAMPNS_NEW,
    SIOCOUTQNSD,
    SIOCGIFNAME,
    SIOCGIFCONF,
    SIOCGIFFLAGS,
    SIOCGIFADDR,
    SIOCGIFDSTADDR,
    SIOCGIFBRDADDR,
    SIOCGIFNETMASK,
    SIOCGIFMETRIC,
    SIOCGIFMTU,
    SIOCGIFHWADDR,
    SIOCGIFINDEX,
    SIOCGIFTXQLEN,
    SIOCGIFMAP,
    // How much entropy there is.
    RNDGETENTCNT,
};

// TIOCSTI and TIOCLINUX type into the terminal of the caller. TIOCCONS takes the
// console's output, and TIOCSETD loads line disciplines, which had many holes.
constexpr std::uint64_t kRefusedIoctls[] = {TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD};

constexpr std::uint64_t kAllowedPrctls[] = {
    // Names, of the thread and of its memory.
    PR_SET_NAME,
    PR_GET_NAME,
    PR_SET_VMA,
    // Ties between processes, and what becomes of them.
    PR_SET_PDEATHSIG,
    PR_GET_PDEATHSIG,
    PR_SET_CHILD_SUBREAPER,
    PR_GET_CHILD_SUBREAPER,
    PR_SET_DUMPABLE,
    PR_GET_DUMPABLE,
    PR_GET_TID_ADDRESS,
    PR_GET_AUXV,
    // Giving up what is not there. What would give something back the kernel refuses: the sets are
    // empty and the securebits locked.
    PR_SET_NO_NEW_PRIVS,
    PR_GET_NO_NEW_PRIVS,
    PR_SET_SECCOMP,
    PR_GET_SECCOMP,
    PR_CAPBSET_READ,
    PR_CAPBSET_DROP,
    PR_CAP_AMBIENT,
    PR_GET_SECUREBITS,
    PR_SET_SECUREBITS,
    PR_SET_KEEPCAPS,
    PR_GET_KEEPCAPS,
    PR_SET_MDWE,
    PR_GET_MDWE,
    // How the caller alone is run: timers, large pages, speculation.
    PR_SET_TIMERSLACK,
    PR_GET_TIMERSLACK,
    PR_GET_TIMING,
    PR_SET_THP_DISABLE,
    PR_GET_THP_DISABLE,
    PR_GET_SPECULATION_CTRL,
    PR_SET_SPECULATION_CTRL,
    PR_GET_TSC,
    PR_MCE_KILL_GET,
    PR_GET_SHADOW_STACK_STATUS,
    // Registers and pointers of arm64, which its C library sets at the start.
    PR_SVE_SET_VL,
    PR_SVE_GET_VL,
    PR_SME_SET_VL,
    PR_SME_GET_VL,
    PR_PAC_RESET_KEYS,
    PR_PAC_SET_ENABLED_KEYS,
    PR_PAC_GET_ENABLED_KEYS,
    PR_SET_TAGGED_ADDR_CTRL,
    PR_GET_TAGGED_ADDR_CTRL,
};

// One rewrites what /proc says of the process, one invites a tracer.
constexpr std::uint64_t kRefusedPrctls[] = {PR_SET_MM, PR_SET_PTRACER};

}  // namespace

std::span<const std::uint64_t> allowed_ioctls() { return kAllowedIoctls; }
std::span<const std::uint64_t> refused_ioctls() { return kRefusedIoctls; }
std::span<const std::uint64_t> allowed_prctls() { return kAllowedPrctls; }
std::span<const std::uint64_t> refused_prctls() { return kRefusedPrctls; }

}  // namespace glovebox::plan
