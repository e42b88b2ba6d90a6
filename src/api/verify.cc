#include "stoker/verify.h"

#include "api/border.h"
#include "dataset/pack/verify.h"

namespace stoker {

Result<VerifyReport> verify_dataset(const std::string& directory, const VerifyOptions& options) {
  return internal::at_border([&] { return verify_shards(directory, options); });
}

}  // namespace stoker
