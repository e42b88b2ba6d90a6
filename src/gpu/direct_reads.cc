#include "gpu/direct_reads.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <system_error>
#include <vector>

#include "base/unique_fd.h"
#include "gpu/cuda_device.h"

namespace stoker {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

/// Returns what rules out direct reads of the drive; empty if nothing is known.
std::string drive_obstacle(const std::string& directory, const DirectReadTools& tools) {
  struct stat info = {};
  if (::stat(directory.c_str(), &info) != 0) return {};
  const std::string link = tools.sysfs + "/dev/block/" + std::to_string(major(info.st_dev)) + ":" +
                           std::to_string(minor(info.st_dev));
  std::error_code error;
  const std::string place = std::filesystem::canonical(link, error);
  if (error || place.find("/virtio") == std::string::npos) return {};
  return "the drive is virtual (virtio), without peer-to-peer transfers";
}

/// A file of random bytes, removed by the destructor.
class ScratchBytes {
 public:
  static Result<std::unique_ptr<ScratchBytes>> make(const std::string& directory) {
    auto made = std::unique_ptr<ScratchBytes>(new ScratchBytes());
    std::string name = directory + "/.stoker-probe-XXXXXX";
    UniqueFd written(::mkostemp(name.data(), O_CLOEXEC));
    if (written.get() < 0) return Status::from_errno(errno, "cannot write to", directory);
    made->path_ = name;
    std::mt19937_64 random(static_cast<std::uint64_t>(::getpid()));
    for (std::uint64_t& word : made->words_) word = random();
    const ssize_t count = ::pwrite(written.get(), made->words_.data(), kReadBytes, 0);
    if (count != static_cast<ssize_t>(kReadBytes) || ::fsync(written.get()) != 0)
      return Status::from_errno(errno, "write", name);
    made->fd_ = UniqueFd(::open(name.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    if (made->fd_.get() < 0)
      return Status(Code::unsupported, "the filesystem has no direct reads (O_DIRECT)");
    return made;
  }
  ScratchBytes(const ScratchBytes&) = delete;
  ScratchBytes& operator=(const ScratchBytes&) = delete;
  ~ScratchBytes() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  int fd() const noexcept { return fd_.get(); }
  const std::vector<std::uint64_t>& words() const noexcept { return words_; }

 private:
  ScratchBytes() : words_(kReadBytes / sizeof(std::uint64_t)) {}
  std::string path_;
  UniqueFd fd_;
  std::vector<std::uint64_t> words_;
};

/// Calls `end` at the end of a scope.
class AtEnd {
 public:
  explicit AtEnd(std::function<void()> end) : end_(std::move(end)) {}
  ~AtEnd() { end_(); }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;

 private:
  std::function<void()> end_;
};

/// Reads the file into memory of the device with cuFile, and compares what has arrived.
Status read_once(const CuFile& library, const CudaDevice& device, const ScratchBytes& file) {
  const CudaDriver& driver = device.driver();
  CuFileDescription description;
  description.handle.fd = file.fd();
  CuFileHandle handle = nullptr;
  STOKER_TRY(CuFile::check(library.handle_register(&handle, &description), "cuFileHandleRegister"));
  const AtEnd deregister([&] { library.handle_deregister(handle); });
  CudaPointer memory = 0;
  STOKER_TRY(driver.check(driver.mem_alloc(&memory, kReadBytes), "cuMemAlloc"));
  const AtEnd free([&] { static_cast<void>(driver.mem_free(memory)); });
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const ssize_t count = library.read(handle, reinterpret_cast<void*>(memory), kReadBytes, 0, 0);
  if (count != static_cast<ssize_t>(kReadBytes))
    return Status(Code::unsupported, "cuFileRead: answer " + std::to_string(count) + ", errno " +
                                         std::to_string(errno));
  std::vector<std::uint64_t> arrived(file.words().size());
  STOKER_TRY(driver.check(driver.memcpy_dtoh_async(arrived.data(), memory, kReadBytes, nullptr),
                          "cuMemcpyDtoHAsync"));
  STOKER_TRY(driver.check(driver.stream_synchronize(nullptr), "cuStreamSynchronize"));
  if (arrived != file.words())
    return Status(Code::corrupt, "cuFileRead: other bytes arrived than those of the file");
  return {};
}

/// Reads once, and returns by how much the counters have grown.
Result<CuFileCounters> count_reads(const CuFile& library, const CudaDevice& device,
                                   const ScratchBytes& file) {
  const CudaScope scope(device);
  STOKER_TRY(scope.status());
  STOKER_TRY(CuFile::check(library.driver_open(), "cuFileDriverOpen"));
  const AtEnd close([&] { static_cast<void>(library.driver_close()); });
  STOKER_TRY(CuFile::check(library.set_stats_level(3), "cuFileSetStatsLevel"));
  STOKER_TRY(CuFile::check(library.stats_start(), "cuFileStatsStart"));
  const AtEnd stop([&] {
    static_cast<void>(library.stats_stop());
    static_cast<void>(library.set_stats_level(0));
  });
  CuFileStats before;
  CuFileStats after;
  STOKER_TRY(CuFile::check(library.get_stats_l3(&before), "cuFileGetStatsL3"));
  STOKER_TRY(read_once(library, device, file));
  STOKER_TRY(CuFile::check(library.get_stats_l3(&after), "cuFileGetStatsL3"));
  const CuFileCounters first = before.counters();
  const CuFileCounters last = after.counters();
  return CuFileCounters{.peer_reads = last.peer_reads - first.peer_reads,
                        .nvfs_reads = last.nvfs_reads - first.nvfs_reads,
                        .posix_reads = last.posix_reads - first.posix_reads};
}

Result<std::string> find_proof(const std::string& directory, int device,
                               const DirectReadTools& tools) {
  const auto no = [](std::string why) { return Status(Code::unsupported, std::move(why)); };
  STOKER_ASSIGN(const CudaDriver* const driver, tools.find_driver());
  if (std::string why = drive_obstacle(directory, tools); !why.empty()) return no(std::move(why));
  STOKER_ASSIGN(const CuFile* const library, tools.find_library());
  if (!library->has_counters())
    return no(std::string("libcufile is older than 1.15, and has no counters that prove it") +
              (::access((tools.proc + "/driver/nvidia-fs/version").c_str(), R_OK) == 0
                   ? ""
                   : "; nvidia-fs is not loaded"));
  if (::access(tools.udev.c_str(), R_OK) != 0)
    return no(tools.udev + " cannot be read, which libcufile needs (in a container, mount it)");
  Result<std::shared_ptr<const CudaDevice>> context = tools.may_create_context
                                                          ? CudaDevice::create(*driver, device)
                                                          : CudaDevice::retain(*driver, device);
  if (!tools.may_create_context && context.status().code() == Code::invalid_argument)
    return no("this process has not used GPU " + std::to_string(device) +
              " yet; `stoker doctor` tries it in a process of its own");
  STOKER_TRY(context.status());
  STOKER_ASSIGN(const std::unique_ptr<ScratchBytes> file, ScratchBytes::make(directory));
  STOKER_ASSIGN(const CuFileCounters moved, count_reads(*library, **context, *file));
  if (moved.posix_reads > 0)
    return no("cuFile is in compatibility mode: it has read through host memory");
  if (moved.peer_reads > 0) return std::string("cuFile has read by PCI peer-to-peer transfers");
  if (moved.nvfs_reads > 0) return std::string("cuFile has read through nvidia-fs");
  return no("no counter of cuFile has counted the read");
}

}  // namespace

DirectReads probe_direct_reads(const std::string& directory, int device,
                               const DirectReadTools& tools) {
  const Result<std::string> proof = find_proof(directory, device, tools);
  return {.are_real = proof.ok(),
          .reason = proof.ok() ? *proof : std::string(proof.status().message())};
}

}  // namespace stoker
