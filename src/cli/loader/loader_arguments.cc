#include "cli/loader/loader_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>

#include "cli/engine_choice.h"
#include "cli/option_value.h"
#include "cli/work_progress.h"
#include "dataset/loader/loader_order.h"
#include "dataset/tokens/token_fingerprint.h"

namespace stoker::cli {
namespace {

constexpr std::uint64_t kBatchDefault = 64;
constexpr std::size_t kMemoryDefault = std::size_t{512} << 20;
constexpr double kStepMsMax = 86'400'000;  // a day

Status misuse(const std::string& message) {
  return Status(Code::invalid_argument, message);
}

/// "auto" is 0.
Result<std::size_t> parse_count(std::string_view option, const std::string& text) {
  if (text == "auto") return std::size_t{0};
  std::size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end || number == 0)
    return misuse(fmt::format("{} {}: give \"auto\", or a number from 1", option, text));
  return number;
}

Result<Shuffle> shuffle_from(const std::string& text) {
  if (text == "none") return Shuffle::off;
  Result<Shuffle> shuffle = parse_shuffle(text);
  if (shuffle.ok()) return shuffle;
  return misuse(fmt::format("--shuffle {}: global, block, off or resampled", text));
}

Result<BatchCutOptions> cut_from(const LoaderArguments& arguments, Shuffle shuffle) {
  if (arguments.batch_size != 0 && arguments.global_batch_size != 0)
    return misuse("--batch-size is of each rank, --global-batch-size of all together: give one");
  const std::uint64_t world = arguments.world_size;
  if (world == 0 || arguments.rank >= world)
    return misuse(fmt::format("--rank {} --world-size {}: ranks go from 0 to the world size less 1",
                              arguments.rank, world));
  const std::uint64_t each = arguments.batch_size != 0 ? arguments.batch_size : kBatchDefault;
  if (each > BatchCut::kGlobalBatchMax / world)
    return misuse(fmt::format("--batch-size {}: at most {} samples over all ranks", each,
                              BatchCut::kGlobalBatchMax));
  BatchCutOptions cut{.global_batch_size = each * world,
                      .rank = arguments.rank,
                      .world_size = world,
                      .tail = shuffle == Shuffle::off ? Tail::keep : Tail::drop};
  if (arguments.global_batch_size != 0) cut.global_batch_size = arguments.global_batch_size;
  if (!arguments.tail.empty()) {
    const Result<Tail> tail = parse_tail(arguments.tail);
    if (!tail.ok()) return tail.status().with_context("--tail");
    cut.tail = *tail;
  }
  return cut;
}

Result<nanoseconds> step_time_from(double milliseconds) {
  if (!(milliseconds >= 0 && milliseconds <= kStepMsMax))
    return misuse("--step-ms: milliseconds from 0 on, up to a day");
  return std::chrono::duration_cast<nanoseconds>(
      std::chrono::duration<double, std::milli>(milliseconds));
}

/// Settles the order and what depends on it.
Status set_order(LoaderSetup& plan, const OrderOptions& wish) {
  LoaderOptions& options = plan.options;
  options.cursor.order = wish;
  STOKER_ASSIGN(options.cursor.order, resolve_order(options));
  STOKER_ASSIGN(std::unique_ptr<SampleOrder> made, make_order(options.cursor.order));
  options.order = std::move(made);
  options.cut.epoch_samples = options.cursor.order.sample_count;
  const BatchCutOptions& cut = options.cut;
  if (cut.tail == Tail::drop && cut.epoch_samples < cut.global_batch_size)
    return misuse(
        fmt::format("{}: {} do not fill one batch of {}, and --tail drop leaves out what "
                    "fills none; give a --batch-size of at most {}, or --tail keep",
                    plan.name, counted(cut.epoch_samples, "sample"), cut.global_batch_size,
                    std::max<std::uint64_t>(1, cut.epoch_samples / cut.world_size)));
  STOKER_ASSIGN(const BatchCut checked, BatchCut::make(options.cut));
  options.cursor.tail = options.cut.tail;
  options.cursor.global_batch_size = checked.options().global_batch_size;
  return {};
}

Status open_into(LoaderSetup& plan, const LoaderArguments& arguments, Context& context) {
  const auto groups = group_datasets(arguments.dataset.uris);
  if (groups.size() != 1)
    return misuse("one dataset at a time: a directory, or files of which all are one dataset");
  DatasetArguments dataset = arguments.dataset;
  dataset.policy = plan.policy;
  STOKER_ASSIGN(plan.dataset, open_dataset(groups.front(), dataset, context));
  plan.name = dataset_name(groups.front(), *plan.dataset);
  if (plan.dataset->sample_count() == 0)
    return Status(Code::not_found, plan.name + ": there are no samples in it");
  plan.options.datasets = {plan.dataset};
  plan.options.cursor.fingerprint = plan.dataset->index().fingerprint();
  Result<TokenRows> rows = cut_tokens(arguments.tokens, plan.options, context);
  if (!rows.ok()) return rows.status().with_context(plan.name);
  plan.rows = *rows;
  return {};
}

}  // namespace

