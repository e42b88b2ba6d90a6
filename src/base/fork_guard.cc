#include "base/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace stoker {
namespace {

// relaxed: written only in a child that has a single thread, before it runs anything else.
std::atomic<std::uint64_t> generation{0};

// Registered at load time: registration on first use would make every call test a guard variable,
// and a fork() during it would leave the child waiting for a thread that does not exist there.
[[maybe_unused]] const int registered =
    ::pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

std::uint64_t fork_generation() noexcept {
  return generation.load(std::memory_order_relaxed);
}

Status ForkGuard::check(std::string_view what) const {
  if (is_here()) return {};
  return Status(Code::unsupported,
                std::string(what).append(" was made before fork(); make a new one in the child"));
}

}  // namespace stoker
