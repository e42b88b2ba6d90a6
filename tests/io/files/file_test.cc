#include "io/files/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <vector>

#include "io/engine/arena.h"
#include "io/engine/residency.h"
#include "io/files/filesystem.h"
#include "support/faulty_engine.h"
#include "support/faulty_file_ops.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::contents_of;
using testing::FaultyEngine;
using testing::FaultyFileOps;

constexpr std::size_t kFileBytes = (1 << 20) + 1234;  // no block divides it

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    std::mt19937_64 random(3);
    for (char& c : text_) c = static_cast<char>(random());
    std::ofstream(path_, std::ios::binary).write(text_.data(), std::ssize(text_));
    const UniqueFd fd(::open(path_.c_str(), O_RDONLY));
    EXPECT_TRUE(evict(fd.get()).ok());
  }

  static bool is_local_block(const std::string& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY));
    const auto kind = filesystem_of(fd.get());
    return kind.ok() && kind->local_block;
  }
  double resident_share() const {
    const UniqueFd fd(::open(path_.c_str(), O_RDONLY));
    const auto cached = residency(fd.get());
    EXPECT_TRUE(cached.ok()) << cached.status().message();
    return cached.ok() ? cached->share() : -1;
  }
  void warm() const { EXPECT_EQ(contents_of(path_).size(), kFileBytes); }

  testing::TempDir dir_;
  const std::string path_ = dir_.file("data");
  std::string text_ = std::string(kFileBytes, '\0');
  FileOps& ops_ = posix_file_ops();
  std::unique_ptr<Engine> engine_ = *make_sync_engine({.depth = 1});
  MappedArena memory_ = *MappedArena::map(4 << 20, false, true);
};

TEST_F(FileTest, every_policy_reads_the_same_bytes_at_any_offset_and_length) {
  for (const CachePolicy policy : {CachePolicy::automatic, CachePolicy::buffered,
                                   CachePolicy::direct, CachePolicy::drop_behind}) {
    for (const bool allow_dont_cache : {true, false}) {
      const auto file =
          File::open(ops_, path_, {.policy = policy, .allow_dont_cache = allow_dont_cache});
      if (policy == CachePolicy::direct && file.status().code() == Code::unsupported) continue;
      ASSERT_TRUE(file.ok()) << file.status().message();
      EXPECT_EQ(file->size_bytes(), kFileBytes);
      std::mt19937_64 random(5);
      for (int i = 0; i < 200; ++i) {
        const std::uint64_t offset = random() % (kFileBytes + 5000);
        const std::size_t size = random() % 70'000;
        ASSERT_LE(file->scratch_bytes(offset, size), memory_.bytes().size());
        const auto bytes = file->read(*engine_, offset, size,
                                      memory_.bytes().first(file->scratch_bytes(offset, size)));
        ASSERT_TRUE(bytes.ok()) << bytes.status().message();
        const std::string expected = offset < kFileBytes ? text_.substr(offset, size) : "";
        ASSERT_EQ(std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()),
                  expected)
            << cache_policy_name(policy) << " at " << offset;
        const auto again =
            file->read(offset, size, memory_.bytes().first(file->scratch_bytes(offset, size)));
        ASSERT_TRUE(again.ok()) << again.status().message();
        ASSERT_EQ(std::string(reinterpret_cast<const char*>(again->data()), again->size()),
                  expected)
            << "without an engine, at " << offset;
      }
    }
  }
}

TEST_F(FileTest, automatic_goes_past_the_cache_when_cold_and_through_it_when_warm) {
  if (!is_local_block(path_)) GTEST_SKIP() << "the temporary directory is not on a local disk";
  const auto file = File::open(ops_, path_, {.policy = CachePolicy::automatic});
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(resident_share(), 0);
  EXPECT_EQ(file->plan_read(0, 1 << 20, memory_.bytes())->path, IoPath::direct);
  ASSERT_TRUE(file->read(*engine_, 0, 1 << 20, memory_.bytes()).ok());
  EXPECT_EQ(resident_share(), 0) << "a direct read leaves no pages behind";
  warm();
  EXPECT_EQ(file->plan_read(0, 1 << 20, memory_.bytes())->path, IoPath::buffered);
}

