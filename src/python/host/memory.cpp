// An allocator hook. The worker runs with the C library's malloc as Python's own (PYTHONMALLOC), so
// that the size of every block can be asked for, whichever code allocated it and when.
#include "python/host/cells.h"

#include <malloc.h>

extern "C" {
// As cpython/pymem.h declares them; they are not part of the limited API.
struct GloveboxAllocator {
  void* context;
  void* (*malloc)(void* context, size_t size);
  void* (*calloc)(void* context, size_t count, size_t size);
  void* (*realloc)(void* context, void* block, size_t size);
  void (*free)(void* context, void* block);
};
void PyMem_GetAllocator(int domain, GloveboxAllocator* allocator);
void PyMem_SetAllocator(int domain, GloveboxAllocator* allocator);
}

namespace glovebox::pyhost {
namespace {

constexpr int kDomains = 3;  // raw, mem, object

GloveboxAllocator below[kDomains];
thread_local MemoryAccount* account = nullptr;

bool has_room(std::size_t size) {
  return account == nullptr || account->used + size <= account->most;
}

void add(void* block) {
  if (account != nullptr && block != nullptr) account->used += ::malloc_usable_size(block);
}

void take_off(void* block) {
  if (account == nullptr || block == nullptr) return;
  const std::uint64_t size = ::malloc_usable_size(block);
  // Blocks from before the cell began are not its own.
  account->used -= std::min<std::uint64_t>(size, account->used);
}

void* allocate(void* context, size_t size) {
  auto* next = static_cast<GloveboxAllocator*>(context);
  if (!has_room(size)) return nullptr;
  void* block = next->malloc(next->context, size);
  add(block);
  return block;
}

void* allocate_zeros(void* context, size_t count, size_t size) {
  auto* next = static_cast<GloveboxAllocator*>(context);
  if (size != 0 && count > SIZE_MAX / size) return nullptr;
  if (!has_room(count * size)) return nullptr;
  void* block = next->calloc(next->context, count, size);
  add(block);
  return block;
}

void* reallocate(void* context, void* block, size_t size) {
  auto* next = static_cast<GloveboxAllocator*>(context);
  const std::size_t before = block == nullptr ? 0 : ::malloc_usable_size(block);
  if (size > before && !has_room(size - before)) return nullptr;
  take_off(block);
  void* moved = next->realloc(next->context, block, size);
  add(moved != nullptr ? moved : block);
  return moved;
}

void release(void* context, void* block) {
  auto* next = static_cast<GloveboxAllocator*>(context);
  take_off(block);
  next->free(next->context, block);
}

}  // namespace

void count_memory() {
  for (int domain = 0; domain < kDomains; ++domain) {
    PyMem_GetAllocator(domain, &below[domain]);
    GloveboxAllocator own{&below[domain], allocate, allocate_zeros, reallocate, release};
    PyMem_SetAllocator(domain, &own);
  }
}

void use_account(MemoryAccount* whose) { account = whose; }

}  // namespace glovebox::pyhost
