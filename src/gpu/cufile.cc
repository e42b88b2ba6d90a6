#include "gpu/cufile.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

namespace stoker {
namespace {

// Offsets in CUfileStatsLevel3_t and, in words, in CUfilePerGpuStats_t.
constexpr std::size_t kGpuCountBytes = 1024;
constexpr std::size_t kGpusWord = 1032 / sizeof(std::uint64_t);
constexpr std::size_t kWordsPerGpu = 248 / sizeof(std::uint64_t);
constexpr std::size_t kPeerReadsWord = 7;
constexpr std::size_t kNvfsReadsWord = 8;
constexpr std::size_t kPosixReadsWord = 9;
constexpr std::uint32_t kGpusMax = 16;

template <typename Answer, typename... Arguments>
void find_entry(void* library, std::function<Answer(Arguments...)>& entry, const char* symbol) {
  if (void* const function = ::dlsym(library, symbol))
    entry = reinterpret_cast<Answer (*)(Arguments...)>(function);
}

Status no_cufile(const std::string& why) {
  return Status(Code::unsupported, "no libcufile: " + why);
}

Result<const CuFile*> load_cufile() {
  void* library = ::dlopen("libcufile.so.0", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return no_cufile(why != nullptr ? why : "libcufile.so.0 cannot be loaded");
  }
  auto found = std::make_unique<CuFile>();
  find_entry(library, found->driver_open, "cuFileDriverOpen");
  find_entry(library, found->driver_close, "cuFileDriverClose_v2");
  if (!found->driver_close) find_entry(library, found->driver_close, "cuFileDriverClose");
  find_entry(library, found->handle_register, "cuFileHandleRegister");
  find_entry(library, found->handle_deregister, "cuFileHandleDeregister");
  find_entry(library, found->read, "cuFileRead");
  find_entry(library, found->set_stats_level, "cuFileSetStatsLevel");
  find_entry(library, found->stats_start, "cuFileStatsStart");
  find_entry(library, found->stats_stop, "cuFileStatsStop");
  find_entry(library, found->get_stats_l3, "cuFileGetStatsL3");
  if (!found->driver_open || !found->driver_close || !found->handle_register ||
      !found->handle_deregister || !found->read)
    return no_cufile("libcufile.so.0 lacks a function that every version has");
  return static_cast<const CuFile*>(found.release());
}

}  // namespace

Result<const CuFile*> CuFile::find() {
  static const Result<const CuFile*> found = load_cufile();
  return found;
}

Status CuFile::check(CuFileError error, const char* call) {
  if (error.error == 0) return {};
  return Status(Code::unsupported,
                std::string(call) + ": error " + std::to_string(error.error) +
                    (error.cuda == kCudaSuccess ? "" : ", CUDA " + std::to_string(error.cuda)));
}

CuFileCounters CuFileStats::counters() const {
  std::uint32_t gpu_count = 0;
  std::memcpy(&gpu_count, reinterpret_cast<const std::byte*>(words.data()) + kGpuCountBytes,
              sizeof(gpu_count));
  CuFileCounters sum;
  for (std::size_t gpu = 0; gpu < std::min(gpu_count, kGpusMax); ++gpu) {
    const std::uint64_t* const counters = words.data() + kGpusWord + gpu * kWordsPerGpu;
    sum.peer_reads += counters[kPeerReadsWord];
    sum.nvfs_reads += counters[kNvfsReadsWord];
    sum.posix_reads += counters[kPosixReadsWord];
  }
  return sum;
}

}  // namespace stoker
