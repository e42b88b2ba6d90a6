// Two writers on two hosts, each stopped at any of its calls for longer than the ttl while the
// other continues: whatever they believe, at most one of them can write.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "checkpoint/lock_support.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::FakeTime;
using testing::machine_of;
using testing::opened;

/// Stops before its `stop_at`-th call until it is let go. Its flock is not seen elsewhere.
class StoppableFileOps final : public FileOps {
 public:
  explicit StoppableFileOps(int stop_at) : stop_at_(stop_at) {}

  /// False if it has ended before it came so far.
  bool await_stop() {
    const MutexLock lock(mutex_);
    while (!is_stopped_ && !has_ended_) changed_.wait(mutex_);
    return is_stopped_;
  }
  void let_go() {
    const MutexLock lock(mutex_);
    may_go_ = true;
    changed_.notify_all();
  }
  void end() {
    const MutexLock lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }
  const std::string& stopped_at() const { return stopped_at_; }

  Result<UniqueFd> open(const PathAt& path, int flags) override {
    return pass("open", path).open(path, flags);
  }
  Result<std::size_t> pwrite(int fd, std::span<const std::byte> data,
                             std::uint64_t offset_bytes) override {
    return pass("pwrite").pwrite(fd, data, offset_bytes);
  }
  Status fallocate(int fd, std::uint64_t size_bytes) override {
    return pass("fallocate").fallocate(fd, size_bytes);
  }
  Status ftruncate(int fd, std::uint64_t size_bytes) override {
    return pass("ftruncate").ftruncate(fd, size_bytes);
  }
  Status fchmod(int fd, unsigned mode) override { return pass("fchmod").fchmod(fd, mode); }
  Status fdatasync(int fd) override { return pass("fdatasync").fdatasync(fd); }
  Status fsync(int fd) override { return pass("fsync").fsync(fd); }
  Status close(UniqueFd fd) override { return pass("close").close(std::move(fd)); }
  Status rename(const PathAt& from, const PathAt& to) override {
    return pass("rename", to).rename(from, to);
  }
  Status rename_noreplace(const PathAt& from, const PathAt& to) override {
    return pass("rename_noreplace", to).rename_noreplace(from, to);
  }
  Status link(const PathAt& from, const PathAt& to) override {
    return pass("link", to).link(from, to);
  }
  Status symlink(const std::string& target, const PathAt& path) override {
    return pass("symlink", path).symlink(target, path);
  }
  Result<std::string> read_link(const PathAt& path) override {
    return pass("read_link", path).read_link(path);
  }
  Result<FileInfo> info_of(const PathAt& path) override {
    return pass("info_of", path).info_of(path);
  }
  Status unlink(const PathAt& path) override { return pass("unlink", path).unlink(path); }
  Status mkdir(const PathAt& path) override { return pass("mkdir", path).mkdir(path); }
  Status rmdir(const PathAt& path) override { return pass("rmdir", path).rmdir(path); }
  Result<std::vector<DirectoryName>> list_names(const PathAt& path) override {
    return pass("list_names", path).list_names(path);
  }
  Status fsync_dir(const PathAt& path) override { return pass("fsync_dir", path).fsync_dir(path); }
  Status try_lock(int /*fd*/, LockMode /*mode*/) override { return {}; }
  void reached(std::string_view /*crash_point*/) override {}

 private:
  FileOps& pass(const char* op, const PathAt& path = "") {
    const MutexLock lock(mutex_);
    if (calls_++ == stop_at_) {
      stopped_at_ = std::string(op) + " " + path.text();
      is_stopped_ = true;
      changed_.notify_all();
      while (!may_go_) changed_.wait(mutex_);
    }
    return posix_file_ops();
  }

  const int stop_at_;
  Mutex mutex_;
  Condition changed_;
  int calls_ STOKER_GUARDED_BY(mutex_) = 0;
  bool is_stopped_ STOKER_GUARDED_BY(mutex_) = false;
  bool may_go_ STOKER_GUARDED_BY(mutex_) = false;
  bool has_ended_ STOKER_GUARDED_BY(mutex_) = false;
  std::string stopped_at_;
};

