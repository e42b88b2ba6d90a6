#include "cli/loader/tune_search.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "cli/loader/tune_contender.h"
#include "cli/progress_line.h"
#include "io/engine/residency.h"
#include "io/files/file_ops.h"

namespace stoker::cli {
namespace {

constexpr std::size_t kRounds = 3;
constexpr double kStepGainMin = 0.02;
constexpr std::array<std::size_t, 5> kDepths = {2, 4, 8, 16, 32};
constexpr std::array kPolicies = {CachePolicy::automatic, CachePolicy::buffered,
                                  CachePolicy::direct, CachePolicy::drop_behind};

std::vector<std::size_t> thread_counts(std::size_t most) {
  std::vector<std::size_t> counts;
  for (std::size_t count = 1; count < most; count *= 2) counts.push_back(count);
  counts.push_back(most);
  return counts;
}

/// Thread safety: none.
class Search {
 public:
  Search(const LoaderArguments& arguments, const PlannedRun& plan, const TuneOptions& options,
         Context& context)
      : arguments_(arguments),
        plan_(plan),
        options_(options),
        context_(context),
        line_(context, arguments.dataset.verbose),
        began_(Clock::now()),
        limit_(deadline_after(options.time / 10 * 6, began_)),
        threads_(thread_counts(options.threads_max)) {
    const std::size_t candidates = kPolicies.size() + 1 + threads_.size() + 1 + kDepths.size();
    step_count_ = kRounds * candidates + 2 * kPairsEnough;
    // The last step decides, so its runs are longer. Both leave time for starting loaders.
    slice_ = options.time / 20 * 9 / static_cast<std::int64_t>(kRounds * candidates);
    last_slice_ = options.time / 20 * 7 / static_cast<std::int64_t>(2 * kPairsEnough);
  }

  Result<TuneReport> run() {
    Status status = explore();
    if (status.code() == Code::unavailable) {  // the last step has its own time
      report_.is_cut_short = true;
      status = {};
    }
    limit_ = deadline_after(options_.time, began_);
    if (status.ok() && report_.best != TuneSetting()) status = confirm();
    line_.clear();
    if (status.code() == Code::unavailable)
      report_.is_cut_short = true;
    else if (!status.ok())
      return status;
    STOKER_TRY(check_automatic());
    report_.is_cold = options_.cold;
    report_.recommended = recommend(report_);
    report_.elapsed = Clock::now() - began_;
    return std::move(report_);
  }

 private:
  Status explore() {
    std::vector<TuneSetting> candidates;
    for (const CachePolicy policy : kPolicies) candidates.push_back({.policy = policy});
    STOKER_TRY(step(candidates));
    candidates = {report_.best};
    for (const std::size_t threads : threads_)
      candidates.push_back({.policy = report_.best.policy, .threads = threads});
    STOKER_TRY(step(candidates));
    candidates = {report_.best};
    for (const std::size_t depth : kDepths)
      if (depth >= report_.best.threads)
        candidates.push_back(
            {.policy = report_.best.policy, .threads = report_.best.threads, .depth = depth});
    return step(candidates);
  }

  /// Measures the candidates in turns, and makes the fastest `best` if it beats the first one by 2
  /// %.
  Status step(const std::vector<TuneSetting>& candidates) {
    std::vector<Contender> contenders;
    for (const TuneSetting& setting : candidates) {
      STOKER_ASSIGN(const PlannedRun* const plan, plan_for(setting.policy));
      contenders.emplace_back(*plan, setting);
    }
    Status status;
    for (std::size_t round = 0; round < kRounds && status.ok(); ++round) {
      for (std::size_t i = 0; i < contenders.size() && status.ok(); ++i) {
        // Each round starts with another candidate, so that none is always measured after a busy
        // one.
        Contender& contender = contenders[(i + round) % contenders.size()];
        if (!contender.is_possible()) continue;
        status = measure(contender, slice_);
        contender.rest();
      }
    }
    for (const Contender& contender : contenders) add_row(contender.row());
    STOKER_TRY(status);
    double best = median_of(contenders.front().row().samples_per_s) * (1 + kStepGainMin);
    for (const Contender& contender : contenders) {
      const double rate = median_of(contender.row().samples_per_s);
      if (rate <= best) continue;
      best = rate;
      report_.best = contender.row().setting;
    }
    return {};
  }

