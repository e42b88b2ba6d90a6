#include "crash/checkpoint_crash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "checkpoint/catalog.h"
#include "checkpoint/names.h"
#include "checkpoint/restore_choice.h"
#include "checkpoint/step_removal.h"
#include "checkpoint/verify.h"

namespace stoker::testing {
namespace {

constexpr SavedStep kNext{.step = 1000, .version = 9};

CheckpointReader::Options reader_options(ModelDisk& disk) {
  CheckpointReader::Options options;
  options.file.policy = CachePolicy::buffered;
  options.engine = [&disk] { return disk.make_engine({.depth = 8}); };
  options.thread_count = 1;
  return options;
}

/// What the marks promise.
struct Promises {
  std::set<SavedStep> began;
  std::set<SavedStep> acknowledged;  ///< Less those that may go.
  SavedStep newest;                  ///< The last acknowledged one.
};

Promises promises_of(const CutPoint& point) {
  Promises promises;
  for (const std::string& mark : point.marks) {
    std::istringstream text(mark);
    std::string verb;
    SavedStep saved;
    text >> verb;
    if (verb == "may") text >> verb;
    text >> saved.step >> saved.version;
    if (verb == "began") promises.began.insert(saved);
    if (verb == "acknowledged") {
      promises.acknowledged.insert(saved);
      promises.newest = saved;
    }
  }
  for (const std::string& mark : point.marks) {
    std::istringstream text(mark);
    std::string may;
    std::string go;
    SavedStep saved;
    if (text >> may >> go >> saved.step >> saved.version && may == "may")
      promises.acknowledged.erase(saved);
  }
  return promises;
}

Status read_step(const CheckpointReader& reader, std::map<std::string, std::vector<float>>& found) {
  std::vector<ReadTarget> targets;
  for (const TensorInfo& tensor : reader.tensors()) {
    std::vector<float>& values = found[tensor.name];
    values.resize(tensor.size_bytes / sizeof(float));
    targets.push_back(
        {.name = tensor.name, .data = std::as_writable_bytes(std::span(values)).data()});
  }
  return reader.read_all(targets);
}

/// Reads a checkpoint whole and says which of `candidates` it is.
Result<SavedStep> identify(ModelDisk& disk, const CatalogStep& step,
                           const std::set<SavedStep>& candidates) {
  STOKER_ASSIGN(
      const CheckpointReader reader,
      CheckpointReader::open(disk, kRunDirectory + "/" + step.name, reader_options(disk)));
  std::map<std::string, std::vector<float>> found;
  STOKER_TRY(read_step(reader, found));
  for (const SavedStep& saved : candidates)
    if (saved.step == step.parsed.step && found == contents_of_step(saved)) return saved;
  return Status(Code::corrupt, "its tensors are none that were saved");
}

/// Rules 1 and 2.
std::string check_present(ModelDisk& disk, const std::set<SavedStep>& began,
                          const std::set<SavedStep>& acknowledged) {
  const Result<Catalog> catalog = list_checkpoints(disk, kRunDirectory);
  if (!catalog.ok())
    return acknowledged.empty() && catalog.status().code() == Code::not_found
               ? ""
               : "cannot be listed: " + std::string(catalog.status().message());
  std::set<SavedStep> found;
  for (const CatalogStep& step : catalog->steps) {
    const Result<SavedStep> saved = identify(disk, step, began);
    if (!saved.ok()) return step.name + " is damaged: " + std::string(saved.status().message());
    found.insert(*saved);
  }
  for (const SavedStep& saved : acknowledged)
    if (!found.contains(saved)) return "the acknowledged " + step_name(saved.step) + " is gone";
  const Result<CheckpointVerifyReport> verified =
      verify_checkpoints(disk, kRunDirectory, {.reader = reader_options(disk)});
  if (!verified.ok()) return "verify: " + std::string(verified.status().message());
  for (const CheckpointDamage& damage : verified->damages)
    if (damage.kind != DamageKind::bad_latest)  // rule 4
      return damage.step + "/" + damage.file + ": " + std::string(damage_kind_name(damage.kind)) +
             ", " + damage.reason;
  return "";
}

/// Rules 3 and 4.
std::string check_newest(ModelDisk& disk, const Promises& promises) {
  if (promises.newest.step == 0) return "";
  std::uint64_t generation = 0;
  const Result<RestoreChoice> choice =
      choose_checkpoint({.ops = disk, .directory = kRunDirectory, .reader = reader_options(disk)},
                        [&](const CheckpointReader& reader) {
                          std::map<std::string, std::vector<float>> found;
                          generation = reader.manifest().generation;
                          return read_step(reader, found);
                        });
  if (!choice.ok()) return "restore: " + std::string(choice.status().message());
  if (!choice->passed_over.empty()) return "restore passed over " + choice->passed_over[0].name;
  const Result<Catalog> catalog = list_checkpoints(disk, kRunDirectory);
  if (!catalog.ok()) return "cannot be listed";
  std::uint64_t acknowledged = 0;
  for (const CatalogStep& step : catalog->steps) {
    const Result<SavedStep> saved = identify(disk, step, promises.began);
    if (saved.ok() && *saved == promises.newest) acknowledged = step.generation;
  }
  if (generation < acknowledged) return "restore took an older one than was acknowledged";
  const CatalogStep* latest = catalog->find(catalog->latest);
  const std::optional<StepName> named = parse_step_name(catalog->latest);
  const bool is_saved_again =  // and what had its name is superseded
      named && std::ranges::count(promises.began, named->step, &SavedStep::step) > 1 &&
      promises.newest.version == 1;
  if (latest == nullptr) return is_saved_again ? "" : "latest leads nowhere: " + catalog->latest;
  if (latest->generation < acknowledged) return "latest leads to an older one: " + latest->name;
  return "";
}

/// Rule 5.
std::string check_next_save(ModelDisk& disk, const Promises& promises) {
  CrashSaver next(disk, disk, nullptr, {.token = "next"});
  Status status = next.save(kNext);
  if (status.ok()) status = next.close();
  if (!status.ok()) return "the next save failed: " + std::string(status.message());
  Promises after = promises;
  after.began.insert(kNext);
  after.acknowledged.insert(kNext);
  after.newest = kNext;
  std::string wrong = check_present(disk, after.began, after.acknowledged);
  if (wrong.empty()) wrong = check_newest(disk, after);
  if (!wrong.empty()) return "after the next save: " + wrong;
  const Result<std::vector<std::string>> names = disk.list(kRunDirectory);
  for (const std::string& name : *names)
    if (is_owner_name(name) || is_trash_name(name)) return "left over: " + name;
  return "";
}

}  // namespace

std::map<std::string, std::vector<float>> contents_of_step(const SavedStep& saved) {
  std::vector<float> changing(1500);
  for (std::size_t i = 0; i < changing.size(); ++i)
    changing[i] = static_cast<float>(saved.step * 10 + static_cast<std::uint64_t>(saved.version)) +
                  static_cast<float>(i) / 4096;
  return {{"changing", changing}, {"frozen", std::vector<float>(700, 0.5F)}};
}

CrashSaver::CrashSaver(ModelDisk& disk, FileOps& ops, CutRun* run, const Options& options)
    : run_(run), acknowledge_early_(options.acknowledge_early) {
  CheckpointerOptions made;
  made.directory = kRunDirectory;
  made.copy_threads = 1;
  made.parent = options.parent;
  made.lock = {.ttl = nanoseconds(0), .token = options.token, .host = "here"};
  made.file.policy = options.policy;
  made.ops = &ops;
  made.engine = [&disk] { return disk.make_engine({.depth = 8}); };
  made.now_s = [] { return 1e9; };
  made.free_bytes = [](const std::string&) -> Result<std::uint64_t> {
    return std::uint64_t{1} << 40;
  };
  if (options.retention)
    made.after_commit = [&ops, rules = *options.retention](const CheckpointManifest&) {
      return apply_retention(ops, kRunDirectory, rules).status();
    };
  Result<std::unique_ptr<Checkpointer>> saver = Checkpointer::make(std::move(made));
  EXPECT_TRUE(saver.ok()) << saver.status().message();
  saver_ = *std::move(saver);
}

void CrashSaver::note(const char* what, const SavedStep& saved) {
  if (run_ == nullptr) return;
  run_->note(what + std::string(" ") + std::to_string(saved.step) + " " +
             std::to_string(saved.version));
}

void note_may_go(CutRun& run, const SavedStep& saved) {
  run.note("may go " + std::to_string(saved.step) + " " + std::to_string(saved.version));
}

Status CrashSaver::save(const SavedStep& saved) {
  note("began", saved);
  const auto contents = contents_of_step(saved);
  SaveRequest request;
  request.step = saved.step;
  for (const auto& [name, values] : contents) {
    SaveTensor tensor;
    tensor.name = name;
    tensor.shape = {values.size()};
    tensor.data = std::as_bytes(std::span(values)).data();
    tensor.likely_unchanged = name == "frozen";
    request.tensors.push_back(std::move(tensor));
  }
  STOKER_ASSIGN(const Pending pending, saver_->save(std::move(request)));
  if (acknowledge_early_) note("acknowledged", saved);
  STOKER_TRY(pending.wait());
  if (!acknowledge_early_) note("acknowledged", saved);
  generation_ = pending.generation();
  return {};
}

std::string checkpoints_hold(ModelDisk& disk, const CutPoint& point) {
  const Promises promises = promises_of(point);
  std::string wrong = check_present(disk, promises.began, promises.acknowledged);
  if (wrong.empty()) wrong = check_newest(disk, promises);
  if (wrong.empty()) wrong = check_next_save(disk, promises);
  return wrong;
}

}  // namespace stoker::testing