/// A writer that starts, on a thread and a machine of its own.
class Writer {
 public:
  Writer(const std::string& directory, const std::string& host, int stop_at)
      : ops_(stop_at), run_(opened(directory).with(ops_)), host_(host) {
    thread_ = std::jthread([this] {
      LockOptions options = time_.options(std::chrono::seconds(100), machine_of(host_));
      options.token = host_;
      lock_ = WriterLock::acquire(run_, options);
      ops_.end();
    });
  }
  ~Writer() {
    ops_.let_go();
    thread_ = {};
  }

  bool await_stop() { return ops_.await_stop(); }
  void finish() {
    ops_.let_go();
    thread_ = {};
  }
  const std::string& stopped_at() const { return ops_.stopped_at(); }
  bool is_holder() const { return lock_.ok(); }
  const Status& status() const { return lock_.status(); }
  const std::string& host() const { return host_; }
  std::optional<std::string> find_successor() const { return (*lock_)->find_successor(); }
  /// Whether it can give a checkpoint its name, which is what the right to write is.
  bool can_publish() const {
    if (!lock_.ok()) return false;
    const OwnerDirectory& owner = (*lock_)->owner();
    const std::string staged = "staged-" + host_;
    if (!posix_file_ops().mkdir(owner.at(staged)).ok()) return false;
    return owner.publish(staged, host_ + "-was-here").ok();
  }

 private:
  StoppableFileOps ops_;
  const CheckpointDirectory run_;
  const std::string host_;
  FakeTime time_;
  Result<std::unique_ptr<WriterLock>> lock_ = Status(Code::cancelled, "not started");
  std::jthread thread_;
};

void expect_one(const Writer& one, const Writer& two) {
  const int publishers = (one.can_publish() ? 1 : 0) + (two.can_publish() ? 1 : 0);
  EXPECT_EQ(publishers, 1) << one.status().message() << "; " << two.status().message();
  for (const auto& [self, other] : {std::pair(&one, &two), std::pair(&two, &one)}) {
    if (self->is_holder()) {
      if (!self->can_publish() && other->can_publish()) {
        EXPECT_NE(self->find_successor().value_or("nobody").find("on " + other->host()),
                  std::string::npos)
            << self->find_successor().value_or("nobody");
      }
      continue;
    }
    EXPECT_EQ(self->status().code(), Code::unavailable) << self->status().message();
    EXPECT_NE(self->status().message().find("on " + other->host()), std::string_view::npos)
        << self->status().message();
  }
}

/// Stops the first at each of its calls, lets the second come so far as well, and then both
/// continue.
void race(const std::function<void(const std::string&)>& prepare, int first_step) {
  int race_count = 0;
  bool is_first_over = false;
  for (int i = 0; !is_first_over; i += first_step) {
    bool is_second_over = false;
    for (int k = 0; !is_second_over; ++k) {
      const testing::TempDir dir(::access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                                                 : ::testing::TempDir());
      prepare(dir.path());
      Writer one(dir.path(), "one", i);
      is_first_over = !one.await_stop();
      Writer two(dir.path(), "two", k);
      is_second_over = !two.await_stop();
      one.finish();
      two.finish();
      SCOPED_TRACE("one stopped at " + one.stopped_at() + ", two at " + two.stopped_at());
      expect_one(one, two);
      ++race_count;
      if (::testing::Test::HasFailure()) return;
    }
  }
  ::testing::Test::RecordProperty("races", race_count);
  std::printf("%d races\n", race_count);
  EXPECT_GT(race_count, 300);
}

TEST(WriterRaceTest, in_a_new_directory) {
  race([](const std::string&) {}, 1);
}

TEST(WriterRaceTest, for_what_a_third_has_left_behind) {
  race(
      [](const std::string& directory) {
        testing::write_epoch(directory, 1,
                             {.token = "dead", .machine = machine_of("dead"), .is_released = true});
        fs::create_directories(directory + "/owner-dead/step-000000000001-1");
        fs::create_directories(directory + "/owner-dead/taken-x/step-000000000001-1");
      },
      3);
}

}  // namespace
}  // namespace stoker
