#include "cli/loader/tune_contender.h"

#include "cli/loader/stream_report.h"

namespace stoker::cli {

Status Contender::start() {
  LoaderRunOptions options = plan_.options;
  options.threads = row_.setting.threads;
  options.depth = row_.setting.depth;
  options.end_epoch.reset();
  if (at_) options.cursor = *at_;
  STOKER_ASSIGN(loader_, LoaderRun::start(std::move(options)));
  return {};
}

Status Contender::measure(nanoseconds slice, Deadline limit, const std::stop_token& stop) {
  if (!loader_) row_.failure = start();
  if (row_.failure.ok()) STOKER_TRY(take(slice, limit, stop));
  if (!row_.failure.ok()) loader_.reset();
  return {};
}

Status Contender::take(nanoseconds slice, Deadline limit, const std::stop_token& stop) {
  const std::stop_callback on_stop(stop, [this] { loader_->stop(); });
  const Deadline first = Clock::now();
  std::optional<Deadline> began;
  std::uint64_t samples = 0;
  for (std::size_t taken = 1;; ++taken) {
    const NextBatch next = loader_->next(limit);
    const Deadline now = Clock::now();
    if (next.kind == NextBatch::Kind::stopped) return Status(Code::cancelled, "stopped");
    if (next.kind == NextBatch::Kind::timeout) return Status(Code::unavailable, "out of time");
    if (next.kind != NextBatch::Kind::batch) {
      row_.failure = next.status;
      return {};
    }
    at_ = next.batch.cursor();
    if (began) {
      samples += next.batch.size();
      if (now - *began >= slice / 4 * 3) {
        row_.samples_per_s.push_back(static_cast<double>(samples) /
                                     std::chrono::duration<double>(now - *began).count());
        break;
      }
    } else if (now - first >= slice / 4 &&
               (taken > loader_->stats().depth || now - first >= slice)) {
      began = now;
    }
    simulate_step(plan_.step_time, stop);
  }
  const LoaderStats stats = loader_->stats();
  if (stats.samples > 0)
    row_.bytes_per_sample = static_cast<double>(stats.bytes) / static_cast<double>(stats.samples);
  row_.page_cache_share = page_cache_share(stats.fetch);
  return {};
}

}  // namespace stoker::cli
