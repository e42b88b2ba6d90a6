#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "dataset/shard_cache/cached_store.h"
#include "dataset/shard_cache/shard_cache.h"
#include "io/engine/arena.h"
#include "io/engine/engine.h"
#include "stoker/range_source.h"

namespace stoker::internal {

/// Reads ranges of CachedObjects. What is on the local disk is read many parts at a time, what the
/// page cache has of it by submit(); the rest comes from the source, whole chunks at a time, many
/// at once. A chunk that another thread or process is fetching is looked for again and again, until
/// ShardCache::Options::busy_timeout. What the cache does not take is read from the source as it
/// was requested, and so is a range whose chunk cannot be fetched as a whole: one bad place of the
/// source costs only what needs it.
///
/// Thread safety: none.
class CachedSource final : public RangeSource {
 public:
  /// Reads past the page cache at a time. Their memory is that of so many pieces, of which only
  /// what is used costs anything.
  static constexpr std::size_t kDiskReadsMax = 16;
  /// Memory for the chunks that one source fetches at a time; one chunk always fits.
  static constexpr std::uint64_t kFetchBytesMax = 4 * ChunkId::kSizeMax;

  CachedSource(std::shared_ptr<ShardCache> cache, std::unique_ptr<RangeSource> source,
               std::uint32_t depth);
  ~CachedSource() override;

  std::uint32_t depth_max() const noexcept override { return depth_; }
  Result<std::size_t> submit(std::span<const Request> requests) override;
  Result<std::size_t> reap(std::span<Completion> out, std::size_t count_min,
                           nanoseconds timeout) override;
  std::size_t in_flight() const noexcept override { return in_flight_; }
  Status cancel(std::uint64_t /*tag*/) override { return {}; }

 private:
  /// A request that was accepted.
  struct Job {
    std::uint64_t tag = 0;
    std::int64_t bytes = 0;
    int error = 0;
    Status failure = {};  ///< What the source says of the error.
    std::size_t parts_left = 0;
  };
  /// The part of a request that lies in one chunk.
  struct Part {
    Job* job = nullptr;
    const CachedObject* object = nullptr;
    ChunkId chunk;
    std::uint64_t offset_bytes = 0;  ///< In the object.
    std::span<std::byte> out;
    Deadline deadline = Deadline::max();  ///< Set while another fetches it.
    bool is_retried = false;              ///< A read past the page cache failed.
  };
  /// A read of a chunk file past the page cache, and its memory, which is used again.
  struct DiskRead {
    std::byte* memory = nullptr;
    Part part;
    std::shared_ptr<const ChunkFile> chunk;
    ChunkFile::DirectRead read;
  };
  /// A request to the source: of a chunk, or of a part.
  struct Read {
    Part part;  ///< Of a chunk: the part that it was begun for.
    bool is_chunk = false;
    ChunkFetch fetch;
    std::vector<std::byte> memory;
    std::vector<Part> parts;  ///< Of a chunk: the parts that wait for it.
  };

  void accept(const Request& request);
  void take(Part part);
  bool join(const Part& part);
  bool start_disk(const Part& part);
  Status reap_disk(nanoseconds timeout);
  void disk_done(std::size_t slot, std::int64_t result);
  void start_chunk(Part part, ChunkFetch fetch);
  void start_direct(const Part& part);
  void start(std::list<Read>::iterator read);
  void look_again();
  Status feed();
  void done(const Completion& completion);
  void chunk_done(Read& read, std::int64_t result);
  void finish(const Part& part, std::int64_t result, const Status& failure = {});

  const std::shared_ptr<ShardCache> cache_;
  const std::uint32_t depth_;
  std::size_t in_flight_ = 0;
  std::list<Job> jobs_;
  std::deque<Completion> done_;
  std::list<Read> reads_;
  std::unordered_map<std::uint64_t, std::list<Read>::iterator> reads_in_flight_;  // by tag
  std::vector<Request> to_submit_;
  std::vector<Part> busy_;                     // fetched by others
  std::vector<Part> deferred_;                 // waiting for memory
  std::vector<std::vector<std::byte>> spare_;  // memory of chunks, used again
  std::uint64_t fetch_bytes_ = 0;
  std::uint64_t next_number_ = 0;
  std::deque<Part> disk_waiting_;     // for a free read
  std::vector<DiskRead> disk_reads_;  // in a fixed place: engine_ writes to their memory
  std::vector<std::size_t> disk_free_;
  std::unique_ptr<MappedArena> disk_memory_;
  bool has_tried_engine_ = false;
  std::unique_ptr<Engine> engine_;       // made when it is needed; null if that failed
  std::unique_ptr<RangeSource> source_;  // destroyed first: it writes into reads_
};

}  // namespace stoker::internal
