#include "checkpoint/writer_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "checkpoint/names.h"
#include "support/in_child.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using std::chrono::seconds;

/// Time that passes only when somebody waits.
class FakeTime {
 public:
  LockOptions options(nanoseconds timeout) {
    LockOptions options;
    options.timeout = timeout;
    options.ttl = seconds(60);
    options.now = [this] { return now_; };
    options.pause = [this](nanoseconds time) {
      now_ += time;
      if (on_pause) on_pause();
    };
    return options;
  }
  Deadline now() const { return now_; }

  std::function<void()> on_pause;

 private:
  Deadline now_ = Clock::now();
};

void write_record(const std::string& directory, const LockRecord& record) {
  std::ofstream(directory + "/.lock") << format_lock_record(record);
}

double wall_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

TEST(WriterLockTest, one_writer_at_a_time_and_the_refusal_names_the_other) {
  const testing::TempDir dir;
  FakeTime time;
  auto first = WriterLock::acquire(posix_file_ops(), dir.path(), time.options(nanoseconds(0)));
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_TRUE(std::filesystem::is_directory((*first)->owner_directory()));
  const auto second = WriterLock::acquire(posix_file_ops(), dir.path(), time.options(seconds(5)));
  EXPECT_EQ(second.status().code(), Code::unavailable);
  EXPECT_NE(second.status().message().find("pid " + std::to_string(::getpid())),
            std::string_view::npos);
  const std::string owner = (*first)->owner_directory();
  first->reset();
  EXPECT_FALSE(std::filesystem::exists(owner));
  EXPECT_TRUE(WriterLock::acquire(posix_file_ops(), dir.path(), time.options(nanoseconds(0))).ok());
}

TEST(WriterLockTest, a_fifo_in_its_place_is_told_as_one_and_hangs_nobody) {
  const testing::TempDir dir;
  ASSERT_EQ(::mkfifo(dir.file(".lock").c_str(), 0600), 0);
  FakeTime time;
  const auto lock = WriterLock::acquire(posix_file_ops(), dir.path(), time.options(seconds(0)));
  EXPECT_EQ(lock.status().code(), Code::invalid_argument);
  EXPECT_NE(lock.status().message().find("/.lock: not a regular file"), std::string::npos);
}

TEST(WriterLockTest, waiting_ends_when_the_other_writer_does) {
  const testing::TempDir dir;
  FakeTime time;
  auto first = WriterLock::acquire(posix_file_ops(), dir.path(), time.options(nanoseconds(0)));
  ASSERT_TRUE(first.ok());
  time.on_pause = [&] { first->reset(); };
  EXPECT_TRUE(WriterLock::acquire(posix_file_ops(), dir.path(), time.options(seconds(5))).ok());
}

