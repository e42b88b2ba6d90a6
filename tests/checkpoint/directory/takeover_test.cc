// A writer that is stopped at any moment, taken for dead by another host, and continues: nothing
// that either of them has acknowledged is lost (Q12 in docs/durability.md).
#include <fcntl.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/inspect/verify.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "checkpoint/save_support.h"
#include "io/files/forwarding_file_ops.h"
#include "support/in_child.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::counted;
using testing::OwnedTensor;

/// The `count`-th time that a crash point is reached.
struct StopAt {
  std::string point;
  int count = 1;
};

/// The system calls of a host whose locks others do not see. Stops once, where it is told to.
class HostFileOps final : public ForwardingFileOps {
 public:
  explicit HostFileOps(std::optional<StopAt> stop_at = {}, bool has_links = true,
                       FileOps& target = posix_file_ops())
      : ForwardingFileOps(target), stop_at_(std::move(stop_at)), has_links_(has_links) {}

  Status try_lock(int /*fd*/, LockMode /*mode*/) override { return {}; }
  Status link(const PathAt& from, const PathAt& to) override {
    if (!has_links_) return Status(Code::unsupported, "no hard links here");
    return ForwardingFileOps::link(from, to);
  }
  void reached(std::string_view point) override {
    const MutexLock lock(mutex_);
    const int count = ++counts_[std::string(point)];
    if (!stop_at_ || point != stop_at_->point || count != stop_at_->count) return;
    is_stopped_ = true;
    changed_.notify_all();
    while (!may_continue_) changed_.wait(mutex_);
  }

  /// False if it has ended without coming there.
  bool await_stop() {
    const MutexLock lock(mutex_);
    while (!is_stopped_ && !has_ended_) changed_.wait(mutex_);
    return is_stopped_;
  }
  void let_continue() {
    const MutexLock lock(mutex_);
    may_continue_ = true;
    changed_.notify_all();
  }
  void end() {
    const MutexLock lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }
  std::map<std::string, int> counts() {
    const MutexLock lock(mutex_);
    return counts_;
  }

 private:
  const std::optional<StopAt> stop_at_;
  const bool has_links_;
  Mutex mutex_;
  Condition changed_;
  std::map<std::string, int> counts_ STOKER_GUARDED_BY(mutex_);
  bool is_stopped_ STOKER_GUARDED_BY(mutex_) = false;
  bool may_continue_ STOKER_GUARDED_BY(mutex_) = false;
  bool has_ended_ STOKER_GUARDED_BY(mutex_) = false;
};

/// A writer that reaches all that lies in its owner's directory by a descriptor of that directory,
/// which it keeps. Ours does not: this is what the fence has to withstand at worst, as when the
/// name that a call was given has been looked up and the call is not made yet.
class KeptOwnerFileOps final : public ForwardingFileOps {
 public:
  KeptOwnerFileOps() : ForwardingFileOps(posix_file_ops()) {}

  Status mkdir(const PathAt& path) override {
    STOKER_TRY(ForwardingFileOps::mkdir(kept(path)));
    if (!is_owner_name(path.name()) || path.name().find('/') != std::string_view::npos) return {};
    STOKER_ASSIGN(UniqueFd fd, ForwardingFileOps::open(path, O_RDONLY | O_DIRECTORY));
    const MutexLock lock(mutex_);
    owner_ = path.name();
    root_ = std::make_shared<const RootDirectory>(RootDirectory{path.text(), std::move(fd)});
    return {};
  }
  Result<UniqueFd> open(const PathAt& path, int flags) override {
    return ForwardingFileOps::open(kept(path), flags);
  }
  Status rename(const PathAt& from, const PathAt& to) override {
    return ForwardingFileOps::rename(kept(from), kept(to));
  }
  Status rename_noreplace(const PathAt& from, const PathAt& to) override {
    return ForwardingFileOps::rename_noreplace(kept(from), kept(to));
  }
  Status link(const PathAt& from, const PathAt& to) override {
    return ForwardingFileOps::link(kept(from), kept(to));
  }
  Status symlink(const std::string& target, const PathAt& path) override {
    return ForwardingFileOps::symlink(target, kept(path));
  }
  Result<FileInfo> info_of(const PathAt& path) override {
    return ForwardingFileOps::info_of(kept(path));
  }
  Status unlink(const PathAt& path) override { return ForwardingFileOps::unlink(kept(path)); }
  Status rmdir(const PathAt& path) override { return ForwardingFileOps::rmdir(kept(path)); }
  Result<std::vector<DirectoryName>> list_names(const PathAt& path) override {
    return ForwardingFileOps::list_names(kept(path));
  }
  Status fsync_dir(const PathAt& path) override {
    return ForwardingFileOps::fsync_dir(kept(path, /*is_self=*/true));
  }

