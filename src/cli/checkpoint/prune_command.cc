#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "checkpoint/catalog/retention.h"
#include "checkpoint/catalog/step_removal.h"
#include "cli/checkpoint/arguments.h"
#include "cli/line_text.h"
#include "cli/result_writer.h"
#include "cli/work_progress.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    R"(A checkpoint is kept if any rule keeps it. These are always kept: the newest, the newest without new
NaN or infinite values, the one `latest` points to, pinned and damaged ones. --keep-best uses the
values of `annotate`, or else the reference values of `save`; given alone, it removes no checkpoint
that has no such value. While a run holds the lock of the directory, prune refuses; --dry-run needs
no lock.

Examples:
  stoker checkpoint prune run/checkpoints --keep-last 3 --dry-run
  stoker checkpoint prune run/checkpoints --keep-best val_loss:min:3

Exit status: 0 done, 1 failed, 2 misused, or no checkpoint has the --keep-best value.)";

struct Arguments {
  std::string directory;
  std::optional<std::uint64_t> keep_last;
  std::optional<std::uint64_t> keep_every;
  std::string keep_best;
  bool dry_run = false;
  bool json = false;
};

/// Parses "val_loss:min:3"; the count is optional. The metric may contain colons.
Result<KeepBest> parse_keep_best(std::string text) {
  const Status refused(Code::invalid_argument,
                       "--keep-best " + printable(text) +
                           ": METRIC:min or METRIC:max, and :N for more than one, "
                           "such as val_loss:min:3");
  KeepBest best;
  const auto take_last = [&text]() -> std::string {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos) return "";
    std::string last = text.substr(colon + 1);
    text.resize(colon);
    return last;
  };
  std::string word = take_last();
  if (word != "min" && word != "max") {
    const char* const end = word.data() + word.size();
    const auto [stopped_at, error] = std::from_chars(word.data(), end, best.count);
    if (error != std::errc() || stopped_at != end || best.count == 0) return refused;
    word = take_last();
  }
  if ((word != "min" && word != "max") || text.empty()) return refused;
  best.order = word == "min" ? KeepBest::Order::min : KeepBest::Order::max;
  best.metric = text;
  return best;
}

Result<RetentionRules> rules_from(const Arguments& arguments) {
  RetentionRules rules{.keep_last = arguments.keep_last, .keep_every = arguments.keep_every};
  if (!arguments.keep_best.empty()) {
    STOKER_ASSIGN(rules.keep_best, parse_keep_best(arguments.keep_best));
  }
  if (rules.keep_last || rules.keep_every || rules.keep_best) return rules;
  return Status(Code::invalid_argument,
                "without a rule all are kept: give --keep-last, --keep-every or --keep-best");
}

struct Removal {
  CatalogStep step;
  std::uint64_t size_bytes = 0;  ///< Without files shared with other checkpoints.
};

struct Choice {
  std::vector<Removal> removals;
  std::size_t kept_count = 0;
};

/// A value that no checkpoint has is a typing error: the rule would keep nothing.
Status check_metric(const CheckpointStore& store, const Catalog& catalog, const AllNotes& notes,
                    const KeepBest& best) {
  const std::set<std::string> metrics = metrics_of(catalog, notes);
  if (metrics.contains(best.metric)) return {};
  std::string names;
  for (const std::string& name : metrics) names += (names.empty() ? "" : ", ") + printable(name);
  return Status(Code::invalid_argument,
                fmt::format("--keep-best: no checkpoint in {} has a value {}; {}", store.path(),
                            printable(best.metric),
                            names.empty() ? "none has any: `stoker checkpoint annotate` adds one"
                                          : "existing values: " + names));
}

Result<Choice> choose(const CheckpointStore& store, RetentionRules rules, Context& context) {
  CatalogReader reader(store);
  NotesReader notes_reader(store);
  STOKER_ASSIGN(const Catalog listed, reader.list());
  rules.replicating = find_perhaps_common(store, listed);
  STOKER_ASSIGN(const RemovalDecision decision,
                decide_removals(store, rules, reader, notes_reader));
  const auto& [catalog, notes, names] = decision;
  if (catalog.steps.empty()) return no_checkpoints(store.path());
  for (const DamagedNote& note : notes.damaged)
    context.err << fmt::format("{}: {}; its step counts as pinned\n", note.path,
                               printable(note.reason.message()));
  if (rules.keep_best) STOKER_TRY(check_metric(store, catalog, notes, *rules.keep_best));
  Choice choice;
  for (const std::string& name : names) {
    const CatalogStep& step = *catalog.find(name);
    choice.removals.push_back(
        {.step = step, .size_bytes = step.summary->size_bytes - step.summary->linked_bytes});
  }
  choice.kept_count = catalog.steps.size() - choice.removals.size();
  return choice;
}