TEST_F(FileTest, dropping_behind_leaves_no_pages_that_were_not_there_before) {
  if (!is_local_block(path_)) GTEST_SKIP() << "the temporary directory is not on a local disk";
  for (const bool allow_dont_cache : {true, false}) {
    const auto file = File::open(
        ops_, path_, {.policy = CachePolicy::drop_behind, .allow_dont_cache = allow_dont_cache});
    ASSERT_TRUE(file.ok());
    ASSERT_EQ(resident_share(), 0);
    const auto plan = file->plan_read(0, 1 << 20, memory_.bytes());
    if (!allow_dont_cache) {
      EXPECT_EQ(plan->path, IoPath::fadvise_drop);
    }
    ASSERT_TRUE(file->read(*engine_, 0, 1 << 20, memory_.bytes()).ok());
    EXPECT_LT(resident_share(), 0.5) << io_path_name(plan->path);

    warm();
    ASSERT_TRUE(file->read(*engine_, 0, 1 << 20, memory_.bytes()).ok());
    EXPECT_GT(resident_share(), 0.99)
        << "somebody's warm pages were dropped by " << io_path_name(plan->path);
    ASSERT_TRUE(evict(file->buffered_fd()).ok());
  }
}

TEST_F(FileTest, writes_of_any_length_end_in_files_of_exactly_that_length) {
  for (const CachePolicy policy : {CachePolicy::automatic, CachePolicy::buffered,
                                   CachePolicy::direct, CachePolicy::drop_behind}) {
    for (const std::size_t size : {0UL, 1UL, 4096UL, 5000UL, kFileBytes}) {
      const std::string path = dir_.file("written");
      auto file = File::create(ops_, path, {.policy = policy});
      if (policy == CachePolicy::direct && file.status().code() == Code::unsupported) continue;
      ASSERT_TRUE(file.ok()) << file.status().message();
      ASSERT_TRUE(file->preallocate(size + 8192).ok());
      std::ranges::fill(memory_.bytes(), std::byte{'p'});  // padding must not show
      std::copy_n(reinterpret_cast<const std::byte*>(text_.data()), size, memory_.bytes().data());
      const auto request = file->plan_write(0, size, memory_.bytes());
      ASSERT_TRUE(request.ok()) << request.status().message();
      if (size > 0) {
        ASSERT_TRUE(perform(*engine_, *request).ok());
      }
      ASSERT_TRUE(file->finish(size).ok());
      EXPECT_EQ(file->size_bytes(), size);
      ASSERT_TRUE(std::move(*file).close().ok());
      EXPECT_EQ(contents_of(path), text_.substr(0, size)) << cache_policy_name(policy);
      std::filesystem::remove(path);
    }
  }
}

TEST_F(FileTest, the_write_path_is_the_one_the_policy_asked_for) {
  if (!is_local_block(path_)) GTEST_SKIP() << "the temporary directory is not on a local disk";
  const auto path_of = [&](CachePolicy policy, bool allow_dont_cache) {
    std::filesystem::remove(dir_.file("new"));
    return File::create(ops_, dir_.file("new"),
                        {.policy = policy, .allow_dont_cache = allow_dont_cache})
        ->write_path();
  };
  EXPECT_EQ(path_of(CachePolicy::automatic, true), IoPath::direct);
  EXPECT_EQ(path_of(CachePolicy::direct, true), IoPath::direct);
  EXPECT_EQ(path_of(CachePolicy::buffered, true), IoPath::buffered);
  EXPECT_EQ(path_of(CachePolicy::drop_behind, false), IoPath::fadvise_drop);
}

TEST_F(FileTest, what_is_there_is_not_overwritten) {
  EXPECT_EQ(File::create(ops_, path_, {}).status().code(), Code::already_exists);
  EXPECT_EQ(contents_of(path_), text_);
}

TEST_F(FileTest, misaligned_plans_are_refused_before_the_kernel_sees_them) {
  auto file = File::create(ops_, dir_.file("new"), {.policy = CachePolicy::direct});
  if (!file.ok()) GTEST_SKIP() << file.status().message();
  EXPECT_EQ(file->plan_write(100, 4096, memory_.bytes()).status().code(), Code::invalid_argument);
  EXPECT_EQ(file->plan_write(0, 5000, memory_.bytes().first(5000)).status().code(),
            Code::invalid_argument)
      << "no room for the padding";
  EXPECT_EQ(file->plan_write(0, 4096, memory_.bytes().subspan(1)).status().code(),
            Code::invalid_argument);
  const auto reader = File::open(ops_, path_, {.policy = CachePolicy::direct});
  EXPECT_EQ(reader->plan_read(10, 5000, memory_.bytes().first(5000)).status().code(),
            Code::invalid_argument);
  EXPECT_EQ(reader->plan_read(0, 4096, memory_.bytes().subspan(1)).status().code(),
            Code::invalid_argument);
}