 private:
  PathAt kept(const PathAt& path, bool is_self = false) {
    const MutexLock lock(mutex_);
    const std::string_view name = path.name();
    if (root_ == nullptr || !path.is_below()) return path;
    if (name == owner_ && is_self) return {root_, ""};
    return name.starts_with(owner_ + "/") ? PathAt(root_, name.substr(owner_.size() + 1)) : path;
  }

  Mutex mutex_;
  std::string owner_ STOKER_GUARDED_BY(mutex_);
  std::shared_ptr<const RootDirectory> root_ STOKER_GUARDED_BY(mutex_);
};

/// A takeover that renames the directories of other owners, and does not remove them: a mutant.
class RenamingOnlyFileOps final : public ForwardingFileOps {
 public:
  RenamingOnlyFileOps() : ForwardingFileOps(posix_file_ops()) {}
  Result<std::vector<DirectoryName>> list_names(const PathAt& path) override {
    STOKER_ASSIGN(std::vector<DirectoryName> names, ForwardingFileOps::list_names(path));
    std::erase_if(names, [](const DirectoryName& name) { return is_taken_name(name.name); });
    return names;
  }
};

/// Which checkpoints somebody was promised: by step, the first value of their only tensor.
using Promised = std::multimap<std::uint64_t, float>;

/// One writer on a host of its own.
class Host {
 public:
  struct Options {
    std::string directory;
    std::string name;
    RetentionRules retention = {};
    std::optional<CheckpointParent> parent = {};
    std::string line = {};
  };
  Host(HostFileOps& ops, const Options& options) : ops_(ops), options_(options) {
    SaverOptions made = testing::quiet_options(options.directory);
    made.ops = &ops;
    made.retention = options.retention;
    made.parent = options.parent;
    made.line = options.line;
    made.lock.machine = Machine{.host = options.name, .boot_id = "boot-" + options.name};
    made.lock.timeout = kForever;
    // Time passes when somebody waits: a writer that is stopped is dead in no time.
    made.lock.ttl = nanoseconds(0);
    made.lock.now = [this] { return now_; };
    made.lock.pause = [this](nanoseconds time) { now_ += time; };
    saver_ = testing::make_saver(std::move(made));
  }

  /// Whether it is committed; then it is promised.
  bool save(std::uint64_t step, float value, Promised* promised) {
    const std::vector<OwnedTensor> tensors = {counted("w", 100, value)};
    const Result<PendingSave> pending = saver_->save(testing::request_of(step, tensors));
    if (!pending.ok()) {
      last_error_ = pending.status();
      return false;
    }
    last_error_ = pending->wait();
    const bool is_durable = pending->is_durable();
    if (is_durable) generation_ = pending->generation();
    if (is_durable && promised != nullptr) promised->emplace(step, value);
    static_cast<void>(saver_->wait());
    return is_durable;
  }
  bool pin(std::uint64_t step) const {
    const Result<CheckpointDirectory> directory =
        CheckpointDirectory::open(ops_, options_.directory);
    return directory.ok() && pin_checkpoint(*directory, step, generation_, true).ok();
  }
  Status close() { return saver_->close(); }
  std::uint64_t generation() const { return generation_; }
  const Status& last_error() const { return last_error_; }

