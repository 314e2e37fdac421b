// libcrypto looks at the processor before main, which on a virtual machine costs each command tens
// of microseconds: every question traps. Most commands use no cryptography, so that first call does
// nothing; libcrypto asks again, in good time, when it is first used (OPENSSL_init_crypto). The
// linker puts this in the place of the function (--wrap in CMakeLists.txt).

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names
extern "C" void __real_OPENSSL_cpuid_setup();
extern "C" void __wrap_OPENSSL_cpuid_setup();

namespace {
bool is_first_call = true;
}  // namespace

void __wrap_OPENSSL_cpuid_setup() {
  if (!is_first_call) __real_OPENSSL_cpuid_setup();
  is_first_call = false;
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