TEST_F(FileTest, a_file_shortened_under_a_reader_is_an_error_that_says_so) {
  const auto file = File::open(ops_, path_, {});
  ASSERT_EQ(::truncate(path_.c_str(), 1000), 0);
  const auto bytes = file->read(*engine_, 0, 8192, memory_.bytes());
  EXPECT_EQ(bytes.status().code(), Code::io_error);
  EXPECT_NE(bytes.status().message().find("shortened"), std::string::npos);
  EXPECT_NE(bytes.status().message().find(path_), std::string::npos);
}

TEST_F(FileTest, directories_devices_and_absent_files_are_refused) {
  EXPECT_EQ(File::open(ops_, dir_.path(), {}).status().code(), Code::invalid_argument);
  EXPECT_EQ(File::open(ops_, "/dev/null", {}).status().code(), Code::invalid_argument);
  EXPECT_EQ(File::open(ops_, dir_.file("absent"), {}).status().code(), Code::not_found);
}

TEST_F(FileTest, a_pipe_without_a_writer_is_refused_and_not_waited_for) {
  const std::string pipe = dir_.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Status status = File::open(ops_, pipe, {}).status();
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_EQ(status.message(), "open " + pipe + ": not a regular file");
}

TEST_F(FileTest, an_open_file_waits_as_others_do) {
  const auto file = File::open(ops_, path_, {});
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(::fcntl(file->buffered_fd(), F_GETFL) & O_NONBLOCK, 0)
      << "io_uring would fail reads that cannot be answered at once";
}

TEST_F(FileTest, a_name_replaced_between_the_two_opens_is_noticed) {
  class Replacing final : public FaultyFileOps {
   public:
    explicit Replacing(std::string other)
        : FaultyFileOps(posix_file_ops(), kNever, 0), other_(std::move(other)) {}
    Result<UniqueFd> open(const PathAt& path, int flags) override {
      return FaultyFileOps::open((flags & O_DIRECT) != 0 ? PathAt(other_) : path, flags);
    }

   private:
    const std::string other_;
  };
  std::ofstream(dir_.file("other")) << "other";
  Replacing ops(dir_.file("other"));
  const auto file = File::open(ops, path_, {});
  EXPECT_EQ(file.status().code(), Code::unavailable) << file.status().message();
}

TEST_F(FileTest, only_a_filesystem_that_has_no_direct_io_is_told_to_have_none) {
  for (const int error : {EINVAL, EOPNOTSUPP, EMFILE, EACCES}) {
    FaultyFileOps ops(ops_, /*fail_at=*/1, error);  // the second of the two opens
    const Status status = File::open(ops, path_, {.policy = CachePolicy::direct}).status();
    const bool lacks_direct = error == EINVAL || error == EOPNOTSUPP;
    EXPECT_EQ(status.message().find("no direct I/O") != std::string::npos, lacks_direct)
        << status.message();
    EXPECT_EQ(status.code() == Code::unsupported, lacks_direct) << status.message();
    EXPECT_EQ(status.os_error(), error);
  }
}

constexpr std::size_t kPieceBytes = 64 << 10;

/// The durable write that everything later builds on, as one function; in several requests where it
/// is longer than one piece.
Status write_durably(FileOps& ops, Engine& engine, const std::string& path,
                     std::span<std::byte> memory, std::size_t size) {
  STOKER_ASSIGN(File file, File::create(ops, path, {}));
  STOKER_TRY(file.preallocate(size));
  for (std::size_t at = 0; at < size; at += kPieceBytes) {
    const std::size_t piece = std::min(kPieceBytes, size - at);
    STOKER_ASSIGN(const Request request, file.plan_write(at, piece, memory.subspan(at)));
    STOKER_ASSIGN(const std::size_t moved, perform(engine, request));
    if (moved != request.buffer.size()) return Status(Code::io_error, "short write");
  }
  STOKER_TRY(file.finish(size));
  return std::move(file).close();
}

