#include "formats/litdata/litdata_format.h"

namespace stoker {

const ShardFormat& litdata_format() {
  static constexpr ShardFormat kFormat = {.name = "litdata", .has_index_json = true};
  return kFormat;
}

}  // namespace stoker
