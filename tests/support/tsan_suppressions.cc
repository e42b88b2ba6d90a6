/// \file
/// Linked into every test program under ThreadSanitizer. liburing maps and unmaps its rings by
/// system calls of its own, which the sanitizer does not see: when a ring comes to lie where
/// another thread's ring was before, it takes the two for one.
extern "C" const char* __tsan_default_suppressions();   // NOLINT: the name is the sanitizer's
extern "C" const char* __tsan_default_suppressions() {  // NOLINT
  return "race:io_uring_\n";
}