TEST_F(FileTest, every_failed_call_of_a_durable_write_is_reported) {
  const std::string path = dir_.file("new");
  for (const int error : {EIO, ENOSPC, EINTR}) {
    bool finished = false;
    for (int fault = 0; !finished; ++fault) {
      FaultyFileOps ops(ops_, fault, error);
      const Status status = write_durably(ops, *engine_, path, memory_.bytes(), 5000);
      finished = !ops.fired();
      // EINTR before anything happened is repeated, except at fsync and close. A refused O_DIRECT
      // is not a failure: `automatic` writes through the cache then.
      const bool harmless =
          finished ||
          (error == EINTR && (ops.failed_op() == "fallocate" || ops.failed_op() == "ftruncate"));
      const bool direct_open_refused = ops.failed_op() == "open" && fault == 1;
      EXPECT_EQ(status.ok(), harmless || direct_open_refused)
          << ops.failed_op() << ": " << status.message();
      if (!status.ok()) {
        EXPECT_EQ(status.os_error(), error);
      }
      std::filesystem::remove(path);
      ASSERT_LT(fault, 50);
    }
  }
}

TEST_F(FileTest, every_spoiled_completion_of_a_durable_write_is_reported) {
  for (const std::int64_t result : {-EIO, -ENOSPC, -EINTR, 4096}) {
    bool fired = true;
    int fail_at = 0;
    for (; fired; ++fail_at) {
      FaultyEngine engine(*make_sync_engine({.depth = 1}), fail_at, result);
      const Status status =
          write_durably(ops_, engine, dir_.file("new"), memory_.bytes(), 2 * kPieceBytes + 5000);
      fired = engine.fired();
      EXPECT_EQ(status.ok(), !fired) << fail_at << ": " << status.message();
      if (fired && result < 0) {
        EXPECT_EQ(status.os_error(), -result);
      }
      std::filesystem::remove(dir_.file("new"));
    }
    EXPECT_EQ(fail_at, 4) << "three requests, and a run without a fault";
  }
}

TEST_F(FileTest, every_spoiled_completion_of_a_read_is_reported_with_the_path) {
  const auto file = File::open(ops_, path_, {});
  constexpr int kReads = 3;
  for (const std::int64_t result : {-EIO, -ESTALE, -EINTR, 10}) {
    for (int fail_at = 0; fail_at < kReads; ++fail_at) {
      FaultyEngine engine(*make_sync_engine({.depth = 1}), fail_at, result);
      for (int read = 0; read < kReads; ++read) {
        const auto offset = static_cast<std::uint64_t>(read) * 300'000;
        const auto bytes = file->read(engine, offset, 5000, memory_.bytes());
        ASSERT_EQ(bytes.ok(), read != fail_at) << result << " at " << fail_at;
        if (!bytes.ok()) {
          EXPECT_NE(bytes.status().message().find(path_), std::string::npos);
        }
      }
    }
  }
}

TEST(CachePolicyTest, names_parse_back_to_their_policies) {
  for (const CachePolicy policy : {CachePolicy::automatic, CachePolicy::buffered,
                                   CachePolicy::direct, CachePolicy::drop_behind})
    EXPECT_EQ(*parse_cache_policy(cache_policy_name(policy)), policy);
  EXPECT_EQ(*parse_cache_policy("automatic"), CachePolicy::automatic) << "as Python has it";
  EXPECT_EQ(*parse_cache_policy("drop_behind"), CachePolicy::drop_behind);
  EXPECT_EQ(parse_cache_policy("O_DIRECT").status().code(), Code::invalid_argument);
}

TEST(DirectAdvisorTest, local_disks_say_yes_and_memory_says_no_without_a_trial) {
  DirectAdvisor advisor;
  EXPECT_FALSE(advisor.pays_for_writes("/dev/shm"));
  EXPECT_FALSE(advisor.pays_for_writes("/proc")) << "nothing can be written there";
  const testing::TempDir dir;
  const UniqueFd fd(::open(dir.path().c_str(), O_RDONLY));
  const auto kind = filesystem_of(fd.get());
  if (kind->local_block) {
    EXPECT_TRUE(advisor.pays_for_writes(dir.path()));
  }
  EXPECT_EQ(dir.entry_count(), 0);
}

}  // namespace
}  // namespace stoker
