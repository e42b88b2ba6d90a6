#include "crash/checkpoint_crash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <sstream>
#include <thread>

#include "base/mutex.h"
#include "checkpoint/catalog/catalog.h"
#include "checkpoint/inspect/verify.h"
#include "checkpoint/manifest/manifest_file.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/opened.h"
#include "checkpoint/restore/restore_choice.h"
#include "io/files/forwarding_file_ops.h"

namespace stoker::testing {
namespace {

constexpr SavedStep kNext{.step = 1000, .version = 9};
constexpr SavedStep kLast{.step = 1001, .version = 9};

CheckpointReader::Options reader_options(const CheckpointPlace& place) {
  CheckpointReader::Options options;
  options.file.policy = CachePolicy::buffered;
  options.engine = place.engine;
  options.thread_count = 1;
  return options;
}

/// What the marks promise.
struct Promises {
  std::set<SavedStep> began;
  std::set<SavedStep> acknowledged;  ///< Less those that may go.
  std::set<SavedStep> pinned;
  std::set<SavedStep> aside;  ///< These need not be seen before the next takeover.
  SavedStep newest;           ///< The last acknowledged one.
  std::set<SavedStep> left;   ///< The saver was told that `latest` did not move to these.
  bool has_ranks = false;
};

Promises promises_of(const CutPoint& point) {
  Promises promises;
  std::set<SavedStep> may_go;
  for (const std::string& mark : point.marks) {
    std::istringstream text(mark);
    std::string verb;
    text >> verb;
    if (verb == "may") text >> verb;
    if (verb == "swept") promises.aside.clear();
    if (verb == "ranks") promises.has_ranks = true;
    for (SavedStep saved; text >> saved.step >> saved.version;) {
      if (verb == "began") promises.began.insert(saved);
      if (verb == "acknowledged") promises.acknowledged.insert(promises.newest = saved);
      if (verb == "go") may_go.insert(saved);
      if (verb == "left") promises.left.insert(saved);
      if (verb == "pinned") promises.pinned.insert(saved);
      if (verb == "aside") promises.aside.insert(saved);
    }
  }
  for (const SavedStep& saved : may_go) promises.acknowledged.erase(saved);
  return promises;
}

Status read_step(const CheckpointReader& reader, std::map<std::string, std::vector<float>>& found) {
  std::vector<ReadTarget> targets;
  for (const TensorInfo& tensor : reader.tensors()) {
    std::vector<float>& values = found[tensor.name];
    values.resize(tensor.size_bytes / sizeof(float));
    targets.push_back({.name = tensor.name, .memory = std::as_writable_bytes(std::span(values))});
  }
  return reader.read_all(targets);
}

/// To the bit: NaN is not equal to itself.
bool is_same(const std::map<std::string, std::vector<float>>& a,
             const std::map<std::string, std::vector<float>>& b) {
  return std::ranges::equal(a, b, [](const auto& one, const auto& other) {
    const auto& [name, values] = one;
    return name == other.first && values.size() == other.second.size() &&
           (values.empty() ||
            std::memcmp(values.data(), other.second.data(), values.size() * sizeof(float)) == 0);
  });
}

/// Reads a checkpoint whole and says which of `candidates` it is.
Result<SavedStep> identify(const CheckpointPlace& place, const CatalogStep& step,
                           const std::set<SavedStep>& candidates) {
  STOKER_ASSIGN(
      const CheckpointReader reader,
      CheckpointReader::open(place.ops, place.directory + "/" + step.name, reader_options(place)));
  std::map<std::string, std::vector<float>> found;
  STOKER_TRY(read_step(reader, found));
  for (const SavedStep& saved : candidates)
    if (saved.step == step.parsed.step &&
        is_same(found, contents_of_step(saved, place.value_count)))
      return saved;
  return Status(Code::corrupt, "its tensors are none that were saved");
}

/// What is there, by what was saved: the generation of each.
using Present = std::map<SavedStep, std::uint64_t>;

/// Rules 1 and 2.
std::string check_present(const CheckpointPlace& place, const Promises& promises,
                          Present& present) {
  const Result<CheckpointDirectory> directory =
      CheckpointDirectory::open(place.ops, place.directory);
  if (directory.status().code() == Code::not_found && promises.acknowledged.empty()) return "";
  const Result<Catalog> catalog =
      directory.ok() ? list_checkpoints(*directory) : Result<Catalog>(directory.status());
  if (!catalog.ok()) return "cannot be listed: " + std::string(catalog.status().message());
  for (const CatalogStep& step : catalog->steps) {
    const Result<SavedStep> saved = identify(place, step, promises.began);
    if (!saved.ok()) return step.name + " is damaged: " + std::string(saved.status().message());
    present[*saved] = std::max(present[*saved], step.generation);
  }
  const auto is_missing = [&](const SavedStep& saved) {
    return !present.contains(saved) && !promises.aside.contains(saved);
  };
  for (const SavedStep& saved : promises.acknowledged)
    if (is_missing(saved)) return "the acknowledged " + step_name(saved.step) + " is gone";
  for (const SavedStep& saved : promises.pinned)
    if (is_missing(saved)) return "the pinned " + step_name(saved.step) + " is gone";
  return "";
}

/// The rest of rule 1: no file too many, headers and manifests agree. Nothing that is written after
/// a cut touches a checkpoint that is there, so this is looked at once, at the end.
std::string check_verified(const CheckpointPlace& place) {
  const Result<CheckpointVerifyReport> verified =
      verify_checkpoints(opened(place.directory, place.ops), {.reader = reader_options(place)});
  if (!verified.ok()) return "verify: " + std::string(verified.status().message());
  for (const CheckpointDamage& damage : verified->damages)
    if (damage.kind != DamageKind::bad_latest)  // rule 4
      return damage.step + "/" + damage.file + ": " + std::string(damage_kind_name(damage.kind)) +
             ", " + damage.reason;
  return "";
}

/// Rules 3 and 4. All that is present was read to the bit by now.
std::string check_newest(const CheckpointPlace& place, const Promises& promises,
                         const Present& present) {
  if (promises.newest.step == 0) return "";
  std::uint64_t generation = 0;
  const CheckpointDirectory directory = opened(place.directory, place.ops);
  const Result<RestoreChoice> choice =
      choose_checkpoint({.directory = directory, .reader = reader_options(place)},
                        [&](const CheckpointReader& reader) {
                          generation = reader.manifest().generation;
                          return Status();
                        });
  if (!choice.ok()) return "restore: " + std::string(choice.status().message());
  if (!choice->passed_over.empty()) return "restore passed over " + choice->passed_over[0].name;
  const auto newest = present.find(promises.newest);
  const std::uint64_t acknowledged = newest == present.end() ? 0 : newest->second;
  if (generation < acknowledged) return "restore took an older one than was acknowledged";
  const Result<std::string> latest = place.ops.read_link(directory.at(kLatestName));
  const std::string name = latest.ok() ? *latest : "";
  const std::optional<StepName> named = parse_step_name(name);
  const Result<CheckpointManifest> led_to = read_checkpoint_manifest(place.ops, directory.at(name));
  if (!named || !led_to.ok()) return "latest leads nowhere: " + name;
  if (led_to->generation < acknowledged && !promises.left.contains(promises.newest))
    return "latest leads to an older one: " + name;
  return "";
}

std::string check_all(const CheckpointPlace& place, const Promises& promises) {
  Present present;
  std::string wrong = check_present(place, promises, present);
  return wrong.empty() ? check_newest(place, promises, present) : wrong;
}

/// What nobody needs, and no sweep has taken. Empty if there is nothing.
std::string find_left_over(const CheckpointPlace& place, const Promises& promises) {
  const Result<std::vector<std::string>> names = place.ops.list(place.directory);
  if (!names.ok()) return std::string(names.status().message());
  std::size_t epoch_count = 0;
  for (const std::string& name : *names) {
    epoch_count += parse_epoch_name(name) ? 1U : 0U;
    const bool is_known = name == kLockName || name == kCatalogName || name == kLatestName ||
                          name == kNotesName || parse_epoch_name(name) || parse_step_name(name) ||
                          (promises.has_ranks && is_meeting_name(name));
    if (!is_known) return name;
  }
  if (epoch_count != 1) return std::to_string(epoch_count) + " epochs of the lock";
  const Result<std::vector<std::string>> notes =
      place.ops.list(place.directory + "/" + std::string(kNotesName));
  if (!notes.ok()) return "";  // nobody has said anything
  for (const std::string& name : *notes)
    if (name != ".lock" && (!name.starts_with("step-") || !name.ends_with(".json")))
      return std::string(kNotesName) + "/" + name;
  return "";
}

std::string save_next(const CheckpointPlace& place, const SavedStep& saved,
                      const CrashSaver::Options& options, Promises& promises) {
  CrashSaver next(place, {}, options);
  Status status = next.save(saved);
  if (status.ok()) status = next.close();
  if (!status.ok()) return "the next save failed: " + std::string(status.message());
  promises.began.insert(saved);
  promises.acknowledged.insert(saved);
  promises.newest = saved;
  promises.aside.clear();
  return "";
}

/// Rule 5.
std::string check_next_save(const CheckpointPlace& place, const Promises& promises) {
  Promises after = promises;
  std::string wrong = save_next(place, kNext, {.token = "next", .boot = "next"}, after);
  if (!wrong.empty()) return wrong;
  wrong = check_all(place, after);
  if (wrong.empty()) wrong = check_verified(place);
  if (!wrong.empty()) return "after the next save: " + wrong;
  const std::string left_over = find_left_over(place, after);
  if (!left_over.empty()) return "left over: " + left_over;
  if (after.pinned.empty()) return "";
  after.acknowledged.clear();
  const RetentionRules rules{.keep_last = 1};
  wrong = save_next(place, kLast, {.token = "last", .boot = "next", .retention = rules}, after);
  if (wrong.empty()) wrong = check_all(place, after);
  return wrong.empty() ? "" : "after a save that keeps one: " + wrong;
}

}  // namespace

std::map<std::string, std::vector<float>> contents_of_step(const SavedStep& saved,
                                                           std::size_t value_count) {
  std::vector<float> changing(value_count);
  for (std::size_t i = 0; i < changing.size(); ++i)
    changing[i] = static_cast<float>(saved.step * 10 + static_cast<std::uint64_t>(saved.version)) +
                  static_cast<float>(i) / 4096;
  if (saved.version == kNonfiniteVersion)
    changing.front() = std::numeric_limits<float>::quiet_NaN();
  return {{"changing", changing}, {"frozen", std::vector<float>(700, 0.5F)}};
}

class CrashSaver::NotingFileOps final : public ForwardingFileOps {
 public:
  NotingFileOps(FileOps& target, CrashSaver& saver) : ForwardingFileOps(target), saver_(saver) {}

