/// \file
/// Saves from memory of a GPU, restores to it, and copies batches there; compares every byte. FOLDER
/// is for its files, and empty at first.
///
///     device FOLDER
///
/// The class Cuda loads the driver at run time, so that this needs no toolkit to be built. With one,
/// write cudaMalloc, cudaStreamCreate and cudaMemcpyAsync instead.
#include <dlfcn.h>
#include <stoker/checkpoint.h>
#include <stoker/device.h>
#include <stoker/loader.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace {

using stoker::Code;
using stoker::Result;
using stoker::Status;

/// What the example needs of the driver, on device 0. Everything lives as long as the process.
class Cuda {
 public:
  static Result<Cuda> open() {
    Cuda cuda;
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return Status(Code::unsupported, "there is no libcuda.so.1");
    const auto get = reinterpret_cast<GetFunction>(::dlsym(library, "cuGetProcAddress_v2"));
    if (get == nullptr) return Status(Code::unsupported, "the driver is older than CUDA 12");
    int (*init)(unsigned) = nullptr;
    int (*retain)(void**, int) = nullptr;
    int (*push)(void*) = nullptr;
    STOKER_TRY(find(get, init, "cuInit"));
    STOKER_TRY(find(get, retain, "cuDevicePrimaryCtxRetain"));
    STOKER_TRY(find(get, push, "cuCtxPushCurrent"));
    STOKER_TRY(find(get, cuda.mem_alloc_, "cuMemAlloc"));
    STOKER_TRY(find(get, cuda.stream_create_, "cuStreamCreate"));
    STOKER_TRY(find(get, cuda.stream_synchronize_, "cuStreamSynchronize"));
    STOKER_TRY(find(get, cuda.to_device_, "cuMemcpyHtoDAsync"));
    STOKER_TRY(find(get, cuda.to_host_, "cuMemcpyDtoHAsync"));
    void* context = nullptr;
    STOKER_TRY(check(init(0), "cuInit"));
    STOKER_TRY(check(retain(&context, 0), "cuDevicePrimaryCtxRetain"));
    STOKER_TRY(check(push(context), "cuCtxPushCurrent"));
    return cuda;
  }

  Result<std::uintptr_t> allocate(std::size_t size_bytes) const {
    unsigned long long memory = 0;
    STOKER_TRY(check(mem_alloc_(&memory, size_bytes), "cuMemAlloc"));
    return static_cast<std::uintptr_t>(memory);
  }
  Result<stoker::DeviceStream> make_stream() const {
    constexpr unsigned kNonBlocking = 1;
    stoker::DeviceStream stream;
    STOKER_TRY(check(stream_create_(&stream.handle, kNonBlocking), "cuStreamCreate"));
    return stream;
  }
  /// Enqueues a copy. `from` may change on return: it is not page-locked.
  Status upload(std::uintptr_t to, std::span<const std::byte> from,
                const stoker::DeviceStream& stream) const {
    return check(to_device_(to, from.data(), from.size(), stream.handle), "cuMemcpyHtoDAsync");
  }
  /// Returns what memory has when `stream` has come there.
  Result<std::vector<std::byte>> download(std::uintptr_t from, std::size_t size_bytes,
                                          const stoker::DeviceStream& stream) const {
    std::vector<std::byte> bytes(size_bytes);
    STOKER_TRY(check(to_host_(bytes.data(), from, size_bytes, stream.handle), "cuMemcpyDtoHAsync"));
    STOKER_TRY(check(stream_synchronize_(stream.handle), "cuStreamSynchronize"));
    return bytes;
  }

 private:
  using GetFunction = int (*)(const char*, void**, int, std::uint64_t, int*);

  template <typename Function>
  static Status find(GetFunction get, Function& function, const char* name) {
    void* found = nullptr;
    int ignored = 0;
    if (get(name, &found, 12000, 0, &ignored) != 0 || found == nullptr)
      return {Code::unsupported, std::string("the driver has no ") + name};
    function = reinterpret_cast<Function>(found);
    return {};
  }
  static Status check(int result, const char* call) {
    if (result == 0) return {};
    return {Code::io_error, std::string(call) + ": error " + std::to_string(result)};
  }

  int (*mem_alloc_)(unsigned long long*, std::size_t) = nullptr;
  int (*stream_create_)(void**, unsigned) = nullptr;
  int (*stream_synchronize_)(void*) = nullptr;
  int (*to_device_)(unsigned long long, const void*, std::size_t, void*) = nullptr;
  int (*to_host_)(void*, unsigned long long, std::size_t, void*) = nullptr;
};

Status differ(const std::string& what) {
  return {Code::corrupt, what + ": the bytes differ"};
}

