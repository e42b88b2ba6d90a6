#include "base/fork_closed_fd.h"

#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <utility>

namespace stoker {
namespace {

// Each slot contains a descriptor plus one; zero means free. A fixed table, because the handler
// runs in a child of a process with threads, where it must not lock or allocate.
std::array<std::atomic<int>, 1024> slots{};

void close_all() {
  for (std::atomic<int>& slot : slots) {
    // relaxed: the child has a single thread.
    const int value = slot.exchange(0, std::memory_order_relaxed);
    if (value > 0) ::close(value - 1);
  }
}

[[maybe_unused]] const int registered = ::pthread_atfork(nullptr, nullptr, close_all);

int enter(int fd) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    int free = 0;
    // relaxed: fork() orders what a child sees; threads compete for the slot only.
    if (slots[i].compare_exchange_strong(free, fd + 1, std::memory_order_relaxed))
      return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

ClosedInChildren::ClosedInChildren(int fd) : slot_(fd >= 0 ? enter(fd) : -1) {}

ClosedInChildren::~ClosedInChildren() {
  if (slot_ >= 0) slots[static_cast<std::size_t>(slot_)].store(0, std::memory_order_relaxed);
}

ForkClosedFd::ForkClosedFd(UniqueFd fd)
    : fd_(std::make_unique<UniqueFd>(std::move(fd))), slot_(fd_->get()) {}

ForkClosedFd::~ForkClosedFd() {
  if (!guard_.is_here()) {
    static_cast<void>(fd_.release());
    return;
  }
  // A child that is forked between clearing the slot and closing the descriptor keeps the
  // descriptor, but not the lock.
  if (*fd_) ::flock(fd_->get(), LOCK_UN);
  slot_ = ClosedInChildren();
}

}  // namespace stoker
