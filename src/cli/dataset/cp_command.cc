#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/line_text.h"
#include "cli/registry.h"
#include "cli/result_writer.h"
#include "cli/work_progress.h"
#include "formats/json/json.h"
#include "stoker/copy.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    R"(stoker cp SRC... DST. A PLACE is a path, s3://bucket/key, or, as SRC only,
https://host/path. A directory is copied with everything below it. With several SRC, or if DST ends
with "/", each SRC keeps its name in DST. Otherwise the copy of SRC is DST itself; if SRC is a file
and DST an existing directory, the file is copied into that. Each file appears whole or not at all,
and is read back and compared.

To continue an interrupted copy, run it again: files that DST has already are compared, not copied.
--if-present=skip compares only their sizes, which is faster.

Examples:
  stoker cp /data/shards s3://bucket/shards
  stoker cp s3://bucket/train/0.tar s3://bucket/train/1.tar /nvme/train/
  stoker cp s3://bucket/shards /nvme/shards --jobs 16 --json

Exit status: 0 done, 1 failed, 2 misused, 130 interrupted.)";

struct CpArguments {
  std::vector<std::string> places;
  std::string if_present = "compare";
  bool no_verify = false;
  unsigned jobs = 4;
  bool json = false;
};

IfPresent if_present_of(const std::string& word) {
  if (word == "skip") return IfPresent::skip;
  if (word == "replace") return IfPresent::replace;
  if (word == "fail") return IfPresent::fail;
  return IfPresent::compare;
}

/// Returns what `source` becomes in the folder `into`.
Result<std::string> place_in(const std::string& into, std::string_view source) {
  while (source.ends_with("/")) source.remove_suffix(1);
  const std::string name(source.substr(source.rfind('/') + 1));
  if (name.empty() || name == "." || name == "..")
    return Status(Code::invalid_argument,
                  std::string(source) +
                      "/ has no name to keep: name one folder to copy, and the "
                      "place it becomes, without \"/\" at the end");
  return into + (into.ends_with("/") ? "" : "/") + name;
}

std::string render(const CpArguments& arguments, const CopyReport& report, double seconds) {
  if (arguments.json)
    return to_line(Json{{"copied", report.copied_count},
                        {"copied_bytes", report.copied_bytes},
                        {"present", report.present_count},
                        {"present_bytes", report.present_bytes},
                        {"verified", !arguments.no_verify},
                        {"seconds", seconds}});
  std::string text = fmt::format("{} copied ({})", counted(report.copied_count, "file"),
                                 format_bytes(report.copied_bytes));
  if (report.present_count > 0)
    text += fmt::format(", {} already present ({})", report.present_count,
                        format_bytes(report.present_bytes));
  return text;
}

Status run(const CpArguments& arguments, Context& context) {
  if (arguments.places.size() < 2)
    return {Code::invalid_argument, "DST is missing: stoker cp SRC... DST"};
  const std::string& last = arguments.places.back();
  const std::span sources = std::span(arguments.places).first(arguments.places.size() - 1);
  if (last.starts_with("https://") || last.starts_with("http://"))
    return {Code::invalid_argument,
            last + ": a web server is only copied from; give a path or s3://bucket/key as DST"};
  const bool is_into = last.ends_with("/") || sources.size() > 1;
  const S3Options s3 = S3Options::from_environment();
  const auto began = std::chrono::steady_clock::now();
  CopyReport all;
  for (const std::string& source : sources) {
    STOKER_ASSIGN(const StorePlace from, open_store(source, s3));
    std::string target = last;
    if (is_into) {
      STOKER_ASSIGN(target, place_in(last, source));
    }
    STOKER_ASSIGN(const StorePlace to, open_store(target, s3));
    WorkProgress progress(context, "copying", "files");
    const Result<CopyReport> report = copy_objects(
        from, to,
        {.if_present = if_present_of(arguments.if_present),
         .is_verified = !arguments.no_verify,
         .objects_in_flight = arguments.jobs,
         .progress =
             [&progress](const CopyProgress& now) {
               progress.show(
                   {.done = now.done_count, .count = now.object_count, .bytes = now.copied_bytes});
             },
         .is_interrupted = [&context] { return context.stop.stop_requested(); }});
    progress.clear();
    if (!report.ok()) return report.status();
    all.copied_count += report->copied_count;
    all.copied_bytes += report->copied_bytes;
    all.present_count += report->present_count;
    all.present_bytes += report->present_bytes;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  ResultWriter out(context);
  STOKER_TRY(out.line(render(arguments, all, took.count())));
  return out.flush();
}

}  // namespace

void add_cp_command(Command& stoker, Context& context) {
  Command* const command =
      stoker.add_subcommand("cp", "Copy files between directories, buckets and web servers.");
  const auto arguments = std::make_shared<CpArguments>();
  command->add_option("PLACE", arguments->places, "Sources, then the destination.")
      ->required()
      ->as_path();
  command
      ->add_option("--if-present", arguments->if_present,
                   "What to do with a file that DST has already: compare it, and replace it if it "
                   "differs; skip it if its size is the same; replace it; or fail (default: "
                   "compare).")
      ->check(one_of({"compare", "skip", "replace", "fail"}));
  command->add_flag("--no-verify", arguments->no_verify, "Do not read back what was written.");
  command->add_option("--jobs", arguments->jobs, "Number of files to copy at a time (default: 4).")
      ->check(count_between(1, 1024));
  command->add_flag("--json", arguments->json, "Print the result as JSON.");
  command->footer(kFooter);
  on_chosen(*command, arguments, context, run);
}

}  // namespace stoker::cli
