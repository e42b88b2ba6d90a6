// Somebody who may write to a directory of checkpoints has put something else in the place of a
// name that we use: a link to outside, a FIFO, a directory, a file. Whatever is done with the
// directory then, nothing outside changes, nothing waits, and errors say where (Q10 in
// docs/durability.md).
#include <fcntl.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/catalog/step_removal.h"
#include "checkpoint/directory/meeting_sweep.h"
#include "checkpoint/directory/writer_lock.h"
#include "checkpoint/inspect/export.h"
#include "checkpoint/inspect/verify.h"
#include "checkpoint/ranks/meeting.h"
#include "checkpoint/restore/restore_choice.h"
#include "checkpoint/save_support.h"
#include "io/files/forwarding_file_ops.h"
#include "support/in_child.h"
#include "support/temp_dir.h"
#include "support/tree_snapshot.h"

namespace stoker::testing {
namespace {

namespace fs = std::filesystem;

/// What is put in the place of a name.
enum class Plant : std::uint8_t {
  link_to_file,
  link_to_directory,
  link_to_itself_outside,  ///< What had the name is outside now, and the name leads there.
  dangling_link,
  fifo,
  directory,
  file,
};
constexpr std::array kPlants = {Plant::link_to_file,
                                Plant::link_to_directory,
                                Plant::link_to_itself_outside,
                                Plant::dangling_link,
                                Plant::fifo,
                                Plant::directory,
                                Plant::file};
constexpr std::array kPlantNames = {"a link to a file",
                                    "a link to a directory",
                                    "a link to its own self outside",
                                    "a dangling link",
                                    "a FIFO",
                                    "a directory",
                                    "a file"};

const char* text_of(Plant plant) {
  return kPlantNames.at(static_cast<std::size_t>(plant));
}

bool is_plain(Plant plant) {
  return plant == Plant::directory || plant == Plant::file;
}

constexpr const char* kToken = "writer";  // ours, so that all names are known
constexpr std::uint64_t kSteps = 4;       // that are there; 1 is pinned, 4 is the newest
constexpr std::uint64_t kNew = 5;         // is saved
constexpr std::uint64_t kAgain = 4;       // is saved again by a rewound run

/// Every name below a directory of checkpoints, those that this version makes and those that it
/// only sweeps.
std::vector<std::string> all_names() {
  const auto aside = [](AsideName::Purpose purpose, std::uint64_t step) {
    return aside_name({.purpose = purpose,
                       .step = StepName{.step = step, .superseded_generation = {}},
                       .generation = step});
  };
  std::vector<std::string> names = {
      std::string(kLockName),
      epoch_name(1),  // of the writer before
      epoch_name(2),  // of the next
      epoch_name(9),
      epoch_claim_name(kToken),
      epoch_claim_name("other"),
      std::string(kCatalogName),
      std::string(kLatestName),
      std::string(kNotesName),
      "notes/.lock",
      note_path(1),
      note_path(3),
      note_path(2) + ".staged-1-1",
      owner_name(kToken),
      owner_name("dead"),
      ".trash-step-1-x",
      meeting_name("job"),
      superseded_name(2, 9),
      superseded_name(kAgain, kSteps),  // that the rewound run gives
      step_name(kNew),
      step_name(7),
  };
  for (const char* name : {"claim-0-dead", "claim-1-dead", "welcome-dead", "ready-1-dead",
                           "refused-1-dead", "message-dead-begin-1-0", "staged-claim-dead"})
    names.push_back(meeting_name("job") + "/" + name);
  for (const std::string& name :
       {aside(AsideName::Purpose::retire, 8), aside(AsideName::Purpose::keep, 8), remove_name("x"),
        taken_name("x"), std::string("step-000000000008-1"), std::string("latest"),
        std::string("catalog"), std::string("linked-x"), std::string("unknown")})
    names.push_back(owner_name("dead") + "/" + name);
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    names.push_back(step_name(step));
    for (const std::string& file : {std::string(kManifestName), rank_file_name(0),
                                    group_file_name(0, 0), std::string("foreign")})
      names.push_back(step_name(step) + "/" + file);
  }
  return names;
}

std::vector<OwnedTensor> tensors_of(std::uint64_t step) {
  return {counted("w", 200, static_cast<float>(step)), counted("frozen", 300, 0)};
}

SaveRequest hinted_request(std::uint64_t step, const std::vector<OwnedTensor>& tensors) {
  SaveRequest request = request_of(step, tensors);
  request.tensors[1].likely_unchanged = true;
  return request;
}

SaverOptions planted_options(const std::string& directory) {
  SaverOptions options = quiet_options(directory);
  options.copy_threads = 1;
  options.group_limits.group_bytes_min = 1;
  options.lock.token = kToken;
  return options;
}

CheckpointReader::Options reader_options() {
  CheckpointReader::Options options;
  options.file.policy = CachePolicy::buffered;
  options.engine = engine_of(EngineKind::sync);
  options.thread_count = 1;
  return options;
}

/// Four checkpoints, of which the first is pinned and the third annotated.
void make_template(const std::string& directory) {
  const auto saver = make_saver(planted_options(directory));
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    const std::vector<OwnedTensor> tensors = tensors_of(step);
    const Result<PendingSave> pending = saver->save(hinted_request(step, tensors));
    ASSERT_TRUE(pending.ok() && pending->wait().ok());
  }
  ASSERT_TRUE(saver->close().ok());
  const CheckpointDirectory opened_directory = opened(directory);
  ASSERT_TRUE(pin_checkpoint(opened_directory, 1, 1, true).ok());
  ASSERT_TRUE(annotate_checkpoint(opened_directory, 3, 3, {{"loss", 1.0}}).ok());
}