 private:
  HostFileOps& ops_;
  const Options options_;
  Deadline now_ = Clock::now();
  std::unique_ptr<CheckpointSaver> saver_;
  std::uint64_t generation_ = 0;
  Status last_error_;
};

/// What the first writer does, and how the directory looked before.
struct Story {
  std::string name;
  RetentionRules retention = {};
  bool is_rewound = false;  ///< Steps 20 and 30 are there, of a run that was rewound to 10.
  bool has_links = true;
  bool pins = false;              ///< Each checkpoint that is saved, by the first and before it.
  bool keeps_descriptor = false;  ///< Of its owner's directory, and goes by that.
  /// Of all writers: without lines that tell them apart, the fence is all that protects.
  std::string line = {};
};

/// What the second writer does when it has taken over.
enum class Successor { saves_the_same_step, saves_the_next };

class TakeoverTest : public ::testing::TestWithParam<std::tuple<Story, Successor>> {
 protected:
  /// Step 10, and what the story has before it begins. Returns the generation of step 10.
  static std::uint64_t prepare(const std::string& directory, const Story& story, Promised& promised,
                               Promised& pinned) {
    HostFileOps ops;
    Host host(ops, {.directory = directory, .name = "before", .line = story.line});
    EXPECT_TRUE(host.save(10, 1, &promised)) << host.last_error().message();
    const std::uint64_t generation = host.generation();
    for (const std::uint64_t step : {20U, 30U}) {
      if (!story.is_rewound) break;
      EXPECT_TRUE(host.save(step, 2, &promised));
      if (story.pins && host.pin(step)) pinned.emplace(step, 2);
    }
    EXPECT_TRUE(host.close().ok());
    return generation;
  }

  /// Saves steps 20, 30 and 40. `by_rules`: what its own retention may have removed by then.
  static void run_first(Host& host, const Story& story, Promised& promised, Promised& by_rules,
                        Promised& pinned) {
    for (const std::uint64_t step : {20U, 30U, 40U}) {
      const Promised before = promised;
      if (!host.save(step, 3, &promised)) return;
      if (story.retention.keep_last) by_rules.insert(before.begin(), before.end());
      if (story.pins && host.pin(step)) pinned.emplace(step, 3);
    }
  }

  static std::vector<float> values_of(const std::string& directory, std::uint64_t step) {
    std::vector<float> found;
    for (const auto& entry : fs::directory_iterator(directory)) {
      const auto parsed = parse_step_name(entry.path().filename().string());
      if (!parsed || parsed->step != step) continue;
      testing::expect_whole(entry.path().string());
      const std::vector<float> values =
          testing::read_plainly(entry.path().string() + "/rank-00000.safetensors", "w");
      if (!values.empty()) found.push_back(values.front());
    }
    return found;
  }
  static void expect_there(const std::string& directory, const Promised& promised,
                           const std::string& who) {
    for (const auto& [step, value] : promised) {
      const std::vector<float> found = values_of(directory, step);
      EXPECT_NE(std::find(found.begin(), found.end(), value), found.end())
          << "step " << step << " with " << value << ", promised " << who;
    }
  }

  /// How often each crash point is reached when nobody is in the way.
  static std::map<std::string, int> all_points(const Story& story) {
    const testing::TempDir dir(testing::fast_parent());
    Promised promised;
    Promised by_rules;
    Promised pinned;
    const std::uint64_t generation = prepare(dir.path(), story, promised, pinned);
    HostFileOps ops({}, story.has_links);
    {
      Host host(ops, {.directory = dir.path(),
                      .name = "first",
                      .retention = story.retention,
                      .parent = CheckpointParent{.step = 10, .generation = generation},
                      .line = story.line});
      run_first(host, story, promised, by_rules, pinned);
      EXPECT_TRUE(host.close().ok());
    }
    return ops.counts();
  }

