#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace stoker {

/// Runs `work` on `thread_count` threads, including the caller's, and returns when all have ended.
/// Uses fewer threads if the system refuses to start more, so `work` must take its share from a
/// common queue or counter. What `work` throws on any of them is thrown here, when all have ended.
template <typename Work>
void work_together(std::size_t thread_count, const Work& work) {
  std::vector<std::exception_ptr> thrown(std::max<std::size_t>(thread_count, 1));
  std::vector<std::jthread> others;
  try {
    for (std::size_t i = 1; i < thread_count; ++i)
      others.emplace_back([&work, &mine = thrown[i]] {
        try {
          work();
        } catch (...) {
          mine = std::current_exception();
        }
      });
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): fewer threads do
  } catch (const std::bad_alloc&) {     // NOLINT(bugprone-empty-catch): the same
  }
  work();
  others.clear();  // joins
  for (const std::exception_ptr& one : thrown)
    if (one) std::rethrow_exception(one);
}

}  // namespace stoker