/// One name, and what is in its place. Everything is tried in a child: it may hang or crash.
class PlantedCase {
 public:
  PlantedCase(const std::string& made, std::string name, Plant plant,
              FileOps& ops = posix_file_ops())
      : name_(std::move(name)), plant_(plant), ops_(ops) {
    fs::copy(made, dir(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    for (const char* file : {"file", "manifest.json", ".lock", "claim-0-dead", "remove-x/file",
                             "step-000000000003.json", "step-000000000002.json.staged-1-1",
                             "retire-000000000008-8/manifest.json", "latest", "catalog"}) {
      fs::create_directories(fs::path(outside(file)).parent_path());
      std::ofstream(outside(file)) << "precious";
    }
    plant_it();
    before_ = snapshot_of(outside());
  }

  /// 0, or the failures were told on the standard error output.
  int run() {
    SCOPED_TRACE(name_ + " is " + text_of(plant_));
    look("list", [&] { return list_checkpoints(directory()).status(); });
    look("verify",
         [&] { return verify_checkpoints(directory(), {.reader = reader_options()}).status(); });
    look("notes", [&] { return read_all_notes(directory()).status(); });
    look("restore", [&] { return restore(); });
    look("export", [&] { return export_newest(); });
    look("meet", [&] { return meet(); });
    look("annotate", [&] { return annotate_checkpoint(directory(), 3, 3, {{"loss", 0.5}}); });
    look("pin", [&] { return pin_checkpoint(directory(), 2, 2, true); });
    look("prune", [&] { return prune(); });
    look("save", [&] { return save(kNew, {.keep_last = 2}, {}); });
    look("rewind", [&] { return save(kAgain, {}, CheckpointParent{.step = 1, .generation = 1}); });
    look("sweep meetings", [&] { return sweep_meetings(); });
    expect_plant_there();
    expect_recovers();
    return ::testing::Test::HasFailure() ? 1 : 0;
  }

 private:
  std::string dir() const { return root_.file("run"); }
  std::string outside(const std::string& name = "") const {
    return root_.file("outside" + (name.empty() ? "" : "/" + name));
  }
  std::string planted() const { return dir() + "/" + name_; }
  CheckpointDirectory directory() const { return opened(dir(), ops_); }

  void plant_it() {
    fs::create_directories(fs::path(planted()).parent_path());
    if (plant_ == Plant::link_to_itself_outside) {
      if (fs::exists(fs::symlink_status(planted()))) {
        fs::rename(planted(), outside("itself"));
      } else {
        std::ofstream(outside("itself")) << "precious";
      }
      fs::create_symlink(outside("itself"), planted());
      return;
    }
    fs::remove_all(planted());
    switch (plant_) {
      case Plant::link_to_file: fs::create_symlink(outside("file"), planted()); break;
      case Plant::link_to_directory: fs::create_symlink(outside(), planted()); break;
      case Plant::dangling_link: fs::create_symlink(outside("none"), planted()); break;
      case Plant::fifo: ASSERT_EQ(::mkfifo(planted().c_str(), 0600), 0); break;
      case Plant::directory:
        fs::create_directory(planted());
        std::ofstream(planted() + "/file") << "something";
        break;
      case Plant::file: std::ofstream(planted()) << "something"; break;
      case Plant::link_to_itself_outside: break;
    }
  }

  /// It may fail, and then says where; and nothing outside has changed.
  void look(const char* what, const std::function<Status()>& body) {
    SCOPED_TRACE(what);
    const Status status = body();
    if (!status.ok()) {
      EXPECT_NE(status.message().find(dir()), std::string_view::npos)
          << "names no path: " << status.message();
    }
    EXPECT_EQ(difference_of(before_, snapshot_of(outside())), "") << status.message();
  }

  Status restore() const {
    return choose_checkpoint({.directory = directory(), .reader = reader_options()},
                             [](const CheckpointReader& reader) { return read_whole(reader); })
        .status();
  }
  static Status read_whole(const CheckpointReader& reader) {
    std::vector<std::vector<std::byte>> memories;
    std::vector<ReadTarget> targets;
    for (const TensorInfo& tensor : reader.tensors()) {
      memories.emplace_back(tensor.size_bytes);
      targets.push_back({.name = tensor.name, .memory = memories.back()});
    }
    return reader.read_all(targets);
  }
  Status export_newest() {
    STOKER_ASSIGN(const Catalog catalog, list_checkpoints(directory()));
    for (const CatalogStep& step : catalog.steps) {
      const std::string path = root_.file("exported-" + step.name + ".safetensors");
      STOKER_ASSIGN(const CheckpointReader reader,
                    CheckpointReader::open(directory(), step.name, reader_options()));
      STOKER_TRY(export_safetensors(reader, posix_file_ops(), path, {}).status());
    }
    return {};
  }
  Status meet() const {
    return Meeting::meet({.place = directory(),
                          .word = "job",
                          .rank = 0,
                          .world_size = 1,
                          .ttl = nanoseconds(0),
                          .settle = nanoseconds(0)},
                         deadline_after(std::chrono::milliseconds(1)))
        .status();
  }
  LockOptions lock_options() const {
    LockOptions options;
    options.ttl = nanoseconds(0);
    options.timeout = std::chrono::seconds(1);
    options.token = kToken;
    return options;
  }
  Status prune() const {
    STOKER_ASSIGN(const auto lock, WriterLock::acquire(directory(), lock_options()));
    STOKER_ASSIGN(const Catalog catalog, list_checkpoints(directory()));
    for (const CatalogStep& step : catalog.steps)
      if (step.parsed.step == 3 && step.is_valid())
        STOKER_TRY(remove_checkpoint(lock->owner(), step).status());
    return {};
  }
  Status save(std::uint64_t step, const RetentionRules& rules,
              const std::optional<CheckpointParent>& parent) const {
    SaverOptions options = planted_options(dir());
    options.ops = &ops_;
    options.retention = rules;
    options.parent = parent;
    options.lock.timeout = std::chrono::seconds(1);
    const auto saver = make_saver(std::move(options));
    const std::vector<OwnedTensor> tensors = tensors_of(step + 100);
    STOKER_ASSIGN(const PendingSave pending, saver->save(hinted_request(step, tensors)));
    Status status = pending.wait();
    if (pending.is_durable()) {
      const std::string path = dir() + "/" + step_name(step);
      EXPECT_TRUE(fs::is_directory(fs::symlink_status(path))) << path;
      expect_whole(path);
    }
    static_cast<void>(saver->close());
    return status;
  }
  Status sweep_meetings() const {
    STOKER_ASSIGN(const auto lock, WriterLock::acquire(directory(), lock_options()));
    MeetingSweep sweep(lock->owner(), std::chrono::seconds(1));
    for (int i = 0; i < 10; ++i) sweep.look(Clock::now() + std::chrono::seconds(i));
    return {};
  }

  /// What is no file or directory is never removed where a file or directory should be, unless it
  /// is replaced by a rename; nor is what lies below it followed.
  void expect_plant_there() const {
    const bool is_swept =
        name_.starts_with(owner_name("dead") + "/") ||
        name_.starts_with(meeting_name("job") + "/") || name_.starts_with(step_name(3) + "/") ||
        name_.starts_with(step_name(2) + "/") || name_.starts_with(step_name(4) + "/");
    const bool is_replaced =
        name_ == kLatestName || name_ == kCatalogName || name_ == epoch_claim_name(kToken);
    if (is_plain(plant_) || is_swept || is_replaced) return;
    EXPECT_TRUE(fs::exists(fs::symlink_status(planted()))) << "was removed";
  }

  /// Once it is taken away saving works, and what was pinned is there.
  void expect_recovers() {
    SCOPED_TRACE("afterwards");
    std::error_code ignored;
    fs::remove_all(planted(), ignored);
    const Status saved = save(200, {.keep_last = 1}, {});
    EXPECT_TRUE(saved.ok()) << saved.message();
    if (name_.starts_with(step_name(1)) || name_ == note_path(1) || name_ == kNotesName) return;
    EXPECT_TRUE(fs::exists(dir() + "/" + step_name(1) + "/manifest.json")) << "the pinned one";
    expect_whole(dir() + "/" + step_name(1));
  }

  const TempDir root_{fast_parent()};
  const std::string name_;
  const Plant plant_;
  FileOps& ops_;
  TreeSnapshot before_;
};

class PlantedNamesTest : public ::testing::TestWithParam<Plant> {};

TEST_P(PlantedNamesTest, lead_nowhere_and_hold_nobody_up) {
  const TempDir made(fast_parent());
  make_template(made.path());
  const std::vector<std::string> names = all_names();
  for (const std::string& name : names) {
    PlantedCase planted(made.path(), name, GetParam());
    const ChildEnd end = in_child([&] { return planted.run(); });
    EXPECT_EQ(end.exit_code, 0) << name << " is " << text_of(GetParam()) << "; signal "
                                << end.signal;
  }
  std::printf("%s in the place of %zu names\n", text_of(GetParam()), names.size());
  RecordProperty("names", static_cast<int>(names.size()));
}

/// Looks names up as they are written, links included: a mutant.
class FollowingFileOps final : public ForwardingFileOps {
 public:
  FollowingFileOps() : ForwardingFileOps(posix_file_ops()) {}
  Result<UniqueFd> open(const PathAt& path, int flags) override {
    return ForwardingFileOps::open(path.text(), flags & ~O_NOFOLLOW);
  }
  Status rename(const PathAt& from, const PathAt& to) override {
    return ForwardingFileOps::rename(from.text(), to.text());
  }
  Status unlink(const PathAt& path) override { return ForwardingFileOps::unlink(path.text()); }
  Result<std::vector<DirectoryName>> list_names(const PathAt& path) override {
    return ForwardingFileOps::list_names(path.text());
  }
};

TEST(PlantedNamesMutantTest, calls_that_follow_links_are_found_out) {
  const TempDir made(fast_parent());
  make_template(made.path());
  FollowingFileOps following;
  for (const std::string& name : {std::string(kNotesName), meeting_name("job")}) {
    PlantedCase planted(made.path(), name, Plant::link_to_directory, following);
    const ChildEnd end = in_child([&] {
      ::testing::TestPartResultArray failures;
      const ::testing::ScopedFakeTestPartResultReporter reporter(
          ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &failures);
      static_cast<void>(planted.run());
      return failures.size() > 0 ? 1 : 0;
    });
    EXPECT_EQ(end.exit_code, 1) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PlantedNamesTest, ::testing::ValuesIn(kPlants),
                         [](const auto& named) {
                           std::string text = text_of(named.param);
                           std::ranges::replace(text, ' ', '_');
                           return text;
                         });

}  // namespace
}  // namespace stoker::testing
