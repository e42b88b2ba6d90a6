#include <fmt/format.h>

#include <memory>
#include <vector>

#include "cli/line_text.h"
#include "cli/registry.h"
#include "cli/result_writer.h"
#include "cli/text_table.h"
#include "cli/work_progress.h"
#include "dataset/shard_cache/cache_inspect.h"
#include "formats/json/json.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    R"(DIR is the directory that a program gave to --cache, or to stoker.Cache in Python. The commands are
safe while programs use the cache.

Examples:
  stoker cache ls /nvme/cache
  stoker cache verify /nvme/cache
  stoker cache clear /nvme/cache

Exit status: 0 done, 1 failed or damage found, 2 misused, 130 interrupted.)";

struct Arguments {
  std::string directory;
  bool json = false;
};

Status run_ls(const Arguments& arguments, Context& context) {
  STOKER_ASSIGN(const std::vector<CachedObjectReport> objects,
                list_cache(posix_file_ops(), arguments.directory));
  std::uint64_t bytes = 0;
  Json list = Json::array();
  TextTable table({">size", ">chunks", "object"});
  for (const CachedObjectReport& object : objects) {
    bytes += object.size_bytes;
    list.push_back({{"object", object.identity},
                    {"chunks", object.chunk_count},
                    {"size_bytes", object.size_bytes},
                    {"last_used_ns", object.last_used_ns}});
    table.add({format_bytes(object.size_bytes), std::to_string(object.chunk_count),
               printable(object.identity)});
  }
  if (arguments.json)
    return write_out(context, to_line(Json{{"directory", arguments.directory},
                                           {"size_bytes", bytes},
                                           {"objects", std::move(list)}}) +
                                  "\n");
  return write_out(context,
                   (objects.empty() ? "" : table.render()) +
                       fmt::format("{}: {} in {}\n", printable(arguments.directory),
                                   format_bytes(bytes), counted(objects.size(), "object")));
}

Status run_verify(const Arguments& arguments, Context& context) {
  STOKER_ASSIGN(const CacheVerifyReport report,
                verify_cache(posix_file_ops(), arguments.directory, context.stop));
  if (!report.damaged.empty()) context.exit_code = kExitFailed;
  if (arguments.json) {
    Json damaged = Json::array();
    for (const std::string& damage : report.damaged) damaged.push_back(damage);
    return write_out(context, to_line(Json{{"directory", arguments.directory},
                                           {"chunks", report.chunk_count},
                                           {"size_bytes", report.size_bytes},
                                           {"damaged", std::move(damaged)}}) +
                                  "\n");
  }
  std::string text;
  for (const std::string& damage : report.damaged)
    text += fmt::format("{}: removed\n", printable(damage));
  text += fmt::format("{}: {}, {}: {}\n", printable(arguments.directory),
                      counted(report.chunk_count, "chunk"), format_bytes(report.size_bytes),
                      report.damaged.empty() ? std::string("no damage found")
                                             : fmt::format("{} damaged", report.damaged.size()));
  return write_out(context, text);
}

Status run_clear(const Arguments& arguments, Context& context) {
  STOKER_ASSIGN(const std::uint64_t bytes, clear_cache(posix_file_ops(), arguments.directory));
  if (arguments.json)
    return write_out(
        context,
        to_line(Json{{"directory", arguments.directory}, {"removed_bytes", bytes}}) + "\n");
  return write_out(context, fmt::format("{}: {} removed\n", printable(arguments.directory),
                                        format_bytes(bytes)));
}

void add_one(Command& parent, Context& context, const std::string& name, const std::string& help,
             Status (*run)(const Arguments&, Context&)) {
  Command* const command = parent.add_subcommand(name, help);
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("DIR", arguments->directory, "Directory of the cache.")
      ->as_path()
      ->required();
  command->add_flag("--json", arguments->json, "Print one JSON object.");
  on_chosen(*command, arguments, context, run);
}

}  // namespace

void add_cache_command(Command& stoker, Context& context) {
  Command* const command =
      stoker.add_subcommand("cache", "List, check and clear a cache of remote shards.");
  command->require_subcommand();
  command->footer(kFooter);
  add_one(*command, context, "ls", "List the objects that have chunks in a cache.", run_ls);
  add_one(*command, context, "verify",
          "Check every chunk, and remove damaged ones: they are fetched again when needed.",
          run_verify);
  add_one(*command, context, "clear", "Remove all chunks.", run_clear);
}

}  // namespace stoker::cli
