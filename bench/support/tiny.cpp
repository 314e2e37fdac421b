// Does nothing and ends: what is left when a program costs nothing.
extern "C" [[noreturn]] void _start() {
#if defined(__x86_64__)
  __asm__ volatile("mov $60, %eax\n\txor %edi, %edi\n\tsyscall");
#elif defined(__aarch64__)
  __asm__ volatile("mov x8, #93\n\tmov x0, #0\n\tsvc #0");
#endif
  __builtin_unreachable();
}
