#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind.h"
#include "dataset/batch/batch_data.h"
#include "dataset/loader/loader_run.h"
#include "gil.h"
#include "gpu/cuda_feed.h"
#include "raise.h"
#include "stoker/batch.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

/// Copies that nothing can change. nanobind has no const holders.
struct CopyHandle {
  std::shared_ptr<const CudaFeed::Copy> copy;
};

CudaStream stream_of(std::uintptr_t handle) {
  return reinterpret_cast<CudaStream>(handle);
}

/// A feed that can be closed while it is in use. The GIL guards the pointer, and is never held
/// during slow work.
class FeedHandle {
 public:
  FeedHandle(int ordinal, std::uintptr_t stream)
      : feed_(value_or_raise(without_gil([&] { return make(ordinal, stream_of(stream)); }))) {}
  FeedHandle(const FeedHandle&) = delete;
  FeedHandle& operator=(const FeedHandle&) = delete;
  ~FeedHandle() { close(); }

  std::shared_ptr<CudaFeed> get() const {
    if (!feed_) throw nb::value_error("these copies are closed");
    return feed_;
  }
  /// The last owner waits for the copies.
  void close() {
    if (std::shared_ptr<CudaFeed> mine = std::move(feed_)) {
      const ReleasedGil nogil;
      mine.reset();
    }
  }

 private:
  static Result<std::shared_ptr<CudaFeed>> make(int ordinal, CudaStream stream) {
    STOKER_ASSIGN(const CudaDriver* driver, CudaDriver::find());
    STOKER_ASSIGN(std::shared_ptr<const CudaDevice> device, CudaDevice::retain(*driver, ordinal));
    STOKER_ASSIGN(std::unique_ptr<CudaFeed> feed, CudaFeed::make(std::move(device), stream));
    return std::shared_ptr<CudaFeed>(std::move(feed));
  }
  std::shared_ptr<CudaFeed> feed_;
};

using PieceArguments = std::tuple<std::uint64_t, std::uintptr_t, std::size_t>;

/// As with LoaderRun.next(), a returned value could be lost: the copies are appended to `into`.
void send(const FeedHandle& handle, Batch& batch, const std::vector<PieceArguments>& arguments,
          nb::list into) {
  std::vector<CudaFeed::Piece> pieces;
  for (const auto& [to, from, size] : arguments)
    pieces.push_back({.to = to, .from = {reinterpret_cast<const std::byte*>(from), size}});
  std::shared_ptr<CudaFeed> feed = handle.get();
  // The addresses would be those of memory that the loader may have filled again.
  if (!batch.has_arrays())
    throw nb::value_error("this batch was sent already: its arrays are gone");
  Lease arrays = internal::BatchInside::take_arrays(batch);
  Result<std::shared_ptr<const CudaFeed::Copy>> copy = without_gil([&] {
    Result<std::shared_ptr<const CudaFeed::Copy>> sent = feed->send(pieces, std::move(arrays));
    feed.reset();
    return sent;
  });
  into.append(nb::cast(CopyHandle{value_or_raise(std::move(copy))}));
}

nb::dict stats(const FeedHandle& handle) {
  const CudaFeed::Stats stats = handle.get()->stats();
  nb::dict out;
  out["device_copies"] = stats.copies;
  out["device_bytes"] = stats.bytes;
  out["device_copy_s"] = std::chrono::duration<double>(stats.busy).count();
  return out;
}

/// Creates a stream that lives as long as the process: torch's allocator refers to it in memory
/// that it has once used there.
std::uintptr_t new_cuda_stream(int ordinal) {
  const auto make = [&]() -> Result<std::unique_ptr<OwnedCudaStream>> {
    STOKER_ASSIGN(const CudaDriver* driver, CudaDriver::find());
    STOKER_ASSIGN(std::shared_ptr<const CudaDevice> device, CudaDevice::retain(*driver, ordinal));
    return OwnedCudaStream::make(std::move(device));
  };
  return reinterpret_cast<std::uintptr_t>(value_or_raise(without_gil(make)).release()->get());
}

}  // namespace

void bind_feed(nb::module_& module) {
  module.def("new_cuda_stream", &new_cuda_stream, "device"_a,
             "Creates a stream on a device that the process uses; returns its handle. It is never "
             "destroyed.");
  module.def(
      "cuda_failure",
      []() -> std::optional<std::string> {
        const Status found = without_gil([] { return CudaDriver::find().status(); });
        return found.ok() ? std::nullopt : std::optional(std::string(found.message()));
      },
      "Returns why the CUDA driver cannot be used; None if it can.");
  nb::class_<CopyHandle>(module, "CudaCopy", "The copies of one batch to a GPU.")
      .def(
          "delay",
          [](const CopyHandle& self, std::uintptr_t stream) {
            raise_if_failed(without_gil([&] { return self.copy->delay(stream_of(stream)); }));
          },
          "stream"_a, "What the stream gets from now on waits for them.");
  nb::class_<FeedHandle>(module, "CudaFeed",
                         "Copies batches to a GPU, ahead of their use and on the given stream.")
      .def(nb::init<int, std::uintptr_t>(), "device"_a, "stream"_a)
      .def(
          "lend_memory",
          [](const FeedHandle& self, LoaderRunOptions& options) {
            options.array_memory = self.get()->memory();
          },
          "options"_a, "Makes a run put its arrays into memory that the GPU copies directly.")
      .def("send", &send, "batch"_a, "pieces"_a, "into"_a,
           nb::sig("def send(self, batch: Batch, pieces: list[tuple[int, int, int]], into: "
                   "list[CudaCopy]) -> None"),
           "Begins copies, each to a device's address, from an address, of a number of bytes. The "
           "batch's arrays are gone then. Appends the copies to `into`.")
      .def(
          "memory_failure",
          [](const FeedHandle& self) -> std::optional<std::string> {
            const Status status = self.get()->memory_failure();
            return status.ok() ? std::nullopt : std::optional(std::string(status.message()));
          },
          "Returns why memory could not be pinned, if it could not: copies are slower then.")
      .def("stats", &stats, nb::sig("def stats(self) -> dict[str, Any]"))
      .def("close", &FeedHandle::close, "Waits for the copies.");
}

}  // namespace stoker::python
