#include <fmt/format.h>

#include <memory>
#include <ostream>
#include <stop_token>

#include "cli/line_text.h"
#include "cli/loader/cursor_file.h"
#include "cli/loader/loader_arguments.h"
#include "cli/loader/stream_report.h"
#include "cli/registry.h"
#include "cli/result_writer.h"
#include "cli/work_progress.h"
#include "dataset/input/input.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    R"(Reads every field as it is stored; decodes nothing. Without --step-ms, batches are taken as fast as
they come, which gives the highest rate. Token arrays are read document by document, or with --window
or --pack in rows of one length, as Python's stoker.Tokens does it; the keys are then row numbers.

--print-keys prints the key of each sample on its own line, in the order delivered, and nothing else
on stdout; the figures go to stderr. --cursor-file FILE saves the position of the stream after every
--cursor-every batches and at the end, once their keys are on stdout. If FILE exists, the stream
continues from there: even after a kill, the samples are those of an uninterrupted run. Keys that
were printed after the last save are printed again. The number of samples before the position is
printed on stderr, so that an older list can be cut there:
  head -n COUNT keys > kept
  stoker stream ... --print-keys --cursor-file FILE >> kept
FILE is one line of JSON, which Python's load_state_dict() takes as well. Each rank needs its own.

Examples:
  stoker stream shards/ --batch-size 256
  stoker stream shards/ --batch-size 256 --step-ms 40 --json
  stoker stream shards/ --seed 7 --print-keys --cursor-file at.json > keys
  stoker stream shards/ --rank 1 --world-size 8 --shuffle block --epochs 3
  stoker stream corpus.idx --window 2048 --extra 1 --batch-size 16

Exit status: 0 done, 1 failed, 2 misused, 130 interrupted.)";

constexpr nanoseconds kShowEvery{100'000'000};

struct StreamArguments {
  LoaderArguments loader;
  std::uint64_t max_batches = 0;
  std::string cursor_file;
  std::uint64_t cursor_every = 1;
  std::vector<std::string> allow;
  bool print_keys = false;
  bool json = false;
};

