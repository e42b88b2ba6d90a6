#include "checkpoint/staging/dedup.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include "checkpoint/save_support.h"
#include "support/faulty_file_ops.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

using testing::counted;
using testing::OwnedTensor;
using testing::quiet_options;
using testing::request_of;

constexpr std::size_t kCount = 1'500'000;  // more than one chunk

std::uint64_t inode_of(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

/// Saves steps in which `w` changes every time and `frozen` when told.
class FrozenRun {
 public:
  explicit FrozenRun(const SaverOptions& options)
      : directory_(options.directory), saver_(testing::make_saver(options)) {}

  void save(bool changes_frozen = false, bool hint = false) {
    ++step_;
    tensors_[0].values[step_] += 1;
    for (float& value : tensors_[0].values) value += 1;
    if (changes_frozen) tensors_[1].values[12'345] += 1;
    SaveRequest request = request_of(step_, tensors_);
    request.tensors[1].likely_unchanged = hint;
    const Result<PendingSave> pending = saver_->save(request);
    ASSERT_TRUE(pending.ok()) << pending.status().message();
    ASSERT_TRUE(pending->wait().ok()) << pending->wait().message();
    testing::expect_whole(directory());
    const CheckpointManifest saved = manifest();
    for (const CheckpointTensor& tensor : saved.tensors) {
      EXPECT_EQ(
          testing::read_plainly(directory() + "/" + saved.files[tensor.file].name, tensor.name),
          tensors_[tensor.name == "w" ? 0 : 1].values);
    }
  }

  std::string directory() const { return directory_ + "/" + step_name(step_); }
  CheckpointManifest manifest() const { return testing::manifest_in(directory()); }
  /// Of the group's file; -1 if there is no group.
  int link_count() const {
    const CheckpointManifest saved = manifest();
    return saved.files.size() < 2 ? -1 : static_cast<int>(saved.files[1].link_count);
  }

 private:
  std::string directory_;
  std::unique_ptr<CheckpointSaver> saver_;
  std::uint64_t step_ = 0;
  std::vector<OwnedTensor> tensors_{counted("w", kCount, 1), counted("frozen", kCount, 5)};
};

TEST(DedupTest, what_did_not_change_in_two_saves_is_grouped_and_linked_by_the_third) {
  const testing::TempDir dir;
  FrozenRun run(quiet_options(dir.path()));
  std::vector<int> links;
  std::vector<std::uint64_t> inodes;
  for (int i = 0; i < 5; ++i) {
    run.save();
    links.push_back(run.link_count());
    inodes.push_back(inode_of(run.directory() + "/" + group_file_name(0, 0)));
  }
  EXPECT_EQ(links, (std::vector<int>{-1, 0, 1, 2, 3}));
  EXPECT_EQ(inodes[2], inodes[1]);
  EXPECT_EQ(inodes[4], inodes[1]);
}

TEST(DedupTest, a_hint_saves_the_first_two_and_the_seventeenth_link_is_written_anew) {
  const testing::TempDir dir;
  FrozenRun run(quiet_options(dir.path()));
  std::vector<int> links;
  for (int i = 0; i < 19; ++i) {
    run.save(false, true);
    links.push_back(run.link_count());
  }
  EXPECT_EQ(links.front(), 0);
  EXPECT_EQ(links[16], 16);
  EXPECT_EQ(links[17], 0);
  EXPECT_EQ(links[18], 1);
}

TEST(DedupTest, a_tensor_that_changes_after_all_is_written_and_no_longer_trusted) {
  const testing::TempDir dir;
  FrozenRun run(quiet_options(dir.path()));
  run.save(false, true);
  run.save(false, true);
  EXPECT_EQ(run.link_count(), 1);
  run.save(true, true);  // still in its group, but with other bytes
  EXPECT_EQ(run.link_count(), 0);
  run.save(false, true);
  EXPECT_EQ(run.link_count(), -1);
}

TEST(DedupTest, where_there_are_no_links_it_is_written) {
  for (const int error : {EMLINK, EXDEV, EPERM, ENOENT}) {
    class NoLinks final : public testing::FaultyFileOps {
     public:
      explicit NoLinks(int why) : FaultyFileOps(posix_file_ops(), kNever, 0), why_(why) {}
      Status link(const PathAt& from, const PathAt& to) override {
        if (!to.text().ends_with(".safetensors")) return FaultyFileOps::link(from, to);
        return Status::from_errno(why_, "link", to.text());
      }

     private:
      const int why_;
    };
    const testing::TempDir dir;
    NoLinks ops(error);
    SaverOptions options = quiet_options(dir.path());
    options.ops = &ops;
    FrozenRun run(std::move(options));
    run.save(false, true);
    run.save(false, true);
    EXPECT_EQ(run.link_count(), 0);
  }
}

/// What may have become of a committed file behind the writer's back.
using Change = void (*)(const std::string& path);

void resize(const std::string& path, std::uint64_t size_bytes) {
  fs::permissions(path, fs::perms::owner_write, fs::perm_options::add);
  fs::resize_file(path, size_bytes);
}
void write_in_place(const std::string& path) {
  fs::permissions(path, fs::perms::owner_write, fs::perm_options::add);
  std::fstream(path, std::ios::in | std::ios::out).seekp(8192) << "other bytes";
}
void replace_by_other_bytes(const std::string& path) {
  const auto size = fs::file_size(path);
  const auto time = fs::last_write_time(path);
  fs::remove(path);
  std::ofstream(path) << std::string(size, 'x');
  fs::last_write_time(path, time);
}

TEST(DedupTest, a_file_that_is_not_as_it_was_committed_is_written_anew) {
  const std::vector<std::pair<const char*, Change>> changes = {
      {"cut", [](const std::string& path) { resize(path, 100); }},
      {"longer", [](const std::string& path) { resize(path, fs::file_size(path) + 2); }},
      {"written", write_in_place},
      {"replaced", replace_by_other_bytes},
      {"pipe",
       [](const std::string& path) {
         fs::remove(path);
         ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
       }},
      {"link",
       [](const std::string& path) {
         fs::remove(path);
         fs::create_symlink("/etc/passwd", path);
       }},
      {"gone", [](const std::string& path) { fs::remove(path); }},
  };
  for (const auto& [name, change] : changes) {
    SCOPED_TRACE(name);
    const testing::TempDir dir;
    FrozenRun run(quiet_options(dir.path()));
    for (int i = 0; i < 2; ++i) run.save(false, true);
    ASSERT_EQ(run.link_count(), 1);
    change(run.directory() + "/" + group_file_name(0, 0));
    run.save(false, true);  // looks at every byte that it has left on disk
    EXPECT_EQ(run.link_count(), 0);
    run.save(false, true);
    EXPECT_EQ(run.link_count(), 1);
  }
}

TEST(DedupTest, groups_stay_below_their_limit_and_dissolve_when_a_member_is_missing) {
  GroupPlanner planner({.group_bytes_max = 100, .group_bytes_min = 8});
  const std::byte some{};
  std::vector<SaveTensor> tensors;
  for (const char* name : {"a", "b", "c", "d"})
    tensors.push_back({.name = name,
                       .type = TensorType::u8,
                       .shape = {40},
                       .data = &some,
                       .likely_unchanged = true});
  const auto plan = [&] { return planner.plan(tensors, *plan_layout(0, tensors)); };
  const std::vector<std::uint32_t> groups = plan();
  EXPECT_EQ(groups, (std::vector<std::uint32_t>{0, 0, 1, 1}));
  EXPECT_EQ(plan(), groups);
  tensors.erase(tensors.begin());
  EXPECT_EQ(plan(), (std::vector<std::uint32_t>{2, 1, 1}));
  tensors[0].shape = {41};
  EXPECT_EQ(plan(), (std::vector<std::uint32_t>{3, 1, 1}));
}

}  // namespace
}  // namespace stoker
