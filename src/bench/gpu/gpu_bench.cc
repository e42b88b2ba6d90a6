#include "bench/gpu/gpu_bench.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "bench/gpu/gpu_transfers.h"
#include "bench/memory_room.h"
#include "bench/scratch.h"
#include "gpu/pinned_memory.h"
#include "stoker/units.h"

namespace stoker {
namespace {

constexpr std::size_t kHostBytes = std::size_t{256} << 20;  // pinned, and as much pageable
constexpr std::size_t kCopyBytes = std::size_t{64} << 20;   // per call
constexpr std::size_t kThreadsMax = 64;

void fill_randomly(std::span<std::byte> bytes) {
  std::mt19937_64 random(7);  // the file must not compress well
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, sizeof(word));
  }
}

class Bench {
 public:
  Bench(const GpuBenchOptions& options, FileOps& ops, const ProgressSink& progress,
        const std::stop_token& stop)
      : options_(options), ops_(ops), progress_(progress), stop_(stop) {}

  Result<GpuReport> run(const CudaDriver& driver) {
    report_.path = options_.path;
    report_.device = options_.device;
    report_.threads = options_.threads != 0
                          ? options_.threads
                          : std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 16);
    STOKER_TRY(
        driver.check(driver.driver_get_version(&report_.driver_version), "cuDriverGetVersion"));
    STOKER_ASSIGN(device_, CudaDevice::create(driver, options_.device));
    const std::shared_ptr<PinnedMemory> pinned = PinnedMemory::make();
    STOKER_ASSIGN(const std::unique_ptr<Arena> arena, pinned->maker()(kHostBytes));
    pinned->pin(arena->bytes(), device_);
    STOKER_TRY(pinned->failure());
    pinned_ = arena->bytes();
    STOKER_ASSIGN(const MappedArena plain, MappedArena::map(kCopyBytes, true, /*touch=*/true));
    for (const std::uint64_t size : options_.sizes) STOKER_TRY(measure(size, plain.bytes()));
    STOKER_TRY(find_links(driver));  // now, because a link that was idle is slower
    DirectReadTools tools = options_.direct;
    tools.find_driver = [&driver] { return Result(&driver); };
    report_.direct = probe_direct_reads(options_.path, options_.device, tools);
    return std::move(report_);
  }

 private:
  Status measure(std::uint64_t size, std::span<std::byte> pageable) {
    constexpr auto kTo = GpuDirection::to_device;
    constexpr auto kFrom = GpuDirection::to_host;
    const std::span<std::byte> locked = pinned_.first(kCopyBytes);
    STOKER_TRY(copy("to the device, pinned", size, kTo, locked));
    STOKER_TRY(copy("to the host, pinned", size, kFrom, locked));
    STOKER_TRY(copy("to the device, pageable", size, kTo, pageable));
    STOKER_TRY(copy("to the host, pageable", size, kFrom, pageable));
    return read(size);
  }

  Status copy(const std::string& name, std::uint64_t size, GpuDirection direction,
              std::span<std::byte> host) {
    show(name, size);
    STOKER_ASSIGN(const nanoseconds elapsed, time_copies(device_, direction, host, size, stop_));
    report_.cases.push_back({.name = name, .bytes = size, .elapsed = elapsed});
    return {};
  }

  /// The file must fit on the disk, and in the page cache with some memory left.
  Status check_rooms(std::uint64_t size) const {
    STOKER_TRY(check_room(options_.path, size, "--size"));
    const std::uint64_t available =
        options_.memory_bytes != 0 ? options_.memory_bytes : available_memory_bytes();
    if (available - available / 8 >= size) return {};
    return Status(Code::no_space, "the page cache must hold the file, and " +
                                      format_bytes(available) + " of memory are available");
  }

  Status read(std::uint64_t size) {
    static constexpr const char* kWarm = "file to the device, page cache";
    static constexpr const char* kDirect = "file to the device, direct";
    if (Status room = check_rooms(size); !room.ok()) {
      if (room.code() != Code::no_space) return room;
      for (const char* const name : {kWarm, kDirect})
        report_.cases.push_back({.name = name, .bytes = size, .why = std::string(room.message())});
      return {};
    }
    show("writing the file", size);
    STOKER_ASSIGN(ScratchFile scratch, ScratchFile::create(ops_, options_.path, {}));
    STOKER_TRY(write(scratch.file().buffered_fd(), size));
    STOKER_TRY(read(kWarm, scratch.file().buffered_fd(), size));
    const UniqueFd direct(
        ::open(scratch.reopen_path().c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));  // may be refused
    if (direct.get() >= 0) return read(kDirect, direct.get(), size);
    report_.cases.push_back(
        {.name = kDirect, .bytes = size, .why = "the filesystem has no direct reads"});
    return {};
  }

  /// Ends with a whole page, as direct reads need it.
  Status write(int fd, std::uint64_t size) {
    fill_randomly(pinned_.first(kCopyBytes));
    for (std::uint64_t at = 0; at < size; at += kCopyBytes) {
      if (stop_.stop_requested()) return Status(Code::cancelled, "interrupted");
      for (std::size_t done = 0; done < kCopyBytes;) {
        STOKER_ASSIGN(const std::size_t written,
                      ops_.pwrite(fd, pinned_.subspan(done, kCopyBytes - done), at + done));
        done += written;
      }
    }
    return ops_.fdatasync(fd);
  }

  Status read(const std::string& name, int fd, std::uint64_t size) {
    show(name, size);
    const std::uint64_t whole = size / kPageBytes * kPageBytes;
    STOKER_ASSIGN(const nanoseconds elapsed,
                  time_reads(device_, fd, pinned_, whole, report_.threads, stop_));
    report_.cases.push_back({.name = name, .bytes = whole, .elapsed = elapsed});
    return {};
  }

  Status find_links(const CudaDriver& driver) {
    std::array<char, 32> id{};
    int device = 0;
    STOKER_TRY(driver.check(driver.device_get(&device, options_.device), "cuDeviceGet"));
    STOKER_TRY(driver.check(
        driver.device_get_pci_bus_id(id.data(), static_cast<int>(id.size()) - 1, device),
        "cuDeviceGetPCIBusId"));
    report_.pci_id = id.data();
    std::ranges::transform(report_.pci_id, report_.pci_id.begin(),
                           [](unsigned char letter) { return std::tolower(letter); });
    report_.links = read_pcie_links(options_.sysfs + "/" + report_.pci_id);
    return {};
  }

  void show(const std::string& what, std::uint64_t size) {
    if (!progress_) return;
    progress_({.step = report_.cases.size(),
               .step_count = options_.sizes.size() * kCasesPerSize,
               .what = what + ", " + format_bytes_decimal(size)});
  }

  static constexpr std::size_t kCasesPerSize = 6;
  static constexpr std::uint64_t kPageBytes = 4096;
  const GpuBenchOptions& options_;
  FileOps& ops_;
  const ProgressSink& progress_;
  const std::stop_token& stop_;
  GpuReport report_;
  std::shared_ptr<const CudaDevice> device_;
  std::span<std::byte> pinned_;
};

}  // namespace

double GpuCase::bytes_per_s() const noexcept {
  return elapsed.count() > 0
             ? static_cast<double>(bytes) * 1e9 / static_cast<double>(elapsed.count())
             : 0;
}

Result<GpuReport> run_gpu_bench(const GpuBenchOptions& options, const CudaDriver& driver,
                                FileOps& ops, const ProgressSink& progress,
                                const std::stop_token& stop) {
  for (const std::uint64_t size : options.sizes)
    if (size < GpuBenchOptions::kBytesMin)
      return Status(Code::invalid_argument, "--size " + format_bytes_exact(size) +
                                                " is too small: use at least " +
                                                format_bytes(GpuBenchOptions::kBytesMin));
  if (options.threads > kThreadsMax)
    return Status(Code::invalid_argument, "--threads: at most " + std::to_string(kThreadsMax));
  return Bench(options, ops, progress, stop).run(driver);
}

}  // namespace stoker