/// Returns the field "__key__" in formats without keys, otherwise the record's key.
std::string key_of(const Batch& batch, const Column* keys, std::size_t i) {
  if (keys == nullptr || keys->views.empty() || keys->views[i].data() == nullptr)
    return batch.key(i);
  const std::span<const std::byte> bytes = keys->views[i];
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string keys_of(const Batch& batch) {
  const Column* const keys = batch.find(kKeyField);
  std::string text;
  for (std::size_t i = 0; i < batch.size(); ++i)
    text.append(printable(key_of(batch, keys, i))).append("\n");
  return text;
}

/// One stream: takes batches, prints their keys, stores the cursor.
///
/// Thread safety: none.
class Stream {
 public:
  Stream(const StreamArguments& arguments, const PlannedRun& plan, CursorFile& cursor_file,
         Context& context)
      : arguments_(arguments),
        plan_(plan),
        cursor_file_(cursor_file),
        context_(context),
        progress_(context, "streaming", "batches") {}

  /// Runs until the end, --max-batches or Ctrl-C. A failure leaves the cursor at the last good
  /// batch.
  Result<StreamReport> run() {
    // The loader counts time from the first call of next(), when its threads have been working for
    // a while: the first few batches would seem to take no time.
    const Deadline began = Clock::now();
    STOKER_ASSIGN(const std::unique_ptr<LoaderRun> loader, LoaderRun::start(plan_.options));
    const std::stop_callback on_stop(context_.stop, [&] { loader->stop(); });
    head_start_ = Clock::now() - began;
    StreamReport report{.batch_count = loader->batch_count(), .cursor = plan_.options.cursor};
    const Status status = take_batches(*loader, report);
    progress_.clear();
    if (const Status kept = cursor_file_.keep_last(); !kept.ok() && status.ok()) return kept;
    if (!status.ok()) return status;
    report.stats = stats_of(*loader);
    if (plan_.dataset->cache()) report.cache = plan_.dataset->cache()->stats();
    return report;
  }

 private:
  LoaderStats stats_of(const LoaderRun& loader) const {
    LoaderStats stats = loader.stats();
    if (stats.batches > 0) stats.elapsed += head_start_;
    return stats;
  }

  Status take_batches(LoaderRun& loader, StreamReport& report) {
    for (std::uint64_t batches = 0;; ++batches) {
      if (arguments_.max_batches != 0 && batches == arguments_.max_batches) {
        if (report.batch_count != batches) report.end = StreamEnd::max_batches;
        return {};
      }
      const NextBatch next = loader.next();
      if (next.kind == NextBatch::Kind::end) return {};
      if (next.kind == NextBatch::Kind::stopped) {
        report.end = StreamEnd::interrupted;
        return {};
      }
      if (next.kind != NextBatch::Kind::batch) return next.status;
      STOKER_TRY(received(next.batch));
      report.cursor = next.batch.cursor();
      show(loader, batches + 1, report.batch_count);
      simulate_step(plan_.step_time, context_.stop);  // holds the batch, like a training step
    }
  }

  Status received(const Batch& batch) {
    if (arguments_.print_keys) {
      STOKER_TRY(write_out(context_, keys_of(batch)));
    }
    return cursor_file_.received(batch.cursor());
  }

  void show(const LoaderRun& loader, std::uint64_t batches, std::optional<std::uint64_t> count) {
    // On a terminal that shows the keys, the line would disturb them.
    if (!context_.err_is_terminal || (arguments_.print_keys && context_.out_is_terminal)) return;
    const Deadline now = Clock::now();
    if (now < next_show_) return;
    next_show_ = now + kShowEvery;
    const LoaderStats stats = stats_of(loader);
    if (arguments_.max_batches != 0)
      count = std::min(count.value_or(arguments_.max_batches), arguments_.max_batches);
    progress_.show(
        {.done = batches,
         .count = count.value_or(0),
         .bytes = stats.bytes,
         .note = fmt::format("{} samples/s, waited {:.0f} %",
                             format_count(samples_per_second(stats)), 100 * stats.stall_share())});
  }

  const StreamArguments& arguments_;
  const PlannedRun& plan_;
  CursorFile& cursor_file_;
  Context& context_;
  WorkProgress progress_;
  Deadline next_show_{};
  nanoseconds head_start_{0};
};

/// Returns the message after Ctrl-C.
Status interrupted(const CursorFile& file, const StreamReport& report) {
  const std::string after = fmt::format("interrupted after {} {}", report.stats.batches,
                                        report.stats.batches == 1 ? "batch" : "batches");
  if (file.path().empty())
    return Status(Code::cancelled, after + "; with --cursor-file FILE a stream can be continued");
  return Status(Code::cancelled,
                fmt::format("{}; the same command continues from {}", after, file.path()));
}

Status run(const StreamArguments& arguments, Context& context) {
  if (arguments.cursor_file.empty() && !arguments.allow.empty())
    return Status(Code::invalid_argument,
                  "--allow applies to a cursor: give --cursor-file as well");
  CursorFile cursor_file(posix_file_ops(), arguments.cursor_file, arguments.cursor_every);
  STOKER_ASSIGN(const std::optional<Cursor> start, cursor_file.load());
  STOKER_ASSIGN(PlannedRun plan, plan_loader(arguments.loader, context));
  if (start) {
    if (const Status resumed = resume_at(plan, *start, arguments.allow); !resumed.ok())
      return Status(resumed.code(),
                    fmt::format("--cursor-file {}: {} (remove the file to start over)",
                                cursor_file.path(), resumed.message()));
    context.err << fmt::format("resumed at epoch {}, position {}: {} came before\n", start->epoch,
                               start->position, counted(samples_before(plan, *start), "sample"));
  }
  const std::shared_ptr<ShardCache>& cache = plan.dataset->cache();
  const Status before = cache ? cache->trouble() : Status();
  STOKER_ASSIGN(const StreamReport report, Stream(arguments, plan, cursor_file, context).run());
  warn_of_trouble(cache, before, context);
  const std::string text =
      arguments.json ? render_stream_json(plan, report) : render_stream_text(plan, report);
  if (arguments.print_keys)
    context.err << text << std::flush;
  else
    STOKER_TRY(write_out(context, text));
  return report.end == StreamEnd::interrupted ? interrupted(cursor_file, report) : Status();
}

}  // namespace

void add_stream_command(Command& stoker, Context& context) {
  Command* command = stoker.add_subcommand(
      "stream", "Run the loader over a dataset: print rates and waits, or the keys in order.");
  const auto arguments = std::make_shared<StreamArguments>();
  add_loader_arguments(*command, arguments->loader);
  add_token_arguments(*command, arguments->loader.tokens);
  add_loader_settings(*command, arguments->loader);
  add_cache_options(*command, arguments->loader.cache);
  command
      ->add_option("--epochs", arguments->loader.epochs,
                   "Number of epochs; 0 means no end (default: 1).")
      ->check(count_from(0));
  command->add_option("--max-batches", arguments->max_batches, "Stop after this many batches.")
      ->check(count_from(1));
  command->add_flag("--print-keys", arguments->print_keys,
                    "Print the keys in the order delivered, one per line.");

  command
      ->add_option("--cursor-file", arguments->cursor_file,
                   "Save the position of the stream in this file, and continue from it.")
      ->as_path();
  command
      ->add_option("--cursor-every", arguments->cursor_every,
                   "Batches between two writes of the cursor file (default: 1).")
      ->check(count_from(1));
  command
      ->add_option(
          "--allow", arguments->allow,
          "Settings that may differ from the cursor: global_batch_size, tail, fingerprint.")
      ->delimiter(',')
      ->one_value_each();  // otherwise it would take a URI after it
  command->add_flag("--json", arguments->json, "Print one JSON object instead of text.");
  command->footer(kFooter);
  on_chosen(*command, arguments, context, run);
}

}  // namespace stoker::cli
