#include "dataset/batch/stage_times.h"

namespace stoker {

std::string_view loader_stage_name(LoaderStage stage) noexcept {
  switch (stage) {
    case LoaderStage::queue: return "queue";
    case LoaderStage::memory: return "memory";
    case LoaderStage::store: return "store";
    case LoaderStage::read: return "read";
    case LoaderStage::decode: return "decode";
    case LoaderStage::collate: return "collate";
  }
  return "unknown";
}

}  // namespace stoker