  /// Measures automatic and the best in turns, with alternating order.
  Status confirm() {
    STOKER_ASSIGN(const PlannedRun* const plan, plan_for(report_.best.policy));
    Contender automatic(plan_, {});
    Contender best(*plan, report_.best);
    Status status;
    for (std::size_t pair = 0; pair < kPairsEnough && status.ok(); ++pair) {
      Contender& first = pair % 2 == 0 ? automatic : best;
      Contender& second = pair % 2 == 0 ? best : automatic;
      status = measure(first, last_slice_);
      if (status.ok()) status = measure(second, last_slice_);
    }
    report_.automatic_again = automatic.row().samples_per_s;
    report_.best_again = best.row().samples_per_s;
    report_.verdict = compare_pairs(report_.automatic_again, report_.best_again);
    return status;
  }

  Status measure(Contender& contender, nanoseconds slice) {
    const TuneSetting& setting = contender.row().setting;
    line_.show({.step = std::min(report_.run_count, step_count_ - 1),
                .step_count = step_count_,
                .what = describe(setting)});
    if (options_.cold) STOKER_TRY(evict_shards());
    if (Clock::now() >= limit_) return Status(Code::unavailable, "out of time");
    ++report_.run_count;
    return contender.measure(slice, limit_, context_.stop);
  }

  static std::string describe(const TuneSetting& setting) {
    const auto number = [](std::size_t n) { return n == 0 ? "auto" : std::to_string(n); };
    return fmt::format("policy {}, threads {}, depth {}", cache_policy_name(setting.policy),
                       number(setting.threads), number(setting.depth));
  }

  Status evict_shards() const {
    for (const auto& shard : plan_.dataset->source().shards()) {
      STOKER_ASSIGN(const UniqueFd fd, posix_file_ops().open(shard.path, O_RDONLY));
      STOKER_TRY(evict(fd.get()));
    }
    return {};
  }

  /// Returns the plan with that policy; a policy belongs to a dataset, so each has its own.
  Result<const PlannedRun*> plan_for(CachePolicy policy) {
    if (policy == plan_.policy) return &plan_;
    const auto found = plans_.find(policy);
    if (found != plans_.end()) return &found->second;
    LoaderArguments arguments = arguments_;
    arguments.policy = cache_policy_name(policy);
    STOKER_ASSIGN(PlannedRun plan, plan_loader(arguments, context_));
    return &plans_.emplace(policy, std::move(plan)).first->second;
  }

  void add_row(const TuneRow& row) {
    const auto same = std::ranges::find(report_.rows, row.setting, &TuneRow::setting);
    if (same == report_.rows.end()) {
      report_.rows.push_back(row);
      return;
    }
    same->samples_per_s.insert(same->samples_per_s.end(), row.samples_per_s.begin(),
                               row.samples_per_s.end());
    same->page_cache_share = std::max(same->page_cache_share, row.page_cache_share);
    if (same->failure.ok()) same->failure = row.failure;
  }

  /// Without measurements of automatic there is no report.
  Status check_automatic() const {
    for (const TuneRow& row : report_.rows) {
      if (row.setting != TuneSetting() || !row.samples_per_s.empty()) continue;
      if (!row.failure.ok()) return row.failure;
      return Status(Code::unavailable, "no run finished in time: raise --time");
    }
    return {};
  }

  const LoaderArguments& arguments_;
  const PlannedRun& plan_;
  const TuneOptions& options_;
  Context& context_;
  ProgressLine line_;
  const Deadline began_;
  Deadline limit_;  // of the exploration, then of everything
  const std::vector<std::size_t> threads_;
  std::size_t step_count_ = 0;
  nanoseconds slice_{0};
  nanoseconds last_slice_{0};
  std::map<CachePolicy, PlannedRun> plans_;
  TuneReport report_;
};

}  // namespace

Result<TuneReport> search_settings(const LoaderArguments& arguments, const PlannedRun& plan,
                                   const TuneOptions& options, Context& context) {
  return Search(arguments, plan, options, context).run();
}

}  // namespace stoker::cli
