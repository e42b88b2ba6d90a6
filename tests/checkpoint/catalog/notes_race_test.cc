// Pins and annotations while retention is at work: whatever has returned OK holds. Somebody else's
// are tried as fast as they go, from threads and from another process; and one at every call that a
// save with retention makes.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/save_support.h"
#include "support/hooked_file_ops.h"
#include "support/interrupting_file_ops.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

/// A checkpoint, by what was said about it.
struct Named {
  std::uint64_t step = 0;
  std::uint64_t generation = 0;

  friend auto operator<=>(const Named&, const Named&) = default;
};

/// Saves steps 1, 2, 3 and so on.
class SavingRun {
 public:
  SavingRun(const std::string& directory, const RetentionRules& rules,
            FileOps& ops = posix_file_ops()) {
    SaverOptions options = quiet_options(directory);
    options.ops = &ops;
    options.retention = rules;
    options.copy_threads = 1;
    saver_ = make_saver(std::move(options));
  }
  Named save() {
    const std::vector<OwnedTensor> tensors = {counted("w", 50, static_cast<float>(++step_))};
    const Result<PendingSave> pending = saver_->save(request_of(step_, tensors));
    EXPECT_TRUE(pending.ok()) << pending.status().message();
    if (!pending.ok()) return {};
    const Status saved = pending->wait();
    EXPECT_TRUE(saved.ok()) << saved.message();
    return {.step = step_, .generation = pending->generation()};
  }
  void close() const { EXPECT_TRUE(saver_->close().ok()); }

 private:
  std::unique_ptr<CheckpointSaver> saver_;
  std::uint64_t step_ = 0;
};

bool is_there(const CheckpointDirectory& directory, const Named& named) {
  const Result<Catalog> catalog = list_checkpoints(directory);
  EXPECT_TRUE(catalog.ok()) << catalog.status().message();
  if (!catalog.ok()) return false;
  for (const CatalogStep& step : catalog->steps)
    if (step.is_valid() && step.parsed.step == named.step && step.generation == named.generation) {
      expect_whole(directory.path() + "/" + step.name);
      return true;
    }
  return false;
}

void expect_ok_or_gone(const Status& status) {
  EXPECT_TRUE(status.ok() || status.code() == Code::not_found) << status.message();
}

const RetentionRules kKeepOne{.keep_last = 1};
const RetentionRules kKeepBest{
    .keep_last = 1, .keep_best = KeepBest{.metric = "loss", .order = KeepBest::Order::min}};

// During saves ------------------------------------------------------------------------------------

constexpr int kSaves = 150;
/// A save with retention reaches about this number of crash points.
constexpr int kPointsPerSave = 24;

/// How far a writer has come; others see it from threads and processes.
struct Progress {
  std::atomic<bool> has_ended = false;
  std::atomic<std::uint64_t> point_count = 0;  ///< Crash points reached.
  std::atomic<std::uint64_t> newest = 0;       ///< Steps and generations are the same here.

  /// Comes back `points` after the newest checkpoint was acknowledged, at the latest when all is
  /// over. 0: there is none that was not seen before.
  std::uint64_t await(std::uint64_t seen, int points) const {
    const std::uint64_t step = newest;
    if (step == seen) {
      std::this_thread::yield();
      return 0;
    }
    const std::uint64_t since = point_count;
    while (!has_ended && point_count < since + static_cast<std::uint64_t>(points))
      std::this_thread::yield();
    return step;
  }
};

class ProgressFileOps final : public ForwardingFileOps {
 public:
  explicit ProgressFileOps(Progress& progress)
      : ForwardingFileOps(posix_file_ops()), progress_(progress) {}
  void reached(std::string_view /*crash_point*/) override { ++progress_.point_count; }

 private:
  Progress& progress_;
};

/// Saves and removes while others watch.
void save_many(const std::string& directory, const RetentionRules& rules, Progress& progress) {
  ProgressFileOps ops(progress);
  SavingRun run(directory, rules, ops);
  for (int i = 0; i < kSaves; ++i) {
    const Named saved = run.save();
    EXPECT_EQ(saved.step, saved.generation);
    progress.newest = saved.step;
  }
  run.close();
  progress.has_ended = true;
}

