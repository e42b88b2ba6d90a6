/// \file
/// Shared by the commands that read through a cache.
#pragma once

#include <memory>
#include <string>

#include "cli/command.h"
#include "dataset/shard_cache/shard_cache.h"

namespace stoker::cli {

struct CacheArguments {
  std::string directory;
  std::string size;
};

/// Adds --cache and --cache-size.
void add_cache_options(Command& command, CacheArguments& arguments);

/// Opens the cache; null if none was named. A cache that cannot be used is a warning on stderr.
Result<std::shared_ptr<ShardCache>> open_cache(const CacheArguments& arguments, Context& context);

/// Warns on stderr if the cache did not work at some time since `before`, its trouble then.
void warn_of_trouble(const std::shared_ptr<ShardCache>& cache, const Status& before,
                     Context& context);

}  // namespace stoker::cli
