#include "cli/dataset/pack_target.h"

#include <filesystem>

#include "cli/dataset/dataset_arguments.h"
#include "cli/work_progress.h"
#include "dataset/pack/pack_upload.h"

namespace stoker::cli {

Result<PackTarget> PackTarget::of(const PackArguments& arguments) {
  PackTarget target;
  STOKER_ASSIGN(StorePlace place, open_store(arguments.destination, S3Options::from_environment()));
  if (place.store->is_local()) {
    target.directory_ = place.key;
    return target;
  }
  if (!arguments.task.empty())
    return Status(Code::invalid_argument,
                  "--task is for a DST that all tasks can write to: name a directory, and copy it "
                  "with stoker cp when it is merged");
  std::string staging = arguments.staging;
  if (staging.empty()) {
    const std::string cache = index_cache_directory();
    if (cache.empty())
      return Status(Code::invalid_argument,
                    "name a directory of this machine for the shards with --staging");
    staging = std::filesystem::path(cache).parent_path().string() + "/pack";
  }
  target.directory_ = pack_staging_of(staging, arguments.destination);
  // What an earlier run has left may be in DST in part.
  std::error_code ignored;
  if (!std::filesystem::exists(target.directory_, ignored))
    STOKER_TRY(check_vacant(place).with_context(arguments.destination));
  target.place_ = std::move(place);
  return target;
}

Status PackTarget::finish(Context& context) const {
  if (is_local()) return {};
  WorkProgress progress(context, "copying", "bytes");
  const Status status = upload_packed(
      posix_file_ops(), directory_, place_,
      {.progress =
           [&progress](std::uint64_t done_bytes, std::uint64_t size_bytes) {
             progress.show({.done = done_bytes, .count = size_bytes, .bytes = done_bytes});
           },
       .stop = context.stop});
  progress.clear();
  return status;
}

}  // namespace stoker::cli
