/// \file
/// OrderForecast: when chunks are needed next, from the orders that are announced.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "dataset/order/order.h"
#include "dataset/shard_cache/chunk_table.h"
#include "dataset/shard_cache/order_file.h"
#include "io/files/file_ops.h"

namespace stoker {

/// Which samples the chunks of one dataset have.
///
/// Thread safety: const methods from any thread.
class ChunkSamples {
 public:
  virtual ~ChunkSamples() = default;
  /// The samples with bytes in a chunk; nothing if the object is not of this dataset.
  virtual std::optional<SampleRange> samples_of(const ChunkId& id) const = 0;
};

/// An order that a process of this machine reads.
struct AnnouncedOrder {
  OrderPlace place;
  std::shared_ptr<const SampleOrder> order;
  /// By SampleRef::dataset. An order is forgotten when one of them is gone.
  std::vector<std::weak_ptr<const ChunkSamples>> datasets;
};

/// How far a run has come in its order; it tells the forecast.
///
/// Thread safety: every method from any thread.
class OrderProgress {
 public:
  /// The caller has received everything before this place.
  void received(std::uint64_t epoch, std::uint64_t position) noexcept {
    raise(received_, epoch * epoch_samples_ + position);
  }
  /// Reads have begun of everything before this place.
  void began(std::uint64_t epoch, std::uint64_t position) noexcept {
    raise(began_, epoch * epoch_samples_ + position);
  }

 private:
  friend class OrderForecast;
  OrderProgress(std::uint64_t epoch_samples, std::uint64_t start)
      : epoch_samples_(epoch_samples), start_(start), received_(start), began_(start) {}
  static void raise(std::atomic<std::uint64_t>& value, std::uint64_t to) noexcept {
    std::uint64_t now = value.load(std::memory_order_relaxed);
    while (now < to && !value.compare_exchange_weak(now, to, std::memory_order_relaxed)) {
    }
  }

  const std::uint64_t epoch_samples_;
  const std::uint64_t start_;
  // Places as numbers of positions from the start of epoch 0. Relaxed: figures, that publish
  // nothing.
  std::atomic<std::uint64_t> received_;
  std::atomic<std::uint64_t> began_;
};

/// Knows the orders of this process, and of every other live process those that are the same but
/// for the rank, or that are about the same single dataset. The next use of a chunk is that of the
/// sample in it that comes first, in any of these orders and on any of these ranks, in the rest of
/// the epoch or in the next one. Orders that cannot compute it (SampleOrder::next_use()) do not
/// count.
///
/// The clock is that of the order announced last: it advances with the positions received, so that
/// the order of two uses in one order does not depend on how fast it is read. Without any order it
/// is the time.
///
/// Thread safety: every method from any thread.
class OrderForecast final : public UseForecast {
 public:
  /// Orders that are kept: a run that ended may be followed by its next epoch.
  static constexpr std::size_t kOrdersMax = 4;
  /// A chunk with more samples is judged by that many of them, evenly spread.
  static constexpr std::uint64_t kSamplesMax = 4096;

  /// Announces the order of a run that begins; of an order with the same line, it takes the place.
  std::shared_ptr<OrderProgress> announce(AnnouncedOrder order);
  /// Tells the others, and hears from them, if the last time is a second ago: `folder` is that of
  /// the cache.
  void exchange(FileOps& ops, const PathAt& folder);

  double now() const override;
  std::optional<double> next_use(const ChunkId& id) const override;
  std::optional<double> use_after_reads(const ChunkId& id) const override;
  std::uint64_t version() const override;

 private:
  /// The ranks of one order on this machine.
  struct Line {
    AnnouncedOrder announced;
    Digest128 id;
    std::shared_ptr<OrderProgress> progress;
    Deadline began_at;
    std::vector<bool> ranks;          // by rank
    std::unique_ptr<OrderFile> file;  // null while exchange() writes it, and if it is of others
    bool is_mine = true;
  };
  enum class From : std::uint8_t { received, began };

  static std::optional<std::uint64_t> positions_to(const Line& line, std::uint32_t dataset,
                                                   const SampleRange& samples, std::uint64_t from);
  static double positions_per_second(const Line& line);
  std::optional<double> use_in(const Line& line, const ChunkId& id, From from) const
      STOKER_REQUIRES(mutex_);
  std::vector<Line> lines_of_others(const std::vector<OrderPlace>& places) const
      STOKER_REQUIRES(mutex_);
  double now_locked() const STOKER_REQUIRES(mutex_);
  std::optional<double> use_from(const ChunkId& id, From from) const;

  mutable Mutex mutex_;
  std::vector<Line> lines_ STOKER_GUARDED_BY(mutex_);   // the last announced is last
  std::vector<Line> others_ STOKER_GUARDED_BY(mutex_);  // of other processes alone
  std::uint64_t version_ STOKER_GUARDED_BY(mutex_) = 1;
  // The clock: its value when the last line was announced, or the time of the start.
  double base_ STOKER_GUARDED_BY(mutex_) = 0;
  const Deadline started_ = Clock::now();
  Deadline exchange_at_ STOKER_GUARDED_BY(mutex_){};
};

}  // namespace stoker
