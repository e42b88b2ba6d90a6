#include <fmt/format.h>

#include <memory>
#include <ostream>

#include "cli/dataset/pack_arguments.h"
#include "cli/dataset/pack_import.h"
#include "cli/dataset/pack_target.h"
#include "cli/registry.h"
#include "dataset/input/input.h"
#include "dataset/pack/pack_paths.h"
#include "formats/table/shard_formats.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    R"(SRC is a directory of class directories with images (classes.json and a field "cls" are
written), any other directory (files with the same stem are one sample), a .jsonl file (a sample per
line), or .npy and .bin arrays of numbers. Files in class directories that are not images are left
out and listed, and so are directories beside them without an image, and hidden files of any
directory. Links are followed. Parquet, Petastorm,
Arrow (Hugging Face's folders), HDF5 and LMDB, and text through a tokenizer, are packed by Stoker's
Python package: STOKER_PYTHON names the Python to use (default: the one beside this command, or
`python3`). Start a killed run again, and it continues: finished shards are kept. `stoker verify DST`
checks every byte.

Examples:
  stoker pack images/train shards/train --format tar --shuffle-seed 7
  stoker pack images/val shards/val --classes shards/train/classes.json
  stoker pack text.jsonl shards/text --format mds --shard-size 64MiB
  stoker pack images/train s3://bucket/train
  stoker pack tokens.bin shards/tokens --format tokens --dtype uint16 \
    --sequence-length 4096
  stoker pack rows.parquet shards/rows --columns image,label --where "label < 9"
  stoker pack docs.jsonl shards/docs --tokenizer tokenizer.json --eod 0
  stoker pack images/train shards/train --task 3/16     (0/16 to 15/16, then)
  stoker pack --merge shards/train

Exit status: 0 done, 1 failed, 2 misused, 130 interrupted.)";

struct Arguments {
  PackArguments pack;
  ImportArguments import;
  std::string source;
  std::string kind;
  std::string dtype;
  std::uint64_t sequence_length = 0;
  bool hidden = false;
  std::string classes;
  std::string merge;
};

Status run(Arguments& arguments, Context& context) {
  PackArguments& pack_arguments = arguments.pack;
  if (!arguments.merge.empty()) {
    STOKER_ASSIGN(const PackReport report, merge_pack(posix_file_ops(), arguments.merge));
    write_pack_report(context, report, arguments.merge, pack_arguments.json);
    return {};
  }
  if (arguments.source.empty() || pack_arguments.destination.empty())
    return Status(Code::invalid_argument, "SRC and DST are needed, or --merge DST");
  if (pack_arguments.format.empty())
    pack_arguments.format =
        default_written_format(/*is_array=*/!arguments.import.tokenizer.empty()).written_as;
  STOKER_ASSIGN(const PackTarget target, PackTarget::of(pack_arguments));
  WorkProgress progress(context, "packing", "samples");
  STOKER_ASSIGN(const PackOptions options, pack_options_from(pack_arguments, context, progress));
  STOKER_ASSIGN(const std::string python_kind,
                python_kind_of(arguments.source, arguments.kind, arguments.import));
  if (!python_kind.empty()) {
    if (!target.is_local())
      return Status(
          Code::invalid_argument,
          python_kind + " is packed into a directory: name one, and copy it with stoker cp");
    if (!arguments.dtype.empty() || arguments.sequence_length != 0)
      return Status(Code::invalid_argument, "--dtype and --sequence-length are for arrays");
    if (arguments.hidden || !arguments.classes.empty())
      return Status(Code::invalid_argument, "--hidden and --classes are for directories of files");
    return hand_over_to_python(arguments.source, python_kind, pack_arguments, arguments.import);
  }
  STOKER_TRY(check_apart(arguments.source, target.directory()));
  PackInputOptions input_options{.kind = arguments.kind,
                                 .sequence_length = arguments.sequence_length,
                                 .excluded_directory = target.directory(),
                                 .with_hidden = arguments.hidden,
                                 .classes = arguments.classes};
  // For tokens, SRC is a directory of arrays, not of files to store unchanged.
  if (input_options.kind.empty() && is_token_format(pack_arguments.format))
    input_options.kind = "tokens";
  if (!arguments.dtype.empty()) {
    STOKER_ASSIGN(input_options.dtype, parse_dtype(arguments.dtype));
  }
  STOKER_ASSIGN(const std::unique_ptr<PackInput> input,
                open_input(arguments.source, input_options));
  for (const std::string& remark : remarks_on(*input)) context.err << remark << '\n';
  STOKER_ASSIGN(const PackReport report,
                pack(posix_file_ops(), *input, target.directory(), options));
  progress.clear();
  STOKER_TRY(target.finish(context));
  write_pack_report(context, report, pack_arguments.destination, pack_arguments.json);
  return {};
}

}  // namespace

void add_pack_command(Command& stoker, Context& context) {
  Command* command =
      stoker.add_subcommand("pack", "Turn files into large shards, with checksums and an index.");
  const auto arguments = std::make_shared<Arguments>();
  command
      ->add_option(
          "SRC", arguments->source,
          "Data to pack: a directory, .jsonl, .npy, .bin, .parquet, .arrow, .h5, data.mdb.")
      ->as_path();
  command
      ->add_option(
          "DST", arguments->pack.destination,
          "Directory for the shards: a new one, or that of an earlier run; or s3://bucket/folder.")
      ->as_path();
  add_pack_options(*command, arguments->pack);
  command->add_option("--from", arguments->kind,
                      "Kind of SRC (default: recognised): " + list_pack_kinds() + ".");
  command->add_option("--dtype", arguments->dtype,
                      "Element type of a .bin without a header: uint16, int32, ...");
  command
      ->add_option("--sequence-length", arguments->sequence_length,
                   "Cut token arrays into sequences of this many tokens.")
      ->check(count_from(1));
  command->add_flag(
      "--hidden", arguments->hidden,
      "Directories: pack hidden files and directories, too; their dot becomes \"_\" in keys.");
  command
      ->add_option("--classes", arguments->classes,
                   "Class directories: a classes.json (of an earlier pack) with the numbers.")
      ->as_path();
  add_import_options(*command, arguments->import);

  command
      ->add_option("--merge", arguments->merge,
                   "Complete the dataset that the tasks have packed into this directory.")
      ->as_path();
  command->footer(kFooter);
  command->on_chosen([arguments, &context] { return run(*arguments, context); });
}

}  // namespace stoker::cli
