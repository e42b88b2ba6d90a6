#include "cli/dataset/cache_arguments.h"

#include <fmt/format.h>

#include <ostream>

#include "cli/option_value.h"

namespace stoker::cli {

void add_cache_options(Command& command, CacheArguments& arguments) {
  command
      .add_option(
          "--cache", arguments.directory,
          "Directory on a local disk that keeps what was read from remote shards. It is created "
          "if necessary, and processes may share it.")
      ->as_path();
  command.add_option(
      "--cache-size", arguments.size,
      "Maximum total size of the files in --cache, such as 200GiB; required with it.");
}

Result<std::shared_ptr<ShardCache>> open_cache(const CacheArguments& arguments, Context& context) {
  if (arguments.directory.empty() != arguments.size.empty())
    return Status(Code::invalid_argument, "--cache and --cache-size: give both, or neither");
  if (arguments.directory.empty()) return std::shared_ptr<ShardCache>();
  STOKER_ASSIGN(const std::uint64_t size, parse_size_option("--cache-size", arguments.size));
  STOKER_ASSIGN(std::shared_ptr<ShardCache> cache,
                ShardCache::open({.directory = arguments.directory, .size_bytes = size}));
  warn_of_trouble(cache, Status(), context);
  return cache;
}

void warn_of_trouble(const std::shared_ptr<ShardCache>& cache, const Status& before,
                     Context& context) {
  if (!cache || !before.ok()) return;
  const Status trouble = cache->trouble();
  if (trouble.ok()) return;
  context.err << fmt::format("warning: {}; what cannot be cached is read from the source",
                             trouble.message())
              << std::endl;
}

}  // namespace stoker::cli
