/// \file
/// `stoker verify`, and verify_dataset() of programs.
#pragma once

#include <memory>
#include <string>

#include "stoker/status.h"
#include "stoker/store.h"
#include "stoker/verify.h"

namespace stoker {

/// As verify_dataset(), in any store. Null: local_store().
Result<VerifyReport> verify_shards(const std::string& directory, const VerifyOptions& options = {},
                                   std::shared_ptr<ObjectStore> store = nullptr);

}  // namespace stoker