void add_loader_arguments(Command& command, LoaderArguments& arguments) {
  add_dataset_arguments(command, arguments.dataset);
  command
      .add_option("--batch-size", arguments.batch_size,
                  "Samples in a batch of each rank (default: 64).")
      ->check(count_from(1));
  command
      .add_option("--global-batch-size", arguments.global_batch_size,
                  "Samples in a batch over all ranks, instead of --batch-size.")
      ->check(count_from(1));
  command.add_option("--shuffle", arguments.shuffle,
                     "Order: global, block, off or resampled (default: global).");
  command.add_option("--seed", arguments.seed, "Shuffle seed (default: 0).")->check(count_from(0));
  command.add_option(
      "--tail", arguments.tail,
      "What to do with samples at the end that do not fill a batch: drop, keep, wrap "
      "or pad (default: drop; keep without shuffling).");
  command.add_option("--rank", arguments.rank, "Number of this rank, from 0 (default: 0).")
      ->check(count_from(0));
  command
      .add_option("--world-size", arguments.world_size,
                  "Number of ranks that share each global batch (default: 1).")
      ->check(count_from(1));
  const Option* const step_ms =
      command.add_option("--step-ms", arguments.step_ms,
                         "Simulated duration of a training step, in milliseconds (default: 0).");
  command.add_old_name("--consumer-ms", step_ms, arguments.step_ms);
  command.add_option(
      "--memory", arguments.memory,
      "Memory for all batches (default: 512MiB, or what is needed if that is more).");
  command.add_option("--engine", arguments.engine,
                     "I/O engine: auto, uring, threads or sync (default: auto).");
}

void add_loader_settings(Command& command, LoaderArguments& arguments) {
  command.add_option(
      "--threads", arguments.threads,
      "Threads that read and convert; auto adapts them to the waits (default: auto).");
  command.add_option("--depth", arguments.depth,
                     "Batches to prepare ahead; auto adapts it to the waits (default: auto).");
  command.add_option(
      "--policy", arguments.policy,
      "Cache policy: automatic, buffered, direct or drop_behind (default: automatic).");
}

Result<LoaderSetup> plan_loader(const LoaderArguments& arguments, Context& context) {
  LoaderSetup plan;
  LoaderOptions& options = plan.options;
  STOKER_ASSIGN(const Shuffle shuffle, shuffle_from(arguments.shuffle));
  STOKER_ASSIGN(options.cut, cut_from(arguments, shuffle));
  STOKER_ASSIGN(options.threads, parse_count("--threads", arguments.threads));
  STOKER_ASSIGN(options.depth, parse_count("--depth", arguments.depth));
  STOKER_ASSIGN(options.fetch.engine, choose_engine(arguments.engine));
  STOKER_ASSIGN(plan.step_time, step_time_from(arguments.step_ms));
  const Result<CachePolicy> policy = parse_cache_policy(arguments.policy);
  if (!policy.ok()) return policy.status().with_context("--policy");
  plan.policy = *policy;
  std::uint64_t memory_bytes = 0;
  if (!arguments.memory.empty()) {
    STOKER_ASSIGN(memory_bytes, parse_size_option("--memory", arguments.memory));
  }
  options.seed = arguments.seed;
  if (arguments.epochs == 0)
    options.end_epoch.reset();
  else
    options.end_epoch = arguments.epochs;

  STOKER_TRY(open_into(plan, arguments, context));
  const OrderOptions order{
      .shuffle = shuffle,
      .seed = arguments.seed,
      .sample_count = plan.rows.tokens != 0 ? plan.rows.count : plan.dataset->sample_count()};
  plan.wanted = {.order = order,
                 .fingerprint = options.cursor.fingerprint,
                 .tail = options.cut.tail,
                 .global_batch_size = options.cut.global_batch_size};
  STOKER_TRY(set_order(plan, order));
  STOKER_ASSIGN(const std::size_t needed, Loader::memory_needed(options));
  options.memory_bytes =
      arguments.memory.empty() ? std::max(kMemoryDefault, needed) : std::size_t{memory_bytes};
  return plan;
}

Status resume_at(LoaderSetup& plan, const Cursor& cursor, std::span<const std::string> allow) {
  const std::vector<std::string_view> allowed(allow.begin(), allow.end());
  Cursor run = plan.wanted;
  const std::array<std::uint64_t, 1> length = {plan.rows.tokens};
  if (plan.rows.is_packs &&  // cursors of 0.1 do not say what fills packs up
      cursor.fingerprint == token_fingerprint(plan.dataset->index().fingerprint(), length))
    run.fingerprint = cursor.fingerprint;
  if (const Status checked = check_cursor(cursor, run, allowed); !checked.ok())
    return checked.with_context("CursorMismatch");
  STOKER_TRY(set_order(plan, cursor.order));
  plan.options.cursor.epoch = cursor.epoch;
  plan.options.cursor.position = cursor.position;
  return {};
}

std::uint64_t samples_before(const LoaderSetup& plan, const Cursor& cursor) {
  const Result<BatchCut> cut = BatchCut::make(plan.options.cut);
  if (!cut.ok()) return 0;
  const std::uint64_t global = cut->options().global_batch_size;
  const auto until = [&](std::uint64_t position) {
    const std::uint64_t rest = position % global;
    return position / global * cut->rank_batch_size() +
           (rest != 0 ? cut->part(position - rest).count : 0);
  };
  const std::uint64_t all = cut->options().epoch_samples;
  const std::uint64_t used = cut->options().tail == Tail::drop ? all - all % global : all;
  return cursor.epoch * until(used) + until(cursor.position);
}

void simulate_step(nanoseconds duration, const std::stop_token& stop) {
  if (duration.count() == 0) return;
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, duration, [] { return false; });
}

}  // namespace stoker::cli
