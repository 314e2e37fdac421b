// Landlock's rights by the ABI that has them, as numbers of the kernel's interface: Debian's
// headers know only the first ABI.
#pragma once

#include <cstdint>

namespace glovebox::plan::landlock {

inline constexpr std::uint64_t kExecute = 1U << 0;
inline constexpr std::uint64_t kWriteFile = 1U << 1;
inline constexpr std::uint64_t kReadFile = 1U << 2;
inline constexpr std::uint64_t kReadDir = 1U << 3;
inline constexpr std::uint64_t kRemoveDir = 1U << 4;
inline constexpr std::uint64_t kRemoveFile = 1U << 5;
inline constexpr std::uint64_t kMakeChar = 1U << 6;
inline constexpr std::uint64_t kMakeDir = 1U << 7;
inline constexpr std::uint64_t kMakeReg = 1U << 8;
inline constexpr std::uint64_t kMakeSock = 1U << 9;
inline constexpr std::uint64_t kMakeFifo = 1U << 10;
inline constexpr std::uint64_t kMakeBlock = 1U << 11;
inline constexpr std::uint64_t kMakeSym = 1U << 12;
inline constexpr std::uint64_t kRefer = 1U << 13;     // ABI 2
inline constexpr std::uint64_t kTruncate = 1U << 14;  // ABI 3
inline constexpr std::uint64_t kIoctlDev = 1U << 15;  // ABI 5

inline constexpr std::uint64_t kBindTcp = 1U << 0;     // ABI 4
inline constexpr std::uint64_t kConnectTcp = 1U << 1;  // ABI 4

inline constexpr std::uint64_t kScopeAbstractSockets = 1U << 0;  // ABI 6
inline constexpr std::uint64_t kScopeSignals = 1U << 1;          // ABI 6

// Every file right that a kernel of this ABI can refuse.
constexpr std::uint64_t file_rights(int abi) {
  std::uint64_t rights = (kRefer - 1);
  if (abi >= 2) rights |= kRefer;
  if (abi >= 3) rights |= kTruncate;
  if (abi >= 5) rights |= kIoctlDev;
  return abi >= 1 ? rights : 0;
}

inline constexpr std::uint64_t kReadTree = kExecute | kReadFile | kReadDir;
// Writing a tree: everything but device nodes. kIoctlDev is only given below /dev.
inline constexpr std::uint64_t kWriteTree = kReadTree | kWriteFile | kRemoveDir | kRemoveFile |
                                            kMakeDir | kMakeReg | kMakeSock | kMakeFifo | kMakeSym |
                                            kRefer | kTruncate;
inline constexpr std::uint64_t kWriteDevices =
    kReadFile | kReadDir | kWriteFile | kTruncate | kIoctlDev;
inline constexpr std::uint64_t kWriteProc = kReadFile | kReadDir | kWriteFile | kTruncate;
// The rights that exist for a single file.
inline constexpr std::uint64_t kFileOnly = kExecute | kWriteFile | kReadFile | kTruncate;

}  // namespace glovebox::plan::landlock
