// Any name in a checkpoint directory, or of a place or a rank's tensor inside a checkpoint. A name
// must have at most one meaning, and an accepted name must be the only spelling: a second spelling
// would be a second checkpoint.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "checkpoint/manifest/names.h"

namespace stoker {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void read_name(std::string_view name) {
  int meanings = 0;
  if (const auto step = parse_step_name(name)) {
    ++meanings;
    require(step_name(*step) == name);
    require(name.find('/') == std::string_view::npos);
    const AsideName aside{.purpose = AsideName::Purpose::keep, .step = *step, .generation = 7};
    require(parse_aside_name(aside_name(aside)) == aside);
    require(parse_aside_name(moved_name(aside_name(aside), "a")) == aside);
  }
  if (const auto epoch = parse_epoch_name(name)) {
    ++meanings;
    require(epoch_name(*epoch) == name && epoch_name(*epoch + 1) != name);
  }
  if (const auto aside = parse_aside_name(name)) {
    ++meanings;
    require(parse_aside_name(aside_name(*aside)) == aside);
    // A checkpoint that is moved back from there must be listed.
    require(parse_step_name(step_name(aside->step)) == aside->step);
    require(parse_step_name(superseded_name(aside->step.step, aside->generation)).has_value());
  }
  if (const auto place = parse_place_name(name)) {
    ++meanings;
    require(place_name(*place) == name);
  }
  const std::string_view rank = rank_prefix_of(name);
  require(name.starts_with(rank) && rank_prefix_of(rank) == rank);
  meanings += rank.empty() ? 0 : 1;
  meanings += is_epoch_claim_name(name) ? 1 : 0;
  meanings += is_meeting_name(name) ? 1 : 0;
  meanings += is_owner_name(name) ? 1 : 0;
  meanings += is_taken_name(name) ? 1 : 0;
  meanings += is_trash_name(name) ? 1 : 0;
  require(meanings <= 1);
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string name(reinterpret_cast<const char*>(data), size);
  stoker::read_name(name);
  for (const char* prefix : {"step-", ".lock-", "retire-", "keep-", "place-", "rank-0000"})
    stoker::read_name(prefix + name);
  return 0;
}
