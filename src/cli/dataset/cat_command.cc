#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "cli/dataset/dataset_arguments.h"
#include "cli/dataset/sample_text.h"
#include "cli/line_text.h"
#include "cli/registry.h"
#include "cli/result_writer.h"
#include "dataset/key_search.h"
#include "dataset/shards/shard_names.h"
#include "formats/json/json.h"
#include "formats/webdataset/webdataset_names.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  stoker cat shards '#17'              sample 17 as JSON; large fields as sizes\n"
    "  stoker cat shards '#17.jpg' > a.jpg  its field jpg, byte for byte\n"
    "  stoker cat shards cat/0001.jpg       by key; the shards are searched for it\n"
    "\n"
    "If samples have no keys (neither names in a tar nor a field __key__), a key is SHARD/NUMBER, "
    "as `stoker ls` shows.";

struct CatArguments {
  DatasetArguments dataset;
  std::string uri;
  std::string what;
};

/// What to print: a sample, and one field of it or all.
struct Wanted {
  std::uint64_t sample = 0;
  std::string field = {};  ///< Empty: all.
};

Result<Wanted> by_number(std::string_view what) {
  const std::string_view text = what.substr(1);
  Wanted wanted;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), wanted.sample);
  const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (error != std::errc() || (!rest.empty() && (rest[0] != '.' || rest.size() == 1)))
    return Status(Code::invalid_argument,
                  fmt::format("\"{}\": a sample by number is #17 or #17.FIELD", what));
  wanted.field = rest.empty() ? "" : rest.substr(1);
  return wanted;
}

/// Splits "SHARD/17.FIELD" after the number. Fields of TFRecords may contain slashes and shard
/// names dots, so the names of the shards determine where the number begins.
std::pair<std::string_view, std::string_view> split_numbered(const ShardDataset& dataset,
                                                             std::string_view what) {
  for (const IndexedShard& shard : dataset.index().shards()) {
    const std::string prefix = shard_stem(shard.name) + "/";
    if (!what.starts_with(prefix)) continue;
    const std::size_t dot = what.find('.', prefix.size());
    if (dot != std::string_view::npos) return {what.substr(0, dot), what.substr(dot + 1)};
  }
  return {what, {}};
}

Result<Wanted> by_key(const ShardDataset& dataset, std::string_view what,
                      const std::stop_token& stop) {
  std::pair<std::string_view, std::string_view> parts = {what, {}};
  if (const auto name = split_member_name(what))  // KEY.FIELD is a member's name
    parts = {name->key, name->extension};
  Result<std::uint64_t> sample = find_key(dataset, parts.first, stop);
  if (!dataset.source().shard_format().has_keys && sample.status().code() == Code::not_found) {
    parts = split_numbered(dataset, what);
    sample = find_key(dataset, parts.first, stop);
  }
  STOKER_TRY(sample.status());
  if (!dataset.source().shard_format().has_keys && !parts.second.empty()) {
    // A key from a field __key__ may contain dots.
    SampleRecord record;
    STOKER_TRY(dataset.read(*sample, record));
    if (record.view().find(parts.second) == nullptr) {
      const Result<std::uint64_t> whole = find_key(dataset, what, stop);
      if (whole.ok()) return Wanted{.sample = *whole};
      if (whole.status().code() != Code::not_found) return whole.status();
    }
  }
  return Wanted{.sample = *sample, .field = std::string(parts.second)};
}

Status print_field(const SampleRecord& sample, const std::string& name, Context& context) {
  if (const FieldView* field = sample.view().find(name))
    return write_out(context,
                     {reinterpret_cast<const char*>(field->bytes.data()), field->bytes.size()});
  std::string names;
  for (const FieldView& field : sample.view().fields)
    names += (names.empty() ? "" : ", ") + printable(field.name);
  return Status(Code::not_found, fmt::format("sample {} has no field \"{}\"; it has {}",
                                             printable(sample.key()), printable(name), names));
}

Status print_sample(const ShardDataset& dataset, const std::string& what, Context& context) {
  STOKER_ASSIGN(const Wanted wanted,
                what.starts_with('#') ? by_number(what) : by_key(dataset, what, context.stop));
  SampleRecord sample;
  STOKER_TRY(dataset.read(wanted.sample, sample));
  if (!wanted.field.empty()) return print_field(sample, wanted.field, context);
  Json fields = Json::object();
  for (const FieldView& field : sample.view().fields)
    fields[std::string(field.name)] = field_value(field);
  return write_out(
      context,
      to_line({{"number", wanted.sample}, {"key", sample.key()}, {"fields", std::move(fields)}}) +
          "\n");
}

Status run(const CatArguments& arguments, Context& context) {
  STOKER_ASSIGN(const std::shared_ptr<const ShardDataset> dataset,
                open_dataset({arguments.uri}, arguments.dataset, context));
  Status status = print_sample(*dataset, arguments.what, context);
  // Other errors name the shard.
  const bool is_about_all =
      status.code() == Code::not_found || status.code() == Code::invalid_argument;
  return is_about_all ? status.with_context(arguments.uri) : status;
}

}  // namespace

void add_cat_command(Command& stoker, Context& context) {
  Command* command = stoker.add_subcommand("cat", "Print a sample, or one field of it.");
  const auto arguments = std::make_shared<CatArguments>();
  command->add_option("URI", arguments->uri, "Shards: a directory, a file, or a quoted pattern.")
      ->as_path()
      ->required();
  command->add_option("SAMPLE", arguments->what, "KEY, KEY.FIELD, '#NUMBER' or '#NUMBER.FIELD'.")
      ->required();
  add_dataset_options(*command, arguments->dataset);
  command->footer(kFooter);
  on_chosen(*command, arguments, context, run);
}

}  // namespace stoker::cli
