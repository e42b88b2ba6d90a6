#include "cli/loader/loader_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <ostream>

#include "cli/engine_choice.h"
#include "cli/option_value.h"
#include "cli/work_progress.h"

namespace stoker::cli {
namespace {

constexpr std::uint64_t kBatchDefault = 64;
constexpr double kStepMsMax = 86'400'000;  // a day

Status misuse(const std::string& message) {
  return Status(Code::invalid_argument, message);
}

/// Parses a number; "auto" is 0.
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

/// Returns everything except the data. Opens nothing, so that invalid arguments are reported at
/// once.
Result<LoaderRequest> request_from(const LoaderArguments& arguments) {
  LoaderRequest request{.batch_size = arguments.batch_size,
                        .global_batch_size = arguments.global_batch_size,
                        .rank = arguments.rank,
                        .world_size = arguments.world_size,
                        .names = {.batch_size = "--batch-size",
                                  .global_batch_size = "--global-batch-size",
                                  .micro_batch_size = "",
                                  .memory_bytes = "--memory"}};
  STOKER_ASSIGN(request.order.shuffle, shuffle_from(arguments.shuffle));
  request.order.seed = arguments.seed;
  if (request.world_size == 0 || request.rank >= request.world_size)
    return misuse(fmt::format("--rank {} --world-size {}: ranks go from 0 to the world size less 1",
                              request.rank, request.world_size));
  if (request.batch_size == 0 && request.global_batch_size == 0) request.batch_size = kBatchDefault;
  STOKER_TRY(global_batch_of(request).status());
  if (!arguments.tail.empty()) {
    const Result<Tail> tail = parse_tail(arguments.tail);
    if (!tail.ok()) return tail.status().with_context("--tail");
    request.tail = *tail;
  }
  STOKER_ASSIGN(request.threads, parse_count("--threads", arguments.threads));
  STOKER_ASSIGN(request.depth, parse_count("--depth", arguments.depth));
  STOKER_ASSIGN(request.engine, choose_engine(arguments.engine));
  if (!arguments.memory.empty()) {
    STOKER_ASSIGN(request.memory_bytes, parse_size_option("--memory", arguments.memory));
  }
  request.end_epoch.reset();
  if (arguments.epochs != 0) request.end_epoch = arguments.epochs;
  return request;
}

Result<nanoseconds> step_time_from(double milliseconds) {
  if (!(milliseconds >= 0 && milliseconds <= kStepMsMax))
    return misuse("--step-ms: must be from 0 to 86400000 milliseconds (a day)");
  return std::chrono::duration_cast<nanoseconds>(
      std::chrono::duration<double, std::milli>(milliseconds));
}

/// The same check as in the core, with a message that names the options of the command.
Status check_full_batch(const std::string& name, const LoaderRequest& request) {
  STOKER_ASSIGN(const std::uint64_t batch, global_batch_of(request));
  const std::uint64_t count = request.parts.front().selected_count();
  if (tail_of(request) != Tail::drop || count >= batch) return {};
  return misuse(
      fmt::format("{}: {} cannot fill one batch of {}, and --tail drop leaves out what "
                  "fills none; give a --batch-size of at most {}, or --tail keep",
                  name, counted(count, "sample"), batch,
                  std::max<std::uint64_t>(1, count / request.world_size)));
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

Result<PlannedRun> plan_loader(const LoaderArguments& arguments, Context& context) {
  STOKER_ASSIGN(LoaderRequest request, request_from(arguments));
  STOKER_ASSIGN(const nanoseconds step_time, step_time_from(arguments.step_ms));
  const Result<CachePolicy> policy = parse_cache_policy(arguments.policy);
  if (!policy.ok()) return policy.status().with_context("--policy");
  const auto groups = group_datasets(arguments.dataset.uris);
  if (groups.size() != 1)
    return misuse("one dataset at a time: a directory, or files of which all are one dataset");

  DatasetArguments told = arguments.dataset;
  told.policy = *policy;
  STOKER_ASSIGN(told.cache, open_cache(arguments.cache, context));
  LoaderPart part;
  STOKER_ASSIGN(part.dataset, open_dataset(groups.front(), told, context));
  const std::shared_ptr<const ShardDataset> dataset = part.dataset;
  const std::string name = dataset_name(groups.front(), *dataset);
  if (dataset->sample_count() == 0)
    return Status(Code::not_found, name + ": there are no samples in it");
  const Result<TokenRows> rows = cut_tokens(arguments.tokens, part, context);
  if (!rows.ok()) return rows.status().with_context(name);
  request.parts = {std::move(part)};
  STOKER_TRY(check_full_batch(name, request));
  STOKER_ASSIGN(LoaderSetup setup, LoaderSetup::make(std::move(request)));
  STOKER_ASSIGN(LoaderRunOptions options, setup.options_at(setup.cursor(0, 0)));
  if (const std::string forecast = setup.cache_forecast(); !forecast.empty())
    context.err << forecast << std::endl;
  return PlannedRun{.name = name,
                    .dataset = dataset,
                    .rows = *rows,
                    .setup = std::move(setup),
                    .options = std::move(options),
                    .policy = *policy,
                    .step_time = step_time};
}

Status resume_at(PlannedRun& plan, const Cursor& cursor, std::span<const std::string> allow) {
  const std::vector<std::string_view> allowed(allow.begin(), allow.end());
  if (const Status resumed = plan.setup.resume(cursor, allowed); !resumed.ok())
    return resumed.with_context("CursorMismatch");
  STOKER_ASSIGN(plan.options,
                plan.setup.options_at(plan.setup.cursor(cursor.epoch, cursor.position)));
  return {};
}

std::uint64_t samples_before(const PlannedRun& plan, const Cursor& cursor) {
  const BatchCut& cut = plan.setup.cut();
  const std::uint64_t global = cut.options().global_batch_size;
  const auto until = [&](std::uint64_t position) {
    const std::uint64_t rest = position % global;
    return position / global * cut.rank_batch_size() +
           (rest != 0 ? cut.part(position - rest).count : 0);
  };
  const std::uint64_t all = cut.options().epoch_samples;
  const std::uint64_t used = cut.options().tail == Tail::drop ? all - all % global : all;
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
