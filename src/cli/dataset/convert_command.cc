#include <memory>
#include <ostream>

#include "cli/dataset/dataset_arguments.h"
#include "cli/dataset/pack_arguments.h"
#include "cli/dataset/pack_target.h"
#include "cli/registry.h"
#include "dataset/pack/convert.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    R"(Keys and fields are kept, except for what the new format lacks: in a tar, a number becomes text, and
several numbers or an array become .npy; a TFRecord has only int64 and float32; MDS has no booleans;
formats without keys get a field "__key__"; arrays (tokens, counted, shard001) lose their keys.
classes.json is copied. Tars compressed with gzip or zstd are all decompressed first, into
DST/.stoker, which takes their full size until the end. A killed run continues, as with pack.

Examples:
  stoker convert "train-{000..099}.tar" shards/mds --format mds
  stoker convert old.tar.gz shards/new --format tar
  stoker convert s3://bucket/tars s3://bucket/mds --format mds

Exit status: 0 done, 1 failed, 2 misused, 130 interrupted.)";

struct Arguments {
  PackArguments pack;
  std::string source;
  std::string source_format;
  std::string dtype;
};

Status run(const Arguments& arguments, Context& context) {
  STOKER_ASSIGN(const PackTarget target, PackTarget::of(arguments.pack));
  WorkProgress progress(context, "converting", "samples");
  STOKER_ASSIGN(const PackOptions options, pack_options_from(arguments.pack, context, progress));
  ShardDataset::Options source{
      .source = {.format = arguments.source_format, .s3 = S3Options::from_environment()},
      .index = {.cache_directory = index_cache_directory(), .in_memory = true}};
  if (!arguments.dtype.empty()) {
    STOKER_ASSIGN(source.source.dtype, parse_dtype(arguments.dtype));
  }
  STOKER_ASSIGN(const PackReport report, convert(posix_file_ops(), {&arguments.source, 1},
                                                 target.directory(), source, options));
  progress.clear();
  STOKER_TRY(target.finish(context));
  write_pack_report(context, report, arguments.pack.destination, arguments.pack.json);
  return {};
}

}  // namespace

void add_convert_command(Command& stoker, Context& context) {
  Command* command = stoker.add_subcommand("convert", "Convert shards from one format to another.");
  const auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("SRC", arguments->source,
                   "Shards to convert: a directory, a file, or a pattern.")
      ->as_path()
      ->required();

  command
      ->add_option("DST", arguments->pack.destination,
                   "Directory for the new shards: a new one, or that of an earlier run; or "
                   "s3://bucket/folder.")
      ->as_path()
      ->required();
  add_pack_options(*command, arguments->pack);
  command->add_option("--source-format", arguments->source_format,
                      "Format of SRC (default: recognised by content): raw, counted, ...");
  command->add_option("--dtype", arguments->dtype, "Element type of arrays without a header.");
  command->footer(kFooter);
  on_chosen(*command, arguments, context, run);
}

}  // namespace stoker::cli
