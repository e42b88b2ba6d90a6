#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>

#include "io/engine/engine_factory.h"
#include "io/files/file.h"

namespace stoker {

/// The files that ranges are read from.
///
/// Thread safety: implementations are called from several threads at once.
class ChunkFiles {
 public:
  virtual ~ChunkFiles() = default;
  /// Open, and open for as long as the result is kept.
  virtual Result<std::shared_ptr<const File>> get(std::uint32_t index) = 0;
};

/// A range of a file.
struct ChunkRead {
  std::uint32_t file = 0;  ///< Which of the files.
  std::uint64_t offset_bytes = 0;
  std::size_t size_bytes = 0;
  /// Where the bytes belong, exactly as long; empty if nowhere as a whole. Read into directly where
  /// the device accepts the address, else not touched.
  std::span<std::byte> into = {};
};

/// Hears of each range once, on whichever thread read it. An error ends everything.
///
/// Thread safety: implementations are called from several threads at once.
class ChunkHandler {
 public:
  virtual ~ChunkHandler() = default;
  /// `bytes` are those of range `index`, in its own place or in memory that is used again when this
  /// returns.
  virtual Status chunk_read(std::size_t index, std::span<const std::byte> bytes) = 0;
  /// Range `index` could not be read. OK goes on with the others.
  virtual Status chunk_failed(std::size_t index, const Status& status) = 0;
};

struct ChunkReadOptions {
  EngineFactory engine = {};     ///< Nothing: the best one here.
  std::size_t thread_count = 0;  ///< 0: one per core, at most 16.
  std::uint32_t depth = 4;       ///< Ranges in flight for each thread; fewer if there are many.
  std::stop_token stop = {};
};

/// Reads all ranges, several threads with an engine each: past the page cache what is cold, from it
/// what is not. Each thread handles what has come while the device works on the next. When this
/// returns nothing is in flight and no handler runs. `cancelled` if `stop` fires.
Status read_chunks(ChunkFiles& files, std::span<const ChunkRead> reads, ChunkHandler& handler,
                   const ChunkReadOptions& options);

}  // namespace stoker
