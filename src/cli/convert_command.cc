#include <memory>
#include <ostream>

#include "cli/dataset_arguments.h"
#include "cli/pack_arguments.h"
#include "dataset/convert.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    R"(Keys and fields stay as they are, but for what the new format lacks: in a tar a number becomes
text, several numbers and arrays become .npy; a TFRecord has int64 and float32 alone; MDS has no
truth values; formats without keys get a field "__key__"; arrays (tokens, counted, shard001) keep no
keys. A classes.json goes along. Tars compressed with gzip or zstd are inflated first, all of them,
into DST/.stoker: that takes their full size until the end. Restarts as pack does.

Examples:
  stoker convert "train-{000..099}.tar" shards/mds --format mds
  stoker convert old.tar.gz shards/new --format tar

Exit status: 0 done, 1 failed, 2 misused, 130 interrupted.)";

struct Arguments {
  PackArguments pack;
  std::string source;
  std::string source_format;
  std::string dtype;
};

Status run(const Arguments& arguments, Context& context) {
  WorkProgress progress(context, "converting", "samples");
  STOKER_ASSIGN(const PackOptions options, pack_options_from(arguments.pack, context, progress));
  Dataset::Options source{.source = {.format = arguments.source_format},
                          .index = {.cache_directory = index_cache_directory(), .in_memory = true}};
  if (!arguments.dtype.empty()) {
    STOKER_ASSIGN(source.source.dtype, parse_dtype(arguments.dtype));
  }
  STOKER_ASSIGN(const PackReport report, convert(posix_file_ops(), {&arguments.source, 1},
                                                 arguments.pack.destination, source, options));
  progress.clear();
  context.out << render_pack_report(report, arguments.pack.destination, arguments.pack.json);
  return {};
}

}  // namespace

void add_convert_command(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("convert", "Turn shards of one format into another.");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("SRC", arguments->source, "A directory of shards, a shard, or a pattern.")
      ->required();
  command
      ->add_option("DST", arguments->pack.destination,
                   "Where the new shards go: a new directory, or that of an earlier run.")
      ->required();
  add_pack_options(*command, arguments->pack);
  command->add_option("--source-format", arguments->source_format,
                      "What SRC is, if that cannot be seen from it: raw, counted, ...");
  command->add_option("--dtype", arguments->dtype, "What SRC's arrays hold if they do not say it.");
  command->footer(kFooter);
  on_chosen(*command, arguments, context, run);
}

}  // namespace stoker::cli
