#include "base/fork_guard.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace stoker {
namespace {

/// The exit status of `body`, run in a forked child; -1 if it did not exit.
template <typename Body>
int exit_status_in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());  // past gtest, which would report a second time
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ForkGuardTest, holds_in_the_process_that_made_it) {
  const ForkGuard guard;
  EXPECT_TRUE(guard.is_here());
  EXPECT_TRUE(guard.check("engine").ok());
}

TEST(ForkGuardTest, refuses_in_a_child_and_names_the_object) {
  const ForkGuard guard;
  EXPECT_EQ(exit_status_in_child([&] {
              if (guard.is_here()) return 1;
              const Status status = guard.check("engine");
              if (status.code() != Code::unsupported) return 2;
              return status.message().starts_with("engine was made before fork()") ? 0 : 3;
            }),
            0);
  EXPECT_TRUE(guard.is_here()) << "the parent must not notice";
}

TEST(ForkGuardTest, one_made_in_the_child_holds_there_and_not_in_the_grandchild) {
  EXPECT_EQ(exit_status_in_child([] {
              const ForkGuard guard;
              if (!guard.is_here()) return 1;
              return exit_status_in_child([&] { return guard.is_here() ? 2 : 0; });
            }),
            0);
}

TEST(ForkGuardTest, generation_counts_forks) {
  const std::uint64_t here = fork_generation();
  EXPECT_EQ(exit_status_in_child([&] { return fork_generation() == here + 1 ? 0 : 1; }), 0);
  EXPECT_EQ(fork_generation(), here);
}

}  // namespace
}  // namespace stoker