  void began(const SavedStep& saved) {
    const MutexLock lock(mutex_);
    begun_.push_back(saved);
  }
  void failed(const SavedStep& saved) {
    const MutexLock lock(mutex_);
    std::erase(begun_, saved);
  }
  void reached(std::string_view point) override {
    ForwardingFileOps::reached(point);
    if (point != (saver_.acknowledge_early_ ? "checkpoint.written" : "checkpoint.acknowledged"))
      return;
    const MutexLock lock(mutex_);
    saver_.note("acknowledged", begun_.front());
    begun_.pop_front();
  }

 private:
  CrashSaver& saver_;
  Mutex mutex_;
  std::deque<SavedStep> begun_ STOKER_GUARDED_BY(mutex_);
};

CrashSaver::~CrashSaver() = default;

CrashSaver::CrashSaver(ModelDisk& disk, FileOps& ops, CutRun* run, const Options& options)
    : CrashSaver(
          CheckpointPlace::on(disk, ops),
          run == nullptr ? Note() : [run](const std::string& mark) { run->note(mark); }, options) {}

CrashSaver::CrashSaver(const CheckpointPlace& place, Note note, const Options& options)
    : note_(std::move(note)),
      ops_(std::make_unique<NotingFileOps>(place.ops, *this)),
      value_count_(place.value_count),
      acknowledge_early_(options.acknowledge_early),
      coordinator_(options.coordinator) {
  SaverOptions made;
  made.directory = place.directory;
  made.copy_threads = 1;
  made.in_flight = options.in_flight;
  made.group_limits.group_bytes_min = 1;  // ours are small, and are to be linked
  made.coordinator = options.coordinator;
  made.parent = options.parent;
  made.lock.ttl = nanoseconds(0);
  made.lock.token = options.token;
  made.lock.machine = Machine{.host = "here", .boot_id = options.boot};
  // Who was there before the power was cut is watched until it counts as dead. Time passes when
  // somebody waits.
  made.lock.timeout = std::chrono::hours(1);
  made.lock.now = [this] { return now_; };
  made.lock.pause = [this](nanoseconds time) { now_ += time; };
  made.file.policy = options.policy;
  made.ops = ops_.get();
  made.engine = place.engine;
  made.now_s = [] { return 1e9; };
  if (!options.is_room_checked)
    made.free_bytes = [](const std::string&) -> Result<std::uint64_t> {
      return std::uint64_t{1} << 40;
    };
  made.retention = options.retention;
  Result<std::unique_ptr<CheckpointSaver>> saver = CheckpointSaver::make(std::move(made));
  EXPECT_TRUE(saver.ok()) << saver.status().message();
  saver_ = *std::move(saver);
}

void CrashSaver::note(const char* what, const SavedStep& saved) {
  const MutexLock lock(note_mutex_);
  if (note_) note_(mark_of(what, saved));
}

std::string mark_of(const char* what, const SavedStep& saved) {
  return std::string(what) + " " + std::to_string(saved.step) + " " + std::to_string(saved.version);
}

void note_may_go(CutRun& run, const SavedStep& saved) {
  run.note(mark_of("may go", saved));
}

SaveRequest CrashSaver::request_of(
    const SavedStep& saved, const std::map<std::string, std::vector<float>>& contents) const {
  const std::uint32_t rank = coordinator_ == nullptr ? 0 : coordinator_->rank();
  const std::uint32_t ranks = coordinator_ == nullptr ? 1 : coordinator_->world_size();
  SaveRequest request;
  request.step = saved.step;
  for (const auto& [name, values] : contents) {
    const bool is_frozen = name == "frozen";
    if (is_frozen && rank + 1 != ranks) continue;
    const std::size_t begin = is_frozen ? 0 : values.size() * rank / ranks;
    const std::size_t end = is_frozen ? values.size() : values.size() * (rank + 1) / ranks;
    SaveTensor tensor;
    tensor.name = name;
    tensor.shape = {end - begin};
    if (end - begin < values.size()) {
      tensor.global_shape = {values.size()};
      tensor.offsets = {begin};
    }
    tensor.data = std::as_bytes(std::span(values).subspan(begin)).data();
    tensor.likely_unchanged = is_frozen;
    request.tensors.push_back(std::move(tensor));
  }
  return request;
}

Status CrashSaver::begin(const SavedStep& saved) {
  note("began", saved);
  const auto contents = contents_of_step(saved, value_count_);
  ops_->began(saved);
  Result<PendingSave> pending = saver_->save(request_of(saved, contents));
  if (!pending.ok()) {
    ops_->failed(saved);
    return pending.status();
  }
  pending_.emplace_back(saved, *std::move(pending));
  return {};
}

Status CrashSaver::finish() {
  const auto [saved, pending] = pending_.front();
  pending_.pop_front();
  const Status status = pending.wait();
  if (!pending.is_durable()) ops_->failed(saved);
  if (status.message().find("`latest` did not move") != std::string_view::npos) left_ = saved;
  STOKER_TRY(status);
  generation_ = pending.generation();
  return pending_.empty() ? saver_->wait() : Status();
}

Status CrashSaver::save(const SavedStep& saved) {
  STOKER_TRY(begin(saved));
  return finish();
}

Status CrashSaver::close() {
  Status status = saver_->close();  // and its writer is gone, which notes the others
  if (left_) note("left", *left_);
  return status;
}

std::uint64_t save_on_ranks(const CheckpointPlace& place, const CrashSaver::Note& note,
                            const RanksPlan& plan) {
  Mutex mutex;
  std::set<std::string> noted;
  const auto note_once = [&](const std::string& mark) {
    const MutexLock lock(mutex);
    if (noted.insert(mark).second) note(mark);
  };
  note_once("ranks");
  std::uint64_t generation = 0;
  const auto work = [&](std::uint32_t rank) {
    FileOps& ops = plan.ops ? plan.ops(rank) : place.ops;
    Result<CheckpointDirectory> directory = CheckpointDirectory::make(ops, place.directory);
    EXPECT_TRUE(directory.ok()) << directory.status().message();
    Result<std::unique_ptr<Coordinator>> coordinator =
        make_shared_directory_coordinator({.place = *std::move(directory),
                                           .word = plan.session,
                                           .session = plan.session,
                                           .rank = rank,
                                           .world_size = plan.rank_count});
    EXPECT_TRUE(coordinator.ok()) << coordinator.status().message();
    CrashSaver saver({.ops = ops,
                      .engine = place.engine,
                      .directory = place.directory,
                      .value_count = place.value_count},
                     note_once,
                     {.token = plan.session,
                      .parent = plan.parent,
                      .retention = plan.retention,
                      .policy = plan.policy,
                      .coordinator = std::shared_ptr<Coordinator>(*std::move(coordinator))});
    for (std::size_t i = 0; i < plan.saves.size(); ++i) {
      const std::size_t keep = plan.retention.keep_last.value_or(plan.saves.size());
      if (i >= keep) note_once(mark_of("may go", plan.saves[i - keep]));
      const Status saved = saver.save(plan.saves[i]);
      EXPECT_TRUE(saved.ok()) << saved.message();
    }
    const Status closed = saver.close();
    EXPECT_TRUE(closed.ok()) << closed.message();
    if (rank == 0) generation = saver.generation();
  };
  {
    std::vector<std::jthread> ranks;
    for (std::uint32_t rank = 0; rank < plan.rank_count; ++rank)
      ranks.emplace_back([&work, rank] { work(rank); });
  }
  return generation;
}

std::string checkpoints_hold(ModelDisk& disk, const CutPoint& point) {
  return checkpoints_hold_in(CheckpointPlace::on(disk, disk), point);
}

std::string checkpoints_hold_in(const CheckpointPlace& place, const CutPoint& point) {
  const Promises promises = promises_of(point);
  const std::string wrong = check_all(place, promises);
  return wrong.empty() ? check_next_save(place, promises) : wrong;
}

}  // namespace stoker::testing
