// Each way in which reads do not go straight to a GPU has a reason of its own; only counters prove
// that they do. The library and the driver are this test's.
#include "gpu/direct_reads.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "gpu/fake_driver.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

/// A libcufile that reads with pread, and counts what it is told.
class FakeCuFile {
 public:
  FakeCuFile() {
    table.driver_open = [this] {
      ++open_count;
      return CuFileError{.error = open_error};
    };
    table.driver_close = [this] {
      --open_count;
      return CuFileError{};
    };
    table.handle_register = [this](CuFileHandle* handle, CuFileDescription* description) {
      *handle = this;
      fd = description->handle.fd;
      if (register_error == 0) ++handle_count;
      return CuFileError{.error = register_error};
    };
    table.handle_deregister = [this](CuFileHandle) { --handle_count; };
    table.read = [this](CuFileHandle, void* memory, std::size_t size, off_t from, off_t) {
      const auto to = reinterpret_cast<CudaPointer>(memory);
      std::vector<std::byte> bytes(size);
      const UniqueFd plain(  // without O_DIRECT, for which `bytes` is not aligned
          ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC));
      const ssize_t count = ::pread(plain.get(), bytes.data(), size, from);
      if (count > 0) std::memcpy(FakeDriver::memory_at(to), bytes.data(), std::size_t(count));
      if (is_wrong) FakeDriver::memory_at(to)[5] ^= std::byte{1};
      add(counter_word);
      return read_error == 0 ? count : read_error;
    };
    table.set_stats_level = [](int) { return CuFileError{}; };
    table.stats_start = [] { return CuFileError{}; };
    table.stats_stop = [] { return CuFileError{}; };
    table.get_stats_l3 = [this](CuFileStats* out) {
      *out = stats;
      return CuFileError{};
    };
    add(9);  // earlier reads of the process, which are not the probe's
  }

  /// Counts a read of the second of two GPUs, as cufile.h 1.15 lays it out.
  void add(std::size_t word) {
    constexpr std::size_t kGpus = 1032 / 8;
    constexpr std::size_t kPerGpu = 248 / 8;
    const std::uint32_t gpu_count = 2;
    std::memcpy(stats.words.data() + 128, &gpu_count, sizeof(gpu_count));
    if (word != 0) ++stats.words.at(kGpus + kPerGpu + word);
  }

  CuFile table;
  CuFileStats stats;
  int fd = -1;
  int open_count = 0;
  int handle_count = 0;
  int open_error = 0;
  int register_error = 0;
  ssize_t read_error = 0;
  bool is_wrong = false;
  std::size_t counter_word = 7;  // n_p2p_reads
};

class DirectReadsTest : public ::testing::Test {
 protected:
  DirectReads probe() const { return probe_direct_reads(dir_.path(), 0, tools_); }
  void expect_no(const std::string& reason) const {
    const DirectReads found = probe();
    EXPECT_FALSE(found.are_real);
    EXPECT_NE(found.reason.find(reason), std::string::npos) << found.reason;
    EXPECT_EQ(found.reason.find('\n'), std::string::npos) << found.reason;
    EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
    EXPECT_EQ(library_.handle_count, 0);
    EXPECT_EQ(fake_.allocated_bytes(), 0U);
    EXPECT_EQ(fake_.retained_count(), 0);
  }
  /// Whether the file could be read directly at all.
  bool has_direct_files() const { return probe().reason.find("O_DIRECT") == std::string::npos; }

  const TempDir dir_;
  const TempDir machine_;
  FakeDriver fake_;
  FakeCuFile library_;
  DirectReadTools tools_ = {
      .find_driver = [this] { return Result(&fake_.table()); },
      .find_library = [this] { return Result<const CuFile*>(&library_.table); },
      .proc = machine_.path(),
      .sysfs = machine_.path(),
      .udev = machine_.path()};
};

TEST_F(DirectReadsTest, are_real_if_a_counter_of_direct_reads_has_moved) {
  if (!has_direct_files()) GTEST_SKIP() << "no O_DIRECT in " << dir_.path();
  for (const auto& [word, proof] : {std::pair{7, "peer-to-peer"}, std::pair{8, "nvidia-fs"}}) {
    library_.counter_word = static_cast<std::size_t>(word);
    const DirectReads found = probe();
    EXPECT_TRUE(found.are_real);
    EXPECT_NE(found.reason.find(proof), std::string::npos) << found.reason;
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
  EXPECT_EQ(library_.open_count, 0);
  EXPECT_EQ(library_.handle_count, 0);
  EXPECT_EQ(fake_.allocated_bytes(), 0U);
}

TEST_F(DirectReadsTest, no_context_is_created_where_that_is_forbidden) {
  if (!has_direct_files()) GTEST_SKIP() << "no O_DIRECT in " << dir_.path();
  tools_.may_create_context = false;
  fake_.set_in_use(false);
  const std::size_t before = fake_.count_of("primary_ctx_retain");
  expect_no("this process has not used GPU 0 yet");
  EXPECT_EQ(fake_.count_of("primary_ctx_retain"), before);
  fake_.set_in_use(true);
  EXPECT_TRUE(probe().are_real);
}

TEST_F(DirectReadsTest, a_read_that_succeeds_proves_nothing) {
  if (!has_direct_files()) GTEST_SKIP() << "no O_DIRECT in " << dir_.path();
  library_.counter_word = 9;
  expect_no("compatibility mode");
  library_.counter_word = 0;
  expect_no("no counter");
}

TEST_F(DirectReadsTest, every_call_that_fails_is_named) {
  if (!has_direct_files()) GTEST_SKIP() << "no O_DIRECT in " << dir_.path();
  library_.is_wrong = true;
  expect_no("other bytes arrived");
  library_.read_error = -5;
  expect_no("cuFileRead: answer -5");
  library_.register_error = 5008;
  expect_no("cuFileHandleRegister: error 5008");
  library_.open_error = 5001;
  expect_no("cuFileDriverOpen: error 5001");
}

TEST_F(DirectReadsTest, what_rules_them_out_is_found_before_anything_is_called) {
  tools_.udev = machine_.file("none");
  expect_no("cannot be read");
  library_.table.get_stats_l3 = nullptr;
  expect_no("older than 1.15");
  expect_no("nvidia-fs is not loaded");
  tools_.find_library = []() -> Result<const CuFile*> {
    return Status(Code::unsupported, "no libcufile: it is not there");
  };
  expect_no("no libcufile");

  struct stat info = {};
  ASSERT_EQ(::stat(dir_.path().c_str(), &info), 0);
  const std::string drive = machine_.file("devices/pci0000:00/virtio0/block/vda");
  std::filesystem::create_directories(drive);
  std::filesystem::create_directories(machine_.file("dev/block"));
  std::filesystem::create_directory_symlink(
      drive, machine_.file("dev/block/" + std::to_string(major(info.st_dev)) + ":" +
                           std::to_string(minor(info.st_dev))));
  expect_no("virtio");
  tools_.find_driver = []() -> Result<const CudaDriver*> {
    return Status(Code::unsupported, "no CUDA: no driver");
  };
  expect_no("no CUDA: no driver");
  EXPECT_TRUE(fake_.calls().empty());
}

TEST(CuFileTest, is_found_or_says_why_not) {
  const Result<const CuFile*> found = CuFile::find();
  if (found.ok()) {
    EXPECT_TRUE((*found)->read);
    return;
  }
  EXPECT_EQ(found.status().code(), Code::unsupported);
  EXPECT_NE(found.status().message().find("libcufile"), std::string_view::npos);
}

}  // namespace
}  // namespace stoker::testing