  /// `first_path` and `second_path` lead to the same directory.
  static void run_story(const std::string& first_path, const std::string& second_path,
                        const Story& story, Successor successor, const StopAt& stop_at,
                        FileOps& second_target = posix_file_ops()) {
    SCOPED_TRACE(stop_at.point + " " + std::to_string(stop_at.count));
    Promised promised;
    Promised by_rules;
    Promised pinned;
    const std::uint64_t generation = prepare(second_path, story, promised, pinned);
    KeptOwnerFileOps by_descriptor;
    HostFileOps first_ops(
        stop_at, story.has_links,
        story.keeps_descriptor ? static_cast<FileOps&>(by_descriptor) : posix_file_ops());
    Promised first_promised;
    std::jthread first([&] {
      Host host(first_ops, {.directory = first_path,
                            .name = "first",
                            .retention = story.retention,
                            .parent = CheckpointParent{.step = 10, .generation = generation},
                            .line = story.line});
      run_first(host, story, first_promised, by_rules, pinned);
      static_cast<void>(host.close());
      first_ops.end();
    });
    const bool is_stopped = first_ops.await_stop();
    Promised second_promised;
    if (is_stopped) {
      HostFileOps second_ops({}, true, second_target);
      const std::uint64_t step = successor == Successor::saves_the_same_step ? 30 : 50;
      Host second(second_ops, {.directory = second_path,
                               .name = "second",
                               .parent = CheckpointParent{.step = 10, .generation = generation},
                               .line = story.line});
      // The first may be stopped between two of its own steps and hold nothing at all.
      const bool is_saved = second.save(step, 9, &second_promised);
      EXPECT_TRUE(is_saved) << second.last_error().message();
      EXPECT_TRUE(second.save(step + 1, 9, &second_promised)) << second.last_error().message();
      first_ops.let_continue();
      first.join();
      // If the first has taken over in its turn, the second is told so, and acquires anew. What the
      // first has removed meanwhile it has removed by its rules, as the holder.
      if (!second.save(step + 2, 9, nullptr)) {
        if (story.retention.keep_last) second_promised.clear();
        EXPECT_NE(second.last_error().message().find("first"), std::string_view::npos)
            << second.last_error().message();
        EXPECT_TRUE(second.save(step + 2, 9, nullptr)) << second.last_error().message();
      }
      second_promised.emplace(step + 2, 9);
      static_cast<void>(second.close());
    } else {
      first_ops.let_continue();
      first.join();
    }
    expect_there(second_path, second_promised, "by the second");
    expect_there(second_path, pinned, "by a pin");
    Promised kept = first_promised;
    kept.insert(promised.begin(), promised.end());
    for (const auto& gone : by_rules) {
      const auto [begin, end] = kept.equal_range(gone.first);
      for (auto it = begin; it != end; ++it)
        if (it->second == gone.second) {
          kept.erase(it);
          break;
        }
    }
    // With a rule of its own the first removes what was there before it; without one nothing.
    if (!story.retention.keep_last) expect_there(second_path, kept, "by the first");
    expect_nothing_left(second_path);
  }

  static void expect_nothing_left(const std::string& directory) {
    HostFileOps ops;
    Host last(ops, {.directory = directory, .name = "last"});
    EXPECT_TRUE(last.save(1000, 5, nullptr)) << last.last_error().message();
    EXPECT_TRUE(last.close().ok());
    const Result<CheckpointVerifyReport> report =
        verify_checkpoints(*CheckpointDirectory::open(posix_file_ops(), directory), {});
    ASSERT_TRUE(report.ok()) << report.status().message();
    for (const CheckpointDamage& damage : report->damages)
      ADD_FAILURE() << damage.step << "/" << damage.file << ": " << damage.reason;
    for (const auto& entry : fs::directory_iterator(directory))
      EXPECT_FALSE(is_owner_name(entry.path().filename().string())) << entry.path();
  }
};

