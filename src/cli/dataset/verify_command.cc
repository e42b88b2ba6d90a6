#include <fmt/format.h>

#include <memory>
#include <ostream>

#include "cli/dataset/dataset_arguments.h"
#include "cli/line_text.h"
#include "cli/registry.h"
#include "cli/work_progress.h"
#include "dataset/pack/verify.h"
#include "formats/json/json.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    R"(Compares each file with manifest.json (size, SHA-256) and each sample with its checksum in the
index, and parses each sample. Lists every damaged file and sample: path, offset, key.

Exit status: 0 no damage, 1 damage found or something cannot be read, 2 misused,
130 interrupted.)";

struct Arguments {
  std::string directory;
  std::string format;
  std::string dtype;
  unsigned threads = 0;
  bool json = false;
};

std::string render_json(const VerifyReport& report, const std::string& directory) {
  Json problems = Json::array();
  for (const VerifyProblem& problem : report.problems) {
    Json entry = {{"path", problem.path}};
    if (problem.offset_bytes) {
      entry["offset_bytes"] = *problem.offset_bytes;
      entry["key"] = problem.key;
    }
    entry["message"] = problem.message;
    problems.push_back(std::move(entry));
  }
  const Json document = {{"directory", directory},          {"ok", report.problems.empty()},
                         {"manifest", report.has_manifest}, {"checksums", report.has_checksums},
                         {"shards", report.shard_count},    {"samples", report.sample_count},
                         {"size_bytes", report.size_bytes}, {"problems", std::move(problems)}};
  return document.dump() + "\n";
}

std::string render_text(const VerifyReport& report, const std::string& directory) {
  std::string text;
  for (const VerifyProblem& problem : report.problems) {
    if (problem.offset_bytes)
      text +=
          fmt::format("{}: sample {} at byte {}: {}\n", printable(problem.path),
                      printable(problem.key), *problem.offset_bytes, printable(problem.message));
    else
      text += fmt::format("{}: {}\n", printable(problem.path), printable(problem.message));
  }
  text += fmt::format("{}: {} in {}, {}: {}", printable(directory),
                      counted(report.sample_count, "sample"), counted(report.shard_count, "shard"),
                      format_bytes(report.size_bytes),
                      report.problems.empty() ? std::string("no damage found")
                                              : counted(report.problems.size(), "problem"));
  if (!report.has_manifest) text += "; no manifest to compare with";
  if (!report.has_checksums) text += "; no checksums of samples";
  return text + "\n";
}

Status run(const Arguments& arguments, Context& context) {
  WorkProgress progress(context, "verifying", "bytes");
  VerifyOptions options{
      .format = arguments.format,
      .cache_directory = index_cache_directory(),
      .thread_count = arguments.threads,
      .progress =
          [&progress](const VerifyProgress& now) {
            progress.show(
                {.done = now.bytes_done, .count = now.size_bytes, .bytes = now.bytes_done});
          },
      .stop = context.stop};
  if (!arguments.dtype.empty()) {
    STOKER_ASSIGN(options.dtype, parse_dtype(arguments.dtype));
  }
  STOKER_ASSIGN(const StorePlace place,
                open_store(arguments.directory, S3Options::from_environment()));
  STOKER_ASSIGN(const VerifyReport report, verify_shards(place.key, options, place.store));
  progress.clear();
  context.out << (arguments.json ? render_json(report, arguments.directory)
                                 : render_text(report, arguments.directory));
  if (!report.problems.empty()) context.exit_code = kExitFailed;
  return {};
}

}  // namespace

void add_verify_command(Command& stoker, Context& context) {
  Command* command =
      stoker.add_subcommand("verify", "Check every byte of a dataset, and list what is damaged.");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("DIR", arguments->directory, "The dataset's directory, also as an s3:// URI.")
      ->as_path()
      ->required();
  command->add_option("--format", arguments->format,
                      "Format of the shards (default: recognised by content).");
  command->add_option("--dtype", arguments->dtype, "Element type of arrays without a header.");
  command
      ->add_option("--threads", arguments->threads,
                   "Shards to check at a time (default: one for each core).")
      ->check(count_between(1U, 1024U));
  command->add_flag("--json", arguments->json, "Print one JSON object.");
  command->footer(kFooter);
  on_chosen(*command, arguments, context, run);
}

}  // namespace stoker::cli
