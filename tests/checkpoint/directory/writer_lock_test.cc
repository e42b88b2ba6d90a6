#include "checkpoint/directory/writer_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "checkpoint/lock_support.h"
#include "support/in_child.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::epoch_in;
using testing::FakeTime;
using testing::opened;
using testing::write_epoch;

class WriterLockTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<WriterLock>> acquire(const LockOptions& options = {}) const {
    return WriterLock::acquire(run_, options);
  }
  std::string owner_of(const WriterLock& lock) const { return lock.owner().self().text(); }

  const testing::TempDir dir_;
  const CheckpointDirectory run_ = opened(dir_.path());
  FakeTime time_;
};

TEST_F(WriterLockTest, one_writer_at_a_time_and_the_refusal_names_the_other) {
  LockOptions options = time_.options(nanoseconds(0));
  options.job = "42";
  auto first = acquire(options);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_TRUE(fs::is_directory(owner_of(**first)));
  const auto second = acquire(time_.options(seconds(5)));
  EXPECT_EQ(second.status().code(), Code::unavailable);
  EXPECT_NE(second.status().message().find("this process, pid " + std::to_string(::getpid()) +
                                           " on " + this_machine().host + " (job 42)"),
            std::string_view::npos)
      << second.status().message();
  const std::string owner = owner_of(**first);
  first->reset();
  EXPECT_FALSE(fs::exists(owner));
  EXPECT_TRUE(acquire(time_.options(nanoseconds(0))).ok());
}

TEST_F(WriterLockTest, the_file_that_is_locked_is_never_written) {
  {
    ASSERT_TRUE(acquire().ok());
  }
  EXPECT_EQ(testing::contents_of(dir_.file(".lock")), "");
  std::ofstream(dir_.file(".lock")) << "somebody's";
  {
    ASSERT_TRUE(acquire().ok());
  }
  EXPECT_EQ(testing::contents_of(dir_.file(".lock")), "somebody's");
}

TEST_F(WriterLockTest, a_fifo_or_a_link_in_its_place_is_told_as_one_and_hangs_nobody) {
  ASSERT_EQ(::mkfifo(dir_.file(".lock").c_str(), 0600), 0);
  const auto fifo = acquire(time_.options(seconds(0)));
  EXPECT_EQ(fifo.status().code(), Code::invalid_argument);
  EXPECT_NE(fifo.status().message().find("/.lock: not a regular file"), std::string::npos);
  fs::remove(dir_.file(".lock"));
  std::ofstream(dir_.file("elsewhere")) << "precious";
  fs::create_symlink(dir_.file("elsewhere"), dir_.file(".lock"));
  const auto link = acquire(time_.options(seconds(0)));
  EXPECT_FALSE(link.ok());
  EXPECT_NE(link.status().message().find("/.lock"), std::string::npos) << link.status().message();
  EXPECT_EQ(testing::contents_of(dir_.file("elsewhere")), "precious");
}

TEST_F(WriterLockTest, waiting_ends_when_the_other_writer_does) {
  auto first = acquire(time_.options(nanoseconds(0)));
  ASSERT_TRUE(first.ok());
  time_.on_pause = [&] { first->reset(); };
  const auto second = acquire(time_.options(seconds(5)));
  EXPECT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(time_.pause_count, 1) << "its record says that it has ended: nobody is waited for";
}

TEST_F(WriterLockTest, a_writer_that_was_killed_frees_it_at_once_and_is_swept) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    auto lock = acquire();
    if (lock.ok()) {
      fs::create_directory(owner_of(**lock) + "/step-000000000001-1");
      std::ofstream(owner_of(**lock) + "/step-000000000001-1/rank") << "half";
    }
    const char done = lock.ok() ? 'y' : 'n';
    if (::write(ready[1], &done, 1) != 1) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  char done = 0;
  ASSERT_EQ(::read(ready[0], &done, 1), 1);
  EXPECT_EQ(done, 'y');
  EXPECT_EQ(acquire().status().code(), Code::unavailable);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  fs::create_directory(dir_.file(".trash-old"));
  const auto lock = acquire(time_.options(nanoseconds(0)));
  ASSERT_TRUE(lock.ok()) << lock.status().message();
  EXPECT_EQ(time_.pause_count, 0);
  EXPECT_EQ(dir_.entry_count(), 3);  // .lock, our own epoch and staging
  EXPECT_TRUE(fs::exists(dir_.file(".lock-2")));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(WriterLockTest, a_forked_child_does_not_keep_it) {
  auto lock = acquire();
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
  EXPECT_TRUE(fs::is_directory(owner_of(**lock)));
  EXPECT_FALSE(epoch_in(dir_.path(), 1)->is_released);
  lock->reset();
  EXPECT_TRUE(acquire().ok());
  ::close(hold[1]);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ::close(hold[0]);
}

