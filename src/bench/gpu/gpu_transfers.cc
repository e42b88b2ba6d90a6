#include "bench/gpu/gpu_transfers.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "io/engine/buffer_pool.h"

namespace stoker {
namespace {

Status cancelled() {
  return Status(Code::cancelled, "interrupted");
}

/// Reads exactly `room.size()` bytes.
Status read_at(int fd, std::span<std::byte> room, std::uint64_t offset) {
  while (!room.empty()) {
    const ssize_t got = ::pread(fd, room.data(), room.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return Status(Code::io_error, got == 0 ? "the file is shorter than it was" : "cannot read",
                    got == 0 ? 0 : errno);
    room = room.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

/// One thread's part: two blocks in turn, each read into only after its copy has ended.
class Reader {
 public:
  static constexpr std::size_t kSlots = 2;

  static Result<std::unique_ptr<Reader>> make(const std::shared_ptr<const CudaDevice>& device,
                                              std::span<std::byte> memory) {
    std::unique_ptr<Reader> reader(new Reader(device, memory));
    STOKER_ASSIGN(reader->stream_, OwnedCudaStream::make(device));
    STOKER_ASSIGN(reader->room_, DeviceMemory::make(device, reader->block_bytes_));
    for (std::unique_ptr<OwnedCudaEvent>& event : reader->events_) {
      STOKER_ASSIGN(event, OwnedCudaEvent::make(device));
    }
    return reader;
  }

  Status run(int fd, std::atomic<std::uint64_t>& next_block, std::uint64_t total_bytes,
             const std::stop_token& stop) {
    const CudaScope scope(*device_);
    STOKER_TRY(scope.status());
    for (std::size_t turn = 0;; ++turn) {
      const std::uint64_t at = next_block.fetch_add(1) * block_bytes_;
      if (at >= total_bytes) break;
      if (stop.stop_requested()) return cancelled();
      const std::size_t slot = turn % kSlots;
      if (turn >= kSlots) STOKER_TRY(events_[slot]->synchronize());
      const std::uint64_t size = std::min<std::uint64_t>(block_bytes_, total_bytes - at);
      const std::span<std::byte> block = memory_.subspan(slot * block_bytes_, size);
      STOKER_TRY(read_at(fd, block, at));
      const CudaDriver& driver = device_->driver();
      STOKER_TRY(driver.check(
          driver.memcpy_htod_async(room_->get(), block.data(), block.size(), stream_->get()),
          "cuMemcpyHtoDAsync"));
      STOKER_TRY(events_[slot]->record(stream_->get()));
      last_ = {.offset = at, .size = block.size()};
    }
    return finish();
  }

  /// Compares the last block, after the time was taken.
  Status check(int fd) {
    if (last_.size == 0) return {};
    const std::span<std::byte> there = memory_.first(last_.size);
    const std::span<std::byte> here = memory_.subspan(block_bytes_, last_.size);
    std::ranges::fill(there, std::byte{0});
    {
      const CudaScope scope(*device_);
      STOKER_TRY(scope.status());
      const CudaDriver& driver = device_->driver();
      STOKER_TRY(driver.check(
          driver.memcpy_dtoh_async(there.data(), room_->get(), last_.size, stream_->get()),
          "cuMemcpyDtoHAsync"));
      STOKER_TRY(finish());
    }
    STOKER_TRY(read_at(fd, here, last_.offset));
    if (std::memcmp(there.data(), here.data(), last_.size) == 0) return {};
    return Status(Code::corrupt, "the bytes on the device differ from those of the file");
  }

 private:
  struct Block {
    std::uint64_t offset = 0;
    std::size_t size = 0;
  };
  Reader(std::shared_ptr<const CudaDevice> device, std::span<std::byte> memory)
      : device_(std::move(device)),
        memory_(memory),
        block_bytes_(memory.size() / kSlots / BufferPool::kAlignBytes * BufferPool::kAlignBytes) {}

  Status finish() const {
    const CudaDriver& driver = device_->driver();
    return driver.check(driver.stream_synchronize(stream_->get()), "cuStreamSynchronize");
  }

  const std::shared_ptr<const CudaDevice> device_;
  const std::span<std::byte> memory_;
  const std::size_t block_bytes_;
  std::unique_ptr<DeviceMemory> room_;
  std::unique_ptr<OwnedCudaEvent> events_[kSlots];
  Block last_;
  std::unique_ptr<OwnedCudaStream> stream_;  // last: it waits for its work
};

}  // namespace

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::make(std::shared_ptr<const CudaDevice> device,
                                                         std::size_t size_bytes) {
  const CudaScope scope(*device);
  STOKER_TRY(scope.status());
  CudaPointer memory = 0;
  STOKER_TRY(device->driver().check(device->driver().mem_alloc(&memory, size_bytes), "cuMemAlloc"));
  return std::unique_ptr<DeviceMemory>(new DeviceMemory(std::move(device), memory));
}

DeviceMemory::~DeviceMemory() {
  const CudaScope scope(*device_);
  if (scope.status().ok()) static_cast<void>(device_->driver().mem_free(memory_));
}

Result<nanoseconds> time_copies(const std::shared_ptr<const CudaDevice>& device,
                                GpuDirection direction, std::span<std::byte> host,
                                std::uint64_t total_bytes, const std::stop_token& stop) {
  STOKER_ASSIGN(const std::unique_ptr<DeviceMemory> room, DeviceMemory::make(device, host.size()));
  STOKER_ASSIGN(const std::unique_ptr<OwnedCudaStream> stream, OwnedCudaStream::make(device));
  const CudaScope scope(*device);
  STOKER_TRY(scope.status());
  const CudaDriver& driver = device->driver();
  const auto copy = [&](std::size_t size) {
    return direction == GpuDirection::to_device
               ? driver.check(
                     driver.memcpy_htod_async(room->get(), host.data(), size, stream->get()),
                     "cuMemcpyHtoDAsync")
               : driver.check(
                     driver.memcpy_dtoh_async(host.data(), room->get(), size, stream->get()),
                     "cuMemcpyDtoHAsync");
  };
  const auto finish = [&] {
    return driver.check(driver.stream_synchronize(stream->get()), "cuStreamSynchronize");
  };
  STOKER_TRY(copy(host.size()));  // an idle link has to wake up first
  STOKER_TRY(finish());
  const Deadline began = Clock::now();
  for (std::uint64_t at = 0; at < total_bytes; at += host.size()) {
    if (stop.stop_requested()) {
      static_cast<void>(finish());
      return cancelled();
    }
    STOKER_TRY(
        copy(static_cast<std::size_t>(std::min<std::uint64_t>(host.size(), total_bytes - at))));
  }
  STOKER_TRY(finish());
  return Clock::now() - began;
}

Result<nanoseconds> time_reads(const std::shared_ptr<const CudaDevice>& device, int fd,
                               std::span<std::byte> ring, std::uint64_t total_bytes,
                               std::size_t threads, const std::stop_token& stop) {
  const std::size_t part =
      ring.size() / threads / BufferPool::kAlignBytes * BufferPool::kAlignBytes;
  std::vector<std::unique_ptr<Reader>> readers(threads);
  for (std::size_t i = 0; i < threads; ++i) {
    STOKER_ASSIGN(readers[i], Reader::make(device, ring.subspan(i * part, part)));
  }
  std::atomic<std::uint64_t> next_block = 0;
  std::vector<Status> statuses(threads);
  const Deadline began = Clock::now();
  {
    std::vector<std::jthread> running;
    for (std::size_t i = 0; i < threads; ++i)
      running.emplace_back(
          [&, i] { statuses[i] = readers[i]->run(fd, next_block, total_bytes, stop); });
  }
  const nanoseconds elapsed = Clock::now() - began;
  for (const Status& status : statuses) STOKER_TRY(status);
  for (const std::unique_ptr<Reader>& reader : readers) STOKER_TRY(reader->check(fd));
  return elapsed;
}

}  // namespace stoker