TEST_P(TakeoverTest, of_a_stopped_writer_loses_nothing_that_anybody_was_promised) {
  const auto& [story, successor] = GetParam();
  int count = 0;
  for (const auto& [point, times] : all_points(story)) {
    for (int i = 1; i <= times; ++i, ++count) {
      const testing::TempDir dir(testing::fast_parent());
      run_story(dir.path(), dir.path(), story, successor, {.point = point, .count = i});
      if (HasFailure()) return;
    }
  }
  std::printf("%s: stopped at %d moments\n", story.name.c_str(), count);
  RecordProperty("stops", count);
  EXPECT_GT(count, 30);
}

INSTANTIATE_TEST_SUITE_P(
    Stories, TakeoverTest,
    ::testing::Combine(
        ::testing::Values(
            Story{.name = "plain"}, Story{.name = "keep_last", .retention = {.keep_last = 1}},
            Story{.name = "rewound", .is_rewound = true},
            Story{.name = "rewound_without_links", .is_rewound = true, .has_links = false},
            Story{.name = "pins", .retention = {.keep_last = 1}, .pins = true},
            Story{.name = "rewound_and_pins",
                  .retention = {.keep_last = 1},
                  .is_rewound = true,
                  .pins = true},
            Story{.name = "keep_last_by_descriptor",
                  .retention = {.keep_last = 1},
                  .keeps_descriptor = true},
            Story{.name = "rewound_by_descriptor", .is_rewound = true, .keeps_descriptor = true}),
        ::testing::Values(Successor::saves_the_same_step, Successor::saves_the_next)),
    [](const auto& named) {
      return std::get<0>(named.param).name +
             (std::get<1>(named.param) == Successor::saves_the_next ? "_next" : "_same");
    });

class TakeoverMutantTest : public TakeoverTest {
 public:
  /// Whether a successor that only renames does harm if the first is stopped there.
  static bool is_found_out(const Story& story, const StopAt& stop_at) {
    const testing::TempDir dir(testing::fast_parent());
    RenamingOnlyFileOps renaming;
    ::testing::TestPartResultArray failures;
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &failures);
    run_story(dir.path(), dir.path(), story, Successor::saves_the_next, stop_at, renaming);
    return failures.size() > 0;
  }
  using TakeoverTest::all_points;
};

TEST(TakeoverFenceTest, a_takeover_that_removes_no_directory_is_found_out) {
  const std::string line(32, '1');
  const Story story{.name = "keep_last",
                    .retention = {.keep_last = 1, .seen = {{line, kGenerationMax}}},
                    .keeps_descriptor = true,
                    .line = line};
  std::vector<std::string> found;
  for (const auto& [point, times] : TakeoverMutantTest::all_points(story))
    for (int i = 1; i <= times; ++i)
      if (TakeoverMutantTest::is_found_out(story, {.point = point, .count = i}))
        found.push_back(point + " " + std::to_string(i));
  std::printf("found out at %zu moments\n", found.size());
  EXPECT_FALSE(found.empty());
}

/// The writers reach the directory by two mounts.
class SecondMountTest : public TakeoverTest {
 public:
  static int run() {
    const testing::TempDir dir(testing::fast_parent());
    const testing::TempDir mount_point;
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(dir.path().c_str(), mount_point.path().c_str(), nullptr, MS_BIND, nullptr) != 0)
      return testing::kNotRoot;
    const Story story{.name = "keep_last", .retention = {.keep_last = 1}};
    int number = 0;
    for (const char* point :
         {"checkpoint.directory_synced", "retention.retired", "retention.condemned",
          "owner.unlinked", "checkpoint.latest_staged"}) {
      const std::string name = std::to_string(++number);
      fs::create_directory(dir.file(name));
      run_story(mount_point.file(name), dir.file(name), story, Successor::saves_the_same_step,
                {.point = point, .count = 2});
    }
    return HasFailure() ? 1 : 0;
  }
};

TEST(SecondMountTakeoverTest, is_the_same) {
  const testing::ChildEnd end = testing::in_child(&SecondMountTest::run);
  if (end.exit_code == testing::kNotRoot) GTEST_SKIP() << "needs root, to mount";
  EXPECT_EQ(end.exit_code, 0) << "signal " << end.signal;
}

}  // namespace
}  // namespace stoker
