#include "cli/dataset/dataset_arguments.h"

#include <fmt/format.h>

#include <cstdlib>
#include <ostream>

#include "formats/table/shard_formats.h"
#include "stoker/dtype.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

/// A progress line that the destructor erases.
class IndexProgressLine {
 public:
  IndexProgressLine(Context& context, bool verbose) : context_(context), verbose_(verbose) {}
  ~IndexProgressLine() {
    if (is_shown_) context_.err << "\r\x1b[K" << std::flush;
  }
  IndexProgressLine(const IndexProgressLine&) = delete;
  IndexProgressLine& operator=(const IndexProgressLine&) = delete;

  void show(const IndexProgress& now) {
    const std::string text = fmt::format("indexing: {}/{} shards, {} samples", now.shards_done,
                                         now.shard_count, format_count(now.samples_found));
    if (context_.err_is_terminal) {
      context_.err << '\r' << text << "\x1b[K" << std::flush;
      is_shown_ = true;
    } else if (verbose_) {
      context_.err << text << std::endl;
    }
  }

 private:
  Context& context_;
  bool verbose_;
  bool is_shown_ = false;
};

/// What cannot be looked up is reported when it is opened.
bool is_folder(const std::string& uri) {
  const Result<StorePlace> place = open_store(uri, S3Options::from_environment());
  if (!place.ok()) return false;
  const Result<ObjectStore::Entry> entry = place->store->look(place->key);
  return entry.ok() && entry->kind == ObjectStore::Kind::folder;
}

}  // namespace

void add_dataset_options(Command& command, DatasetArguments& arguments) {
  command.add_option(
      "--format", arguments.format,
      "Format of the shards (default: recognised by content): " + list_shard_formats() + ".");
  command.add_option("--dtype", arguments.dtype,
                     "Element type of arrays without a header: uint16, int32, float32, ...");
  command.add_flag("-v,--verbose", arguments.verbose,
                   "Show progress even if stderr is not a terminal.");
}

void add_dataset_arguments(Command& command, DatasetArguments& arguments) {
  command
      .add_option("URI", arguments.uris,
                  "Shards: a directory, files, \"train-{000..123}.tar\", \"*.tar\", also as s3://, "
                  "https:// and file: URIs. Each directory is a dataset; all files together are "
                  "one.")
      ->as_path()
      ->required();
  add_dataset_options(command, arguments);
}

std::vector<std::vector<std::string>> group_datasets(const std::vector<std::string>& uris) {
  std::vector<std::vector<std::string>> groups;
  std::size_t files = uris.size();  // index of the group of all files, if there is one
  for (const std::string& uri : uris) {
    if (is_folder(uri)) {
      groups.push_back({uri});
    } else if (files < groups.size()) {
      groups[files].push_back(uri);
    } else {
      files = groups.size();
      groups.push_back({uri});
    }
  }
  return groups;
}

std::string index_cache_directory() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    // XDG specification: paths that are not absolute must be ignored.
    return value != nullptr && *value == '/' ? std::string(value) : std::string();
  };
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/stoker/index";
  if (const std::string home = variable("HOME"); !home.empty())
    return home + "/.cache/stoker/index";
  return "";
}

Result<std::shared_ptr<const ShardDataset>> open_dataset(const std::vector<std::string>& patterns,
                                                         const DatasetArguments& arguments,
                                                         Context& context) {
  ShardDataset::Options options;
  options.source.format = arguments.format;
  options.source.s3 = S3Options::from_environment();
  if (!arguments.dtype.empty()) {
    const Result<Dtype> dtype = parse_dtype(arguments.dtype);
    if (!dtype.ok()) return dtype.status().with_context("--dtype");
    options.source.dtype = *dtype;
  }
  IndexProgressLine line(context, arguments.verbose);
  options.index.checksums = arguments.checksums;
  options.index.rebuild = arguments.rebuild;
  options.index.check_all = arguments.check_index;
  options.index.cache_directory = index_cache_directory();
  options.index.in_memory = !arguments.needs_index_file;
  options.index.progress = [&line](const IndexProgress& now) { line.show(now); };
  options.index.stop = context.stop;
  options.policy = arguments.policy;
  options.cache = arguments.cache;
  Result<std::shared_ptr<const ShardDataset>> dataset = ShardDataset::open(patterns, options);
  if (dataset.ok() && !(*dataset)->index_damage().ok())
    context.err << fmt::format("warning: the index was damaged and has been rebuilt ({})",
                               (*dataset)->index_damage().message())
                << std::endl;
  if (dataset.ok() && !(*dataset)->index_refused().ok())
    context.err << fmt::format(
                       "warning: {}: the index is kept in memory and made again by every command, "
                       "because neither the dataset's directory nor the cache can be written to "
                       "({}); set XDG_CACHE_HOME to a directory that can",
                       dataset_name(patterns, **dataset), (*dataset)->index_refused().message())
                << std::endl;
  return dataset;
}

std::string dataset_name(const std::vector<std::string>& patterns, const ShardDataset& dataset) {
  return patterns.size() == 1 ? patterns.front() : dataset.source().uri();
}

std::string_view checks_of(const ShardDataset& dataset) noexcept {
  if (dataset.index().has_checksums()) return "index";
  return dataset.source().shard_format().has_checksums ? "format" : "unchecked";
}

std::string_view explain_checks(const ShardDataset& dataset) noexcept {
  const std::string_view checks = checks_of(dataset);
  if (checks == "index") return "a CRC32C for each sample";
  if (checks == "format") return "the shards' own";
  return "unchecked (stoker index --checksums adds them)";
}

std::uint64_t shard_bytes_of(const ShardDataset& dataset) noexcept {
  std::uint64_t total = 0;
  for (const IndexedShard& shard : dataset.index().shards()) total += shard.size_bytes;
  return total;
}

std::string describe_dataset(const ShardDataset& dataset) {
  const std::uint64_t samples = dataset.sample_count();
  const std::size_t shards = dataset.index().shards().size();
  return fmt::format("{} sample{} in {} shard{} ({}), {}", samples, samples == 1 ? "" : "s", shards,
                     shards == 1 ? "" : "s", dataset.index().format(),
                     format_bytes(shard_bytes_of(dataset)));
}

}  // namespace stoker::cli