/// Removes the chosen checkpoints. If one cannot be removed, continues with the others and returns
/// the first failure. A checkpoint that was pinned meanwhile is kept.
Status remove_all(const CheckpointWriter& writer, Choice& choice, Context& context) {
  std::vector<Removal> chosen = std::exchange(choice.removals, {});
  Status failure;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const Result<bool> removed = context.stop.stop_requested()
                                     ? Status(Code::cancelled, "interrupted; the rest is untouched")
                                     : remove_checkpoint(writer, chosen[i].step);
    if (failure.ok()) failure = removed.status();
    if (removed.status().code() == Code::cancelled || is_gone(removed.status())) {
      choice.kept_count += chosen.size() - i;
      return removed.status();
    }
    if (removed.ok() && *removed)
      choice.removals.push_back(std::move(chosen[i]));
    else
      ++choice.kept_count;
  }
  return failure;
}

std::string render(const Arguments& arguments, const Choice& choice) {
  std::uint64_t total_bytes = 0;
  Json names = Json::array();
  std::string text;
  for (const Removal& removal : choice.removals) {
    total_bytes += removal.size_bytes;
    names.push_back(removal.step.name);
    text += fmt::format("{} {} ({})\n", arguments.dry_run ? "would remove" : "removed",
                        removal.step.name, format_bytes(removal.size_bytes));
  }
  if (arguments.json)
    return to_line({{"directory", arguments.directory},
                    {"dry_run", arguments.dry_run},
                    {"removed", std::move(names)},
                    {"removed_bytes", total_bytes},
                    {"kept", choice.kept_count}}) +
           "\n";
  return text + fmt::format("{}: {} {}, {}; {} kept\n", arguments.directory,
                            counted(choice.removals.size(), "checkpoint"),
                            arguments.dry_run ? "to remove" : "removed", format_bytes(total_bytes),
                            choice.kept_count);
}

Status run(const Arguments& arguments, Context& context) {
  STOKER_ASSIGN(const RetentionRules rules, rules_from(arguments));
  // Choose without the lock first: locking writes into the directory, which must be one of
  // checkpoints.
  STOKER_ASSIGN(const CheckpointDirectory directory, open_directory(arguments.directory));
  STOKER_ASSIGN(Choice choice, choose(directory, rules, context));
  if (arguments.dry_run || choice.removals.empty())
    return write_out(context, render(arguments, choice));
  STOKER_ASSIGN(const std::unique_ptr<StoreLock> lock, directory.lock(LockOptions()));
  STOKER_ASSIGN(choice, choose(directory, rules, context));
  Status removed = remove_all(*directory.make_writer(*lock), choice, context);
  STOKER_TRY(write_out(context, render(arguments, choice)));
  return removed;
}

}  // namespace

void add_checkpoint_prune_command(Command& checkpoint, Context& context) {
  Command* const command =
      checkpoint.add_subcommand("prune", "Remove checkpoints, except those that a rule keeps.");
  const auto arguments = std::make_shared<Arguments>();
  add_directory_argument(*command, arguments->directory);
  command->add_option("--keep-last", arguments->keep_last, "Keep the N newest.")
      ->check(count_from(1));
  command->add_option("--keep-every", arguments->keep_every, "Keep steps that are multiples of N.")
      ->check(count_from(1));
  command->add_option("--keep-best", arguments->keep_best,
                      "METRIC:min[:N] or METRIC:max[:N]: keep the N (default: 1) with the "
                      "smallest or largest value.");
  command->add_flag("--dry-run", arguments->dry_run,
                    "List what would be removed, and remove nothing.");
  command->add_flag("--json", arguments->json, "Print one JSON object.");
  command->footer(kFooter);
  command->on_chosen([arguments, &context] { return run(*arguments, context); });
}

}  // namespace stoker::cli
