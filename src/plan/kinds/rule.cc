#include <fmt/format.h>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

constexpr BytesPerFlop kRule{1e9 / 100e12};

Status compute(const RuleInputs& in, Working& work) {
  const BytesPerSecond rule =
      work.step("rule_rate", "gpus * flops * GB / (100 * TFLOP)", *in.gpus * *in.flops * kRule,
                "1 GB/s for 100 TFLOP/s: a rule of thumb that knows nothing of the data.");
  if (in.read_rate)
    work.step("drives", "ceil(rule_rate / read_rate)", round_up(rule / *in.read_rate));
  if (!in.needed) {
    work.binds("Nothing real: the rule knows no sample size and no step time.");
    work.change("Compute the real need with `stoker plan read`, and give it as needed.");
    return {};
  }
  if (in.read_rate)
    work.step("drives_needed", "ceil(needed / read_rate)", round_up(*in.needed / *in.read_rate));
  const double factor = work.step("factor", "rule_rate / needed", rule / *in.needed);
  work.binds(fmt::format("The real need, {}: the rule asks for {} times that.", say(*in.needed),
                         say(factor)));
  work.change("Larger samples or shorter steps raise the need; the rule stays as it is.");
  return {};
}

}  // namespace

const Kind& rule_kind() {
  static const Kind kind = with_function<RuleInputs>(
      {.name = "rule",
       .question = "What does the rule of 1 GB/s per 100 TFLOP/s say, beside my real need?",
       .about = "Compare it with `stoker plan read` before anything is bought by it: for text the "
                "rule is far too much, for 3D images it may be too little.",
       .examples = {"--flops 16000TFLOP/s --read-rate 7GB/s",
                    "--gpus 8 --from h100-sxm --needed 1.33GB/s --read-rate 7GB/s"},
       .fields = {field("flops", &RuleInputs::flops, "Rate of one GPU, dense.").required(),
                  field("gpus", &RuleInputs::gpus, "GPUs.").otherwise("1").in(Range::whole),
                  field("read_rate", &RuleInputs::read_rate,
                        "Read rate of one drive, to count drives."),
                  field("needed", &RuleInputs::needed,
                        "Rate that the training really needs (plan read).")},
       .results = {"rule_rate", "drives", "drives_needed", "factor"}},
      rule);
  return kind;
}

Result<Answer> rule(const RuleInputs& inputs) {
  return answer(rule_kind(), inputs, compute);
}

}  // namespace stoker::plan
