#pragma once

#include <cstddef>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace stoker {

/// Runs `work` on `thread_count` threads, including the caller's, and returns when all have ended.
/// Uses fewer threads if the system refuses to start more, so `work` must take its share from a
/// common queue or counter.
template <typename Work>
void work_together(std::size_t thread_count, const Work& work) {
  std::vector<std::jthread> others;
  try {
    for (std::size_t i = 1; i < thread_count; ++i) others.emplace_back([&work] { work(); });
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): fewer threads do
  } catch (const std::bad_alloc&) {     // NOLINT(bugprone-empty-catch): the same
  }
  work();
}

}  // namespace stoker
