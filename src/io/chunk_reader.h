#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>

#include "io/engine/arena.h"
#include "io/engine/engine_factory.h"
#include "io/files/file.h"

namespace stoker {

/// Provides the files that read_chunks() reads from.
///
/// Thread safety: implementations are called from several threads at once.
class ChunkFiles {
 public:
  virtual ~ChunkFiles() = default;
  /// Returns the file, which stays open while the result exists.
  virtual Result<std::shared_ptr<const File>> get(std::uint32_t index) = 0;
};

/// A range of a file.
struct ChunkRead {
  std::uint32_t file = 0;  ///< Index for ChunkFiles::get().
  std::uint64_t offset_bytes = 0;
  std::size_t size_bytes = 0;
  /// Destination, exactly `size_bytes` long, or empty. The range is read into it if the device
  /// accepts the address; otherwise the destination is not written.
  std::span<std::byte> into = {};
};

/// Called once for each range, on the thread that read it. An error that a method returns ends
/// read_chunks().
///
/// Thread safety: implementations are called from several threads at once.
class ChunkHandler {
 public:
  virtual ~ChunkHandler() = default;
  /// `bytes` are those of range `index`, either in its `into` or in memory that is reused after
  /// this call, once may_reuse() allows it.
  virtual Status chunk_read(std::size_t index, std::span<const std::byte> bytes) = 0;
  /// Asked before memory in which chunk_read() may have got bytes is written again: false if
  /// something still reads them, such as a copy to a device. With `wait`, waits until nothing does.
  virtual Result<bool> may_reuse(std::span<const std::byte> /*memory*/, bool /*wait*/) {
    return true;
  }
  /// Range `index` could not be read. Return OK to continue with the other ranges.
  virtual Status chunk_failed(std::size_t index, const Status& status) = 0;
};

struct ChunkReadOptions {
  EngineFactory engine = {};     ///< Empty: the best engine available.
  std::size_t thread_count = 0;  ///< 0: one per core, at most 16.
  std::uint32_t depth = 4;       ///< Ranges in flight per thread; fewer with many threads.
  /// Ranges in flight over all threads, at least one for each: no disk is faster with more, and
  /// each may need its own memory.
  std::uint32_t in_flight_max = 32;
  std::stop_token stop = {};
  /// For memory that a device reads: makes the memory of each thread, which outlives read_chunks()
  /// as long as ChunkHandler::may_reuse() would say false. Empty: mapped memory.
  ArenaMaker arena = {};
  /// Ranges per thread whose memory may still be in use while `depth` others are in flight.
  std::uint32_t spare = 0;
};

/// Reads all ranges with several threads, each with its own engine: cached ranges from the page
/// cache, others with direct I/O where that is faster. Each thread calls the handler while the
/// device works on the next ranges. When this function returns, nothing is in flight and no handler
/// runs. Returns `cancelled` if `stop` is requested.
Status read_chunks(ChunkFiles& files, std::span<const ChunkRead> reads, ChunkHandler& handler,
                   const ChunkReadOptions& options);

}  // namespace stoker
