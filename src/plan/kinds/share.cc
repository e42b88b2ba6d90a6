#include <fmt/format.h>

#include <algorithm>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

Status compute(const ShareInputs& in, Working& work) {
  if (*in.stripes > *in.targets)
    return refuse_field("stripes", "is larger than targets: a file has a stripe on a target once");
  const BytesPerSecond all =
      work.step("aggregate", "targets * target_rate", *in.targets * *in.target_rate);
  const BytesPerSecond fair = work.step("share", "aggregate / clients", all / *in.clients,
                                        "Of each client, if its files lie on all targets.");
  const BytesPerSecond file = work.step("one_file_share", "stripes * target_rate / clients",
                                        *in.stripes * *in.target_rate / *in.clients,
                                        "Of each client, if all read the same file.");
  BytesPerSecond alone = *in.stripes * *in.target_rate;
  if (in.nic_rate) {
    alone = std::min(alone, *in.nic_rate);
    work.step("alone", "min(stripes * target_rate, nic_rate)", alone,
              "One client that reads one file while the others rest.");
    work.step("most", "min(share, nic_rate)", std::min(fair, *in.nic_rate));
  } else {
    work.step("alone", "stripes * target_rate", alone,
              "One client that reads one file while the others rest.");
  }
  const bool nic_binds = in.nic_rate && *in.nic_rate < fair;
  work.binds(nic_binds ? fmt::format("The client's network: {} of a share of {}.",
                                     say(*in.nic_rate), say(fair))
                       : fmt::format("The targets: {} for {:.0f} clients.", say(all), *in.clients));
  work.change(fmt::format("A file on all {:.0f} targets gives each client {} instead of {}.",
                          *in.targets, say(fair), say(file)));
  return {};
}

}  // namespace

const Kind& share_kind() {
  static const Kind kind = with_function<ShareInputs>(
      {.name = "share",
       .question = "Which rate does one client get from shared storage?",
       .about = "The clients share what the targets give together; a file has only the targets "
                "that it is striped over.",
       .examples = {"--targets 40 --target-rate 4GB/s --clients 100",
                    "--targets 40 --from lustre-oss-nvme --clients 100 --stripes 8 --nic-rate "
                    "50GB/s"},
       .fields =
           {field("targets", &ShareInputs::targets, "Storage targets.").required().in(Range::whole),
            field("target_rate", &ShareInputs::target_rate, "Rate of one target.").required(),
            field("clients", &ShareInputs::clients, "Clients that are busy at once.")
                .required()
                .in(Range::whole),
            field("stripes", &ShareInputs::stripes, "Targets that a file is striped over.")
                .otherwise("1")
                .in(Range::whole),
            field("nic_rate", &ShareInputs::nic_rate, "Rate of a client's network.")},
       .results = {"share", "one_file_share", "alone"}},
      share);
  return kind;
}

Result<Answer> share(const ShareInputs& inputs) {
  return answer(share_kind(), inputs, compute);
}

}  // namespace stoker::plan
