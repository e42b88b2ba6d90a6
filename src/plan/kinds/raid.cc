#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

Status compute(const RaidInputs& in, Working& work) {
  const BytesPerSecond slowest =
      in.slowest_rate ? std::min(*in.slowest_rate, *in.read_rate) : *in.read_rate;
  const BytesPerSecond drives =
      in.slowest_rate ? work.step("drives_rate", "drives * min(read_rate, slowest_rate)",
                                  *in.drives * slowest, "Every stripe waits for the slowest drive.")
                      : work.step("drives_rate", "drives * read_rate", *in.drives * slowest);
  const bool link_binds = in.shared_rate && *in.shared_rate < drives;
  if (in.shared_rate)
    work.step("array_rate", "min(drives_rate, shared_rate)", std::min(drives, *in.shared_rate));
  work.step("full_stripe", "drives * stripe", *in.drives * *in.stripe,
            "A request of this size uses every drive once.");
  work.step("drives_per_request", "min(drives, ceil(request / stripe))",
            std::min(*in.drives, round_up(*in.request / *in.stripe)));
  work.step("requests_at_once", "ceil(drives / drives_per_request)",
            round_up(*in.drives / std::min(*in.drives, round_up(*in.request / *in.stripe))),
            "At least, to use every drive; more hide their latency.");
  work.step("lost_in_a_year", "1 - (1 - yearly_failures) ** drives",
            Share{1 - std::pow(1 - in.yearly_failures->of_one, *in.drives)},
            "RAID-0 loses everything with one drive: for data that exists elsewhere.");
  work.binds(link_binds        ? fmt::format("The link: it takes {} of the drives' {}.",
                                             say(*in.shared_rate), say(drives))
             : in.slowest_rate ? "The slowest drive."
                               : "The drives.");
  work.change(link_binds ? "More drives do not help; a wider link does."
                         : fmt::format("Each more drive adds {}, if enough requests are under way.",
                                       say(slowest)));
  return {};
}

}  // namespace

const Kind& raid_kind() {
  static const Kind kind = with_function<RaidInputs>(
      {.name = "raid",
       .question = "How fast, and how safe, are drives in RAID-0?",
       .about = "Stripes over drives: rate, the size of requests that uses all of them, and the "
                "chance to lose the array in a year. Writes are computed the same way: give the "
                "write rate.",
       .examples = {"--drives 8 --read-rate 6.5GB/s --shared-rate 50GB/s",
                    "--drives 4 --from samsung-pm9a3-7.68tb --stripe 512KiB --request 4MiB"},
       .fields = {field("drives", &RaidInputs::drives, "Drives of the array.")
                      .required()
                      .in(Range::whole),
                  field("read_rate", &RaidInputs::read_rate, "Rate of one drive.").required(),
                  field("slowest_rate", &RaidInputs::slowest_rate, "Rate of the slowest drive."),
                  field("shared_rate", &RaidInputs::shared_rate,
                        "Rate of what all drives share: a PCIe switch, a controller, a NIC."),
                  field("stripe", &RaidInputs::stripe,
                        "Bytes on one drive before the next (chunk).")
                      .otherwise("512KiB"),
                  field("request", &RaidInputs::request, "Bytes of one request.").otherwise("4MiB"),
                  field("yearly_failures", &RaidInputs::yearly_failures,
                        "Chance that one drive fails in a year.")
                      .in(Range::zero_too)
                      .otherwise("1%")},
       .results = {"drives_rate", "array_rate", "lost_in_a_year"}},
      raid);
  return kind;
}

Result<Answer> raid(const RaidInputs& inputs) {
  return answer(raid_kind(), inputs, compute);
}

}  // namespace stoker::plan
