/// \file
/// Where `stoker pack` and `stoker convert` make their shards: in DST, or, if that is a bucket, in
/// a directory of this machine, from which they are copied.
#pragma once

#include <string>

#include "cli/command.h"
#include "cli/dataset/pack_arguments.h"
#include "stoker/store.h"

namespace stoker::cli {

class PackTarget {
 public:
  /// `already_exists` if DST is a folder of a store that has objects, unless an earlier run has not
  /// finished it. `invalid_argument` for a task of several, which need one directory.
  static Result<PackTarget> of(const PackArguments& arguments);

  /// The local directory to make shards in.
  const std::string& directory() const noexcept { return directory_; }
  bool is_local() const noexcept { return place_.store == nullptr; }
  /// Copies the finished shards, if DST is not local, and removes them from this machine.
  Status finish(Context& context) const;

 private:
  std::string directory_;
  StorePlace place_;  ///< Without a store if DST is local.
};

}  // namespace stoker::cli
