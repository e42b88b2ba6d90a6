#pragma once

#include <cstddef>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace stoker {

/// Runs `work` on `thread_count` threads, the caller's among them, and returns when all have ended.
/// Fewer where the system has no more to give: `work` takes what there is to do piece by piece.
template <typename Work>
void work_together(std::size_t thread_count, const Work& work) {
  std::vector<std::jthread> others;
  try {
    for (std::size_t i = 1; i < thread_count; ++i) others.emplace_back([&work] { work(); });
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): those there are do it
  } catch (const std::bad_alloc&) {     // NOLINT(bugprone-empty-catch): the same
  }
  work();
}

}  // namespace stoker