/// Calls `say` about each checkpoint, another moment later each time. Returns the number of calls.
int watch(const Progress& progress, int first_points,
          const std::function<void(const Named&)>& say) {
  int count = 0;
  for (std::uint64_t seen = 0; !progress.has_ended;) {
    const int points = (first_points + count) % kPointsPerSave;
    const std::uint64_t step = progress.await(seen, points);
    if (step == 0) continue;
    seen = step;
    ++count;
    say({.step = step, .generation = step});
  }
  return count;
}

struct Tries {
  int count = 0;
  std::set<Named> held = {};  ///< That were told OK.

  void print(const char* who) const {
    std::printf("%s: %d pins during %d saves, %zu returned OK\n", who, count, kSaves, held.size());
    ::testing::Test::RecordProperty("tries", count);
    ::testing::Test::RecordProperty("held", static_cast<int>(held.size()));
  }
};

void expect_held(const CheckpointDirectory& directory, const std::set<Named>& held) {
  for (const Named& named : held)
    EXPECT_TRUE(is_there(directory, named)) << "step " << named.step << " is gone";
}

TEST(NotesRaceTest, a_pin_of_another_thread_that_returned_holds) {
  const TempDir dir(fast_parent());
  const CheckpointDirectory directory = opened(dir.path());
  Progress progress;
  std::vector<Tries> all(2);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < all.size(); ++i)
      threads.emplace_back([&, i] {
        Tries& tries = all[i];
        tries.count = watch(progress, static_cast<int>(7 * i), [&](const Named& named) {
          const Status pinned = pin_checkpoint(directory, named.step, named.generation, true);
          expect_ok_or_gone(pinned);
          if (pinned.ok()) tries.held.insert(named);
        });
      });
    save_many(dir.path(), {.keep_last = 1}, progress);
  }
  for (const Tries& tries : all) {
    tries.print("a thread");
    EXPECT_GT(tries.count, kSaves / 20);
    expect_held(directory, tries.held);
  }
}

/// What another process tells this one.
struct Shared {
  Progress progress;
  std::atomic<int> failures = 0;
  std::atomic<int> tries = 0;
  std::atomic<std::size_t> held_count = 0;
  std::array<Named, kSaves> held = {};
};

TEST(NotesRaceTest, a_pin_of_another_process_that_returned_holds) {
  const TempDir dir(fast_parent());
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Shared& shared = *new (memory) Shared;
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(120);
    const CheckpointDirectory directory = opened(dir.path());
    shared.tries = watch(shared.progress, 0, [&](const Named& named) {
      const Status pinned = pin_checkpoint(directory, named.step, named.generation, true);
      if (!pinned.ok() && pinned.code() != Code::not_found) ++shared.failures;
      if (pinned.ok()) shared.held.at(shared.held_count++) = named;
    });
    ::_exit(0);
  }
  save_many(dir.path(), {.keep_last = 1}, shared.progress);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(shared.failures, 0);
  Tries tries{.count = shared.tries};
  for (std::size_t i = 0; i < shared.held_count; ++i) tries.held.insert(shared.held.at(i));
  tries.print("a process");
  EXPECT_GT(tries.count, kSaves / 20);
  expect_held(opened(dir.path()), tries.held);
  ::munmap(memory, sizeof(Shared));
}

TEST(NotesRaceTest, an_annotation_that_returned_counts_in_keep_best) {
  const TempDir dir(fast_parent());
  const CheckpointDirectory directory = opened(dir.path());
  Progress progress;
  int count = 0;
  int told_ok = 0;
  std::set<Named> best;  // one, or none
  {
    // Each is better than the one before, and stays until there is a better one.
    const std::jthread annotator([&] {
      double loss = 0;
      count = watch(progress, 0, [&](const Named& named) {
        expect_held(directory, best);
        best.clear();  // what is gone now was the best for a moment
        const Status annotated =
            annotate_checkpoint(directory, named.step, named.generation, {{"loss", --loss}});
        expect_ok_or_gone(annotated);
        if (!annotated.ok()) return;
        ++told_ok;
        best.insert(named);
      });
    });
    save_many(dir.path(), kKeepBest, progress);
  }
  expect_held(directory, best);
  std::printf("%d annotations during %d saves, %d returned OK\n", count, kSaves, told_ok);
  EXPECT_GT(count, kSaves / 20);
}