Status save_and_restore(const Cuda& cuda, const std::string& folder) {
  constexpr std::uint64_t kRows = 1024;
  constexpr std::uint64_t kColumns = 4099;
  constexpr std::size_t kBytes = kRows * kColumns * sizeof(float);
  std::vector<float> values(kRows * kColumns);
  std::iota(values.begin(), values.end(), 1.0F);
  const auto bytes = std::as_bytes(std::span(values));
  const std::vector<std::byte> zeros(kBytes);

  STOKER_ASSIGN(const stoker::DeviceStream training, cuda.make_stream());
  STOKER_ASSIGN(const std::uintptr_t address, cuda.allocate(kBytes));
  const stoker::TensorView weights =
      stoker::device_tensor(stoker::TensorType::f32, {kRows, kColumns}, 0, address);
  STOKER_TRY(cuda.upload(address, bytes, training));

  // The save reads what the stream has written, and the stream goes on at once: a snapshot on the
  // device was enqueued in between.
  STOKER_ASSIGN(auto saver, stoker::Checkpointer::open({.directory = folder + "/run"}));
  STOKER_ASSIGN(const stoker::LendMemory lend,
                stoker::make_snapshot_memory(std::uint64_t{1} << 30));
  STOKER_ASSIGN(const stoker::PendingSave pending,
                saver->save(1, {{"weights", weights}},
                            {.devices = {.streams = {training}, .snapshot_memory = lend}}));
  STOKER_TRY(cuda.upload(address, zeros, training));
  STOKER_TRY(pending.wait());
  if (!pending.is_released()) return differ("a save that has ended");

  stoker::Tree trees = {{"weights", weights}};
  STOKER_TRY(saver->restore(trees, {.streams = {training}}).status());
  STOKER_ASSIGN(std::vector<std::byte> found, cuda.download(address, kBytes, training));
  if (!std::ranges::equal(found, bytes)) return differ("what was restored");

  // Two rows alone.
  STOKER_ASSIGN(const stoker::Checkpoint checkpoint, stoker::Checkpoint::open(folder + "/run"));
  STOKER_TRY(cuda.upload(address, zeros, training));
  const std::size_t two_rows = 2 * kColumns * sizeof(float);
  const stoker::ReadTarget target{.name = "weights",
                                  .offsets = {7, 0},
                                  .shape = {2, kColumns},
                                  .memory = weights.memory.first(two_rows),
                                  .device = 0};
  STOKER_TRY(checkpoint.read({&target, 1}, {training}));
  STOKER_ASSIGN(found, cuda.download(address, two_rows, training));
  if (!std::ranges::equal(found, bytes.subspan(7 * kColumns * sizeof(float), two_rows)))
    return differ("two rows");
  std::printf("saved, restored and sliced %zu bytes\n", kBytes);
  return saver->close();
}

/// A token array, as NumPy writes it.
Status write_tokens(const std::string& path, std::uint16_t count) {
  std::string file("\x93NUMPY\x01\x00\x76\x00", 10);
  file += "{'descr': '<u2', 'fortran_order': False, 'shape': (" + std::to_string(count) + ",), }";
  file.resize(127, ' ');
  file += '\n';
  std::vector<std::uint16_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), std::uint16_t{0});
  file.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(tokens[0]));
  return stoker::write_durable(path, std::as_bytes(std::span(file)));
}

Status feed_batches(const Cuda& cuda, const std::string& folder) {
  STOKER_TRY(write_tokens(folder + "/tokens.npy", 50'000));
  STOKER_ASSIGN(stoker::Dataset data, stoker::Dataset::open(folder + "/tokens.npy"));
  STOKER_ASSIGN(stoker::Tokens windows,
                stoker::Tokens::open(data, {.window = 64, .dtype = stoker::Dtype::int64}));
  STOKER_ASSIGN(const stoker::DeviceStream training, cuda.make_stream());
  STOKER_ASSIGN(const stoker::DeviceStream copies, cuda.make_stream());
  STOKER_ASSIGN(const std::shared_ptr<stoker::DeviceFeed> feed, stoker::DeviceFeed::open(copies));
  const auto open = [&](std::shared_ptr<stoker::DeviceFeed> with) {
    return stoker::Loader::open(
        {.data = windows, .batch_size = 32, .seed = 7, .feed = std::move(with)});
  };
  STOKER_ASSIGN(stoker::Loader loader, open(feed));
  STOKER_ASSIGN(stoker::Loader plain, open(nullptr));  // to compare with

  constexpr std::size_t kBytes = 32 * 64 * sizeof(std::int64_t);
  std::uintptr_t rooms[2] = {};
  for (std::uintptr_t& room : rooms) {
    STOKER_ASSIGN(room, cuda.allocate(kBytes));
  }
  for (;;) {
    STOKER_ASSIGN(std::optional<stoker::Batch> batch, loader.next());
    STOKER_ASSIGN(const std::optional<stoker::Batch> same, plain.next());
    if (!batch) break;
    const std::uintptr_t room = rooms[loader.step() % 2];
    STOKER_TRY(feed->follow(training));  // it may still read what is there
    STOKER_ASSIGN(const stoker::BatchCopy copy,
                  feed->send(*batch, {{room, batch->find(stoker::kTokens)->data}}));
    STOKER_TRY(copy.delay(training));
    // A training step would be enqueued here.
    STOKER_ASSIGN(const std::vector<std::byte> found, cuda.download(room, kBytes, training));
    if (!std::ranges::equal(found, same->find(stoker::kTokens)->data))
      return differ("batch " + std::to_string(loader.step()));
  }
  STOKER_TRY(feed->memory_failure());
  std::printf("copied %llu batches\n", static_cast<unsigned long long>(loader.step()));
  return {};
}

Status run(const std::string& folder) {
  STOKER_ASSIGN(const Cuda cuda, Cuda::open());
  STOKER_TRY(stoker::check_devices());
  STOKER_TRY(save_and_restore(cuda, folder));
  return feed_batches(cuda, folder);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: device FOLDER\n", stderr);
    return 2;
  }
  const Status status = run(argv[1]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "device: %.*s\n", static_cast<int>(status.message().size()),
               status.message().data());
  return 1;
}