TEST_F(WriterLockTest, the_heart_beats_until_the_end_and_the_last_word_is_that_it_ends) {
  LockOptions options;
  options.ttl = std::chrono::milliseconds(4);
  auto lock = acquire(options);
  ASSERT_TRUE(lock.ok());
  const auto beat = [&] {
    const auto record = epoch_in(dir_.path(), 1);
    return record ? record->beat : 0;
  };
  while (beat() < 2) std::this_thread::yield();
  EXPECT_FALSE((*lock)->find_successor().has_value());
  lock->reset();
  EXPECT_TRUE(epoch_in(dir_.path(), 1)->is_released);
}

TEST_F(WriterLockTest, every_holder_has_an_epoch_of_its_own_and_lower_ones_are_removed) {
  for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) {
    const auto lock = acquire(time_.options(nanoseconds(0)));
    ASSERT_TRUE(lock.ok()) << lock.status().message();
    EXPECT_EQ(epoch_in(dir_.path(), epoch)->token, (*lock)->token());
    for (std::uint64_t lower = 1; lower < epoch; ++lower)
      EXPECT_FALSE(fs::exists(dir_.file(epoch_name(lower))));
  }
  EXPECT_EQ(dir_.entry_count(), 2) << "no private file is left";
}

TEST_F(WriterLockTest, the_holder_removes_the_private_files_of_all_who_would_claim_an_epoch) {
  const auto claim = [&](const char* token, const std::string& text) {
    std::ofstream(dir_.file(epoch_claim_name(token))) << text;
  };
  claim("ours",
        format_lock_record({.machine = this_machine(), .device = testing::device_of(run_)}));
  claim("theirs", format_lock_record({.machine = testing::machine_of("far"), .device = 1}));
  claim("lost", "");  // in a power cut
  const auto lock = acquire(time_.options(nanoseconds(0)));
  ASSERT_TRUE(lock.ok()) << lock.status().message();
  for (const char* token : {"ours", "theirs", "lost"})
    EXPECT_FALSE(fs::exists(dir_.file(epoch_claim_name(token)))) << token;
}

TEST_F(WriterLockTest, a_claim_whose_private_file_is_removed_at_any_moment_is_made_anew) {
  /// Another holder removes it before the link, or behind it.
  class Removing final : public ForwardingFileOps {
   public:
    explicit Removing(bool is_before)
        : ForwardingFileOps(posix_file_ops()), is_before_(is_before) {}
    Status link(const PathAt& from, const PathAt& to) override {
      if (is_done_) return ForwardingFileOps::link(from, to);
      is_done_ = true;
      if (is_before_) static_cast<void>(ForwardingFileOps::unlink(from));
      Status linked = ForwardingFileOps::link(from, to);
      if (!is_before_) static_cast<void>(ForwardingFileOps::unlink(from));
      return linked;
    }

   private:
    const bool is_before_;
    bool is_done_ = false;
  };
  for (const bool is_before : {true, false}) {
    const testing::TempDir dir;
    Removing ops(is_before);
    const auto lock =
        WriterLock::acquire(testing::opened(dir.path(), ops), time_.options(nanoseconds(0)));
    ASSERT_TRUE(lock.ok()) << lock.status().message();
    EXPECT_EQ(epoch_in(dir.path(), 1)->token, (*lock)->token());
    EXPECT_EQ(dir.entry_count(), 3) << "the lock, the epoch and the owner's directory";
  }
}

TEST_F(WriterLockTest, where_there_are_no_hard_links_the_epoch_is_made_exclusively) {
  class NoLinks final : public ForwardingFileOps {
   public:
    NoLinks() : ForwardingFileOps(posix_file_ops()) {}
    Status link(const PathAt& /*from*/, const PathAt& to) override {
      return Status::from_errno(EPERM, "link", to.text());
    }
  };
  NoLinks ops;
  auto lock = WriterLock::acquire(run_.with(ops), time_.options(nanoseconds(0)));
  ASSERT_TRUE(lock.ok()) << lock.status().message();
  EXPECT_EQ(epoch_in(dir_.path(), 1)->token, (*lock)->token());
  lock->reset();
  EXPECT_TRUE(WriterLock::acquire(run_.with(ops), time_.options(nanoseconds(0))).ok());
  EXPECT_TRUE(fs::exists(dir_.file(".lock-2")));
  EXPECT_FALSE(fs::exists(dir_.file(".lock-1")));
}

TEST_F(WriterLockTest, a_link_whose_answer_was_lost_is_known_by_the_number_of_names) {
  /// Over NFS: performed, and then answered as if somebody else had been faster.
  class LostAnswer final : public ForwardingFileOps {
   public:
    LostAnswer() : ForwardingFileOps(posix_file_ops()) {}
    Status link(const PathAt& from, const PathAt& to) override {
      static_cast<void>(ForwardingFileOps::link(from, to));
      return Status::from_errno(EEXIST, "link", to.text());
    }
  };
  LostAnswer ops;
  const auto lock = WriterLock::acquire(run_.with(ops), time_.options(nanoseconds(0)));
  ASSERT_TRUE(lock.ok()) << lock.status().message();
  EXPECT_EQ(epoch_in(dir_.path(), 1)->token, (*lock)->token());
  EXPECT_EQ(time_.pause_count, 0) << "it has not waited for itself";
}

