#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <optional>
#include <ostream>
#include <system_error>
#include <vector>

#include "base/units.h"
#include "checkpoint/retention.h"
#include "checkpoint/step_removal.h"
#include "checkpoint/writer_lock.h"
#include "cli/checkpoint_arguments.h"
#include "cli/count_check.h"
#include "cli/dataset_arguments.h"
#include "cli/sample_text.h"
#include "cli/work_progress.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    R"(A checkpoint stays if one rule wants it. Whatever the rules say, these stay: the newest, the newest
without new values that are not finite, the one `latest` leads to, pinned ones, damaged ones. A run
that is saving holds the directory's lock, and prune refuses; --dry-run asks nobody. --keep-best goes
by the values of `annotate`.

Examples:
  stoker checkpoint prune run/checkpoints --keep-last 3 --keep-every 10000 --dry-run
  stoker checkpoint prune run/checkpoints --keep-best val_loss:min:1)";

struct Arguments {
  std::string directory;
  std::optional<std::uint64_t> keep_last;
  std::optional<std::uint64_t> keep_every;
  std::string keep_best;
  bool dry_run = false;
  bool json = false;
};

/// "val_loss:min:3"; the count may be left out. The metric may have colons itself.
Result<KeepBest> parse_keep_best(std::string text) {
  const Status refused(Code::invalid_argument, "--keep-best " + printable(text) +
                                                   ": METRIC:min|max:N, such as val_loss:min:3");
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
                "without a rule all stay: give --keep-last, --keep-every or --keep-best");
}

struct Removal {
  std::string name;
  std::uint64_t size_bytes = 0;  ///< Without what others share.
};

struct Choice {
  std::vector<Removal> removals;
  std::size_t kept_count = 0;
};

Result<Choice> choose(const std::string& directory, const RetentionRules& rules, Context& context) {
  STOKER_ASSIGN(const Catalog catalog, list_checkpoints(posix_file_ops(), directory));
  if (catalog.steps.empty()) return no_checkpoints(directory);
  STOKER_ASSIGN(const AllNotes notes, read_all_notes(posix_file_ops(), directory));
  for (const DamagedNote& note : notes.damaged)
    context.err << fmt::format("{}: {}; its step counts as pinned\n", note.path,
                               printable(note.reason.message()));
  Choice choice;
  for (const std::string& name : choose_removals(catalog, notes, rules)) {
    const CheckpointManifest& manifest = *catalog.find(name)->manifest;
    choice.removals.push_back(
        {.name = name, .size_bytes = size_of(manifest) - linked_bytes_of(manifest)});
  }
  choice.kept_count = catalog.steps.size() - choice.removals.size();
  return choice;
}

/// What has gone is told even if the next one fails.
Status remove_all(const Arguments& arguments, Choice& choice, Context& context) {
  for (std::size_t i = 0; i < choice.removals.size(); ++i) {
    Status status =
        context.stop.stop_requested()
            ? Status(Code::cancelled, "interrupted; the rest is untouched")
            : remove_checkpoint(posix_file_ops(), arguments.directory, choice.removals[i].name);
    if (status.ok()) continue;
    choice.kept_count += choice.removals.size() - i;
    choice.removals.resize(i);
    return status;
  }
  return {};
}

std::string render(const Arguments& arguments, const Choice& choice) {
  std::uint64_t total_bytes = 0;
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  std::string text;
  for (const Removal& removal : choice.removals) {
    total_bytes += removal.size_bytes;
    names.push_back(removal.name);
    text += fmt::format("{} {} ({})\n", arguments.dry_run ? "would remove" : "removed",
                        removal.name, format_bytes(removal.size_bytes));
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
  // Without the lock first: taking it writes into the directory, which had better be one of ours.
  STOKER_ASSIGN(Choice choice, choose(arguments.directory, rules, context));
  if (arguments.dry_run || choice.removals.empty())
    return write_out(context, render(arguments, choice));
  STOKER_ASSIGN(const std::unique_ptr<WriterLock> lock,
                WriterLock::acquire(posix_file_ops(), arguments.directory, LockOptions()));
  STOKER_ASSIGN(choice, choose(arguments.directory, rules, context));
  Status removed = remove_all(arguments, choice, context);
  STOKER_TRY(write_out(context, render(arguments, choice)));
  return removed;
}

}  // namespace

void add_checkpoint_prune_command(CLI::App& checkpoint, Context& context) {
  CLI::App* const command =
      checkpoint.add_subcommand("prune", "Remove the checkpoints that no rule keeps.");
  const auto arguments = std::make_shared<Arguments>();
  add_directory_argument(*command, arguments->directory);
  command->add_option("--keep-last", arguments->keep_last, "The newest so many.")
      ->check(count_from(1));
  command->add_option("--keep-every", arguments->keep_every, "Steps that are multiples of it.")
      ->check(count_from(1));
  command->add_option("--keep-best", arguments->keep_best,
                      "METRIC:min|max:N: the N with the least or greatest value.");
  command->add_flag("--dry-run", arguments->dry_run, "Only say what would go.");
  command->add_flag("--json", arguments->json, "One JSON object, for programs.");
  command->footer(kFooter);
  on_chosen(*command, [arguments, &context] { return run(*arguments, context); });
}

}  // namespace stoker::cli
