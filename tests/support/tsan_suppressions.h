#pragma once

/// To be included by one source of each test program that makes io_uring engines on several
/// threads. liburing maps and unmaps its rings by system calls of its own, which ThreadSanitizer
/// does not see: when a ring comes to lie where another thread's ring was before, it takes the two
/// for one.
#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_suppressions();   // NOLINT: the name is the sanitizer's
extern "C" const char* __tsan_default_suppressions() {  // NOLINT
  return "race:io_uring_\n";
}
#endif