// At every call ----------------------------------------------------------------------------------

using Say = std::function<Status(const CheckpointDirectory&, const Named&)>;

Status say_pin(const CheckpointDirectory& directory, const Named& named) {
  return pin_checkpoint(directory, named.step, named.generation, true);
}

Status say_best(const CheckpointDirectory& directory, const Named& named) {
  return annotate_checkpoint(directory, named.step, named.generation, {{"loss", 1.0}});
}

struct SweepCounts {
  int moments = 0;
  int told_ok = 0;
  int told_gone = 0;
  int broken = 0;  ///< Told OK, and gone.
};

/// Retention that does not read the note again once it has put a checkpoint aside: a mutant.
class ForgetfulFileOps final : public ForwardingFileOps {
 public:
  explicit ForgetfulFileOps(FileOps& target) : ForwardingFileOps(target) {}
  Status rename(const PathAt& from, const PathAt& to) override {
    is_retiring_ = to.last().starts_with("retire-");
    return ForwardingFileOps::rename(from, to);
  }
  Result<UniqueFd> open(const PathAt& path, int flags) override {
    if (is_retiring_ && path.text().find("/notes/step-") != std::string::npos)
      return Status(Code::not_found, "not looked at");
    return ForwardingFileOps::open(path, flags);
  }

 private:
  std::atomic<bool> is_retiring_ = false;
};

/// Somebody says something about step 1 at each call of the second save in turn, which removes it
/// unless that counts.
SweepCounts say_at_every_call(const RetentionRules& rules, const Say& say, bool is_forgetful) {
  SweepCounts counts;
  for (bool has_fired = true; has_fired; ++counts.moments) {
    const TempDir dir(fast_parent());
    LocklessFileOps others(posix_file_ops());
    ForgetfulFileOps forgetful(posix_file_ops());
    std::atomic<int> left = -1;
    Named first;
    std::optional<Status> said;
    HookedFileOps ops(is_forgetful ? static_cast<FileOps&>(forgetful) : posix_file_ops(),
                      [&](std::string_view, const PathAt*) {
                        if (left.fetch_sub(1) == 0) said = say(opened(dir.path(), others), first);
                        return Status();
                      });
    SavingRun run(dir.path(), rules, ops);
    first = run.save();
    left = counts.moments;
    run.save();
    run.close();
    has_fired = said.has_value();
    if (!has_fired) break;
    expect_ok_or_gone(*said);
    counts.told_ok += said->ok() ? 1 : 0;
    counts.told_gone += said->ok() ? 0 : 1;
    if (said->ok() && !is_there(opened(dir.path()), first)) ++counts.broken;
  }
  return counts;
}

void expect_all_held(const char* what, const SweepCounts& counts) {
  std::printf("%s at %d calls: %d times OK, %d times gone, %d broken\n", what, counts.moments,
              counts.told_ok, counts.told_gone, counts.broken);
  ::testing::Test::RecordProperty("moments", counts.moments);
  EXPECT_EQ(counts.broken, 0);
  EXPECT_GT(counts.told_ok, 10);
  EXPECT_GT(counts.told_gone, 3);
}

TEST(NotesRaceTest, a_pin_at_any_call_of_a_save_with_retention_holds_or_finds_nothing) {
  expect_all_held("pinned", say_at_every_call(kKeepOne, say_pin, false));
}

TEST(NotesRaceTest, an_annotation_at_any_call_of_a_save_with_keep_best_holds_or_finds_nothing) {
  expect_all_held("annotated", say_at_every_call(kKeepBest, say_best, false));
}

TEST(NotesRaceTest, retention_that_does_not_read_the_note_again_is_found_out) {
  EXPECT_GT(say_at_every_call(kKeepOne, say_pin, true).broken, 0);
  EXPECT_GT(say_at_every_call(kKeepBest, say_best, true).broken, 0);
}

}  // namespace
}  // namespace stoker::testing