/// A record that version 0.1 has left in `.lock`, by its own rule.
class OldVersionLockTest : public WriterLockTest {
 protected:
  void write_old(const std::string& host, double age_s, std::uint64_t beat = 0) const {
    const double now =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    std::ofstream(dir_.file(".lock")) << "{\"token\":\"t\",\"host\":\"" << host
                                      << "\",\"pid\":7,\"time_s\":" << std::to_string(now - age_s)
                                      << ",\"beat\":" << beat << "}\n";
  }
};

TEST_F(WriterLockTest, what_is_no_file_at_the_name_of_an_epoch_is_named) {
  std::filesystem::create_directory(dir_.file(".lock-1"));
  const auto refused = WriterLock::acquire(run_, LockOptions());
  EXPECT_EQ(refused.status().code(), Code::invalid_argument);
  EXPECT_NE(refused.status().message().find(".lock-1: not a regular file"), std::string_view::npos)
      << refused.status().message();
}

TEST_F(OldVersionLockTest, of_this_host_says_nothing_once_the_flock_is_ours) {
  write_old(old_host_name(this_machine()), 0);
  EXPECT_TRUE(acquire(time_.options(nanoseconds(0))).ok());
}

TEST_F(OldVersionLockTest, of_another_host_is_taken_for_dead_after_its_silence) {
  write_old("elsewhere/12345678", 0);
  const auto refused = acquire(time_.options(seconds(59)));
  EXPECT_EQ(refused.status().code(), Code::unavailable);
  EXPECT_NE(refused.status().message().find("pid 7 on elsewhere"), std::string_view::npos)
      << refused.status().message();
  const Deadline began = time_.now();
  const auto taken = acquire(time_.options(seconds(300)));
  ASSERT_TRUE(taken.ok()) << taken.status().message();
  EXPECT_GE(time_.now() - began, seconds(60));
  EXPECT_TRUE(fs::exists(dir_.file(".lock-1"))) << "it counts as epoch 0";
}

TEST_F(OldVersionLockTest, of_another_host_that_gives_signs_of_life_is_left_alone) {
  std::uint64_t beat = 0;
  write_old("elsewhere/12345678", 0);
  time_.on_pause = [&] { write_old("elsewhere/12345678", 0, ++beat); };
  EXPECT_EQ(acquire(time_.options(seconds(600))).status().code(), Code::unavailable);
}

TEST_F(OldVersionLockTest, from_long_ago_is_not_waited_for) {
  write_old("elsewhere/12345678", 3600);
  EXPECT_TRUE(acquire(time_.options(nanoseconds(0))).ok());
}

TEST_F(OldVersionLockTest, that_is_garbage_is_nobodys) {
  for (const std::string text : {"", "{", "[1]", "{\"token\":1}", "null"}) {
    std::ofstream(dir_.file(".lock")) << text;
    EXPECT_TRUE(acquire(time_.options(nanoseconds(0))).ok()) << text;
  }
}

TEST(LockRecordTest, comes_back_as_it_was_and_always_has_one_length) {
  LockRecord record{.token = "t",
                    .machine = {.host = "h\"\\", .boot_id = "b"},
                    .device = ~std::uint64_t{0},
                    .pid = -3,
                    .job = "j\xc3\xa9",
                    .beat = 9};
  EXPECT_EQ(parse_lock_record(format_lock_record(record)), record);
  record.is_released = true;
  EXPECT_EQ(parse_lock_record(format_lock_record(record)), record);
  EXPECT_EQ(format_lock_record(record).size(), kLockRecordBytes);
  // Whatever a user has called the job, all of it fits.
  record.job = std::string(10'000, '\x01');
  record.token = record.machine.host = record.machine.boot_id = std::string(10'000, '"');
  EXPECT_EQ(format_lock_record(record).size(), kLockRecordBytes);
  EXPECT_TRUE(parse_lock_record(format_lock_record(record)).has_value());
  for (const char* const text : {"", "{", "[1]", "null", "{\"token\":1}"})
    EXPECT_FALSE(parse_lock_record(text).has_value()) << text;
}

TEST(LockRecordTest, who_it_names_fits_into_a_line_whatever_it_says) {
  const LockRecord record{
      .machine = {.host = "a\nb\x1b[31m", .boot_id = {}}, .pid = 5, .job = "\xc2\x9bj\xc3\xa9"};
  EXPECT_EQ(record.who(), "pid 5 on a?b?[31m (job ??j\xc3\xa9)");
  const OldLockRecord old{.host = "c\rd", .pid = 6};
  EXPECT_EQ(old.who(), "pid 6 on c?d");
}

}  // namespace
}  // namespace stoker