TEST(WriterLockTest, a_writer_that_was_killed_frees_it_at_once_and_is_swept) {
  const testing::TempDir dir;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    auto lock = WriterLock::acquire(posix_file_ops(), dir.path(), {});
    if (lock.ok()) {
      std::filesystem::create_directory((*lock)->owner_directory() + "/step-000000000001-1");
      std::ofstream((*lock)->owner_directory() + "/step-000000000001-1/rank") << "half";
    }
    const char done = lock.ok() ? 'y' : 'n';
    if (::write(ready[1], &done, 1) != 1) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  char done = 0;
  ASSERT_EQ(::read(ready[0], &done, 1), 1);
  EXPECT_EQ(done, 'y');
  EXPECT_EQ(WriterLock::acquire(posix_file_ops(), dir.path(), {}).status().code(),
            Code::unavailable);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  std::filesystem::create_directory(dir.file(".trash-old"));
  const auto lock = WriterLock::acquire(posix_file_ops(), dir.path(), {});
  ASSERT_TRUE(lock.ok()) << lock.status().message();
  EXPECT_EQ(dir.entry_count(), 2);  // .lock and our own staging
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(WriterLockTest, a_forked_child_does_not_keep_it) {
  const testing::TempDir dir;
  auto lock = WriterLock::acquire(posix_file_ops(), dir.path(), {});
  ASSERT_TRUE(lock.ok());
  int hold[2];
  ASSERT_EQ(::pipe(hold), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::close(hold[1]);
    lock->reset();  // must neither hang nor remove anything
    char nothing = 0;
    ::_exit(::read(hold[0], &nothing, 1) == 0 ? 0 : 1);  // lives until the parent lets it go
  }
  EXPECT_TRUE(std::filesystem::is_directory((*lock)->owner_directory()));
  lock->reset();
  EXPECT_TRUE(WriterLock::acquire(posix_file_ops(), dir.path(), {}).ok());
  ::close(hold[1]);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ::close(hold[0]);
}

TEST(WriterLockTest, a_record_of_this_host_says_nothing_once_the_flock_is_ours) {
  const testing::TempDir dir;
  write_record(dir.path(), {.token = "t", .host = host_name(), .pid = 1, .time_s = wall_s()});
  EXPECT_TRUE(WriterLock::acquire(posix_file_ops(), dir.path(), {}).ok());
}

TEST(WriterLockTest, another_host_is_taken_for_dead_after_its_silence_and_fenced) {
  const testing::TempDir dir;
  LockRecord other{.token = "far", .host = "elsewhere", .pid = 7, .time_s = wall_s()};
  write_record(dir.path(), other);
  const std::string staging = dir.file("owner-far/step-000000000001-1");
  std::filesystem::create_directories(staging);
  FakeTime time;
  const auto refused = WriterLock::acquire(posix_file_ops(), dir.path(), time.options(seconds(59)));
  EXPECT_EQ(refused.status().code(), Code::unavailable);
  EXPECT_NE(refused.status().message().find("pid 7 on elsewhere"), std::string_view::npos);
  const Deadline began = time.now();
  const auto taken = WriterLock::acquire(posix_file_ops(), dir.path(), time.options(seconds(300)));
  ASSERT_TRUE(taken.ok()) << taken.status().message();
  EXPECT_GE(time.now() - began, seconds(60));
  // The late writer wakes up, and its rename has no source.
  EXPECT_EQ(posix_file_ops().rename(staging, dir.file("step-000000000001")).code(),
            Code::not_found);
}

TEST(WriterLockTest, another_host_that_gives_signs_of_life_is_left_alone) {
  const testing::TempDir dir;
  LockRecord other{.token = "far", .host = "elsewhere", .pid = 7, .time_s = wall_s()};
  write_record(dir.path(), other);
  FakeTime time;
  time.on_pause = [&] {
    ++other.beat;
    write_record(dir.path(), other);
  };
  EXPECT_EQ(
      WriterLock::acquire(posix_file_ops(), dir.path(), time.options(seconds(600))).status().code(),
      Code::unavailable);
}

TEST(WriterLockTest, a_record_from_long_ago_is_not_waited_for) {
  const testing::TempDir dir;
  write_record(dir.path(),
               {.token = "far", .host = "elsewhere", .pid = 7, .time_s = wall_s() - 3600});
  FakeTime time;
  EXPECT_TRUE(WriterLock::acquire(posix_file_ops(), dir.path(), time.options(nanoseconds(0))).ok());
}

TEST(WriterLockTest, garbage_in_the_record_is_nobodys) {
  const testing::TempDir dir;
  for (const std::string text : {"", "{", "[1]", "{\"token\":1}", "null"}) {
    std::ofstream(dir.file(".lock")) << text;
    EXPECT_TRUE(WriterLock::acquire(posix_file_ops(), dir.path(), {}).ok()) << text;
  }
  const LockRecord record{.token = "t", .host = "h\"\\", .pid = -3, .time_s = 1.5, .beat = 9};
  EXPECT_EQ(parse_lock_record(format_lock_record(record)), record);
}

TEST(WriterLockTest, the_heart_beats_and_notices_when_another_has_taken_over) {
  const testing::TempDir dir;
  LockOptions options;
  options.ttl = std::chrono::milliseconds(4);
  const auto lock = WriterLock::acquire(posix_file_ops(), dir.path(), options);
  ASSERT_TRUE(lock.ok());
  const auto beat = [&] {
    const auto record = parse_lock_record(testing::contents_of(dir.file(".lock")));
    return record ? record->beat : 0;
  };
  while (beat() < 2) std::this_thread::yield();
  while (!(*lock)->is_lost()) {
    write_record(dir.path(), {.token = "far", .host = "elsewhere", .pid = 7, .time_s = wall_s()});
    std::this_thread::yield();
  }
}

}  // namespace
}  // namespace stoker
