#include <fmt/format.h>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

Status add_stalls(const StallInputs& in, Working& work) {
  if (in.stalls && !in.time)
    return refuse_field("time", "is missing: stalls says how often, time for how long");
  const Money each =
      work.step("cost_of_one", "gpus * price * stall", *in.gpus * *in.price * *in.stall);
  if (!in.stalls && !in.times) {
    work.change("Give --times, or --stalls and --time, to add them up.");
    return {};
  }
  if (in.stalls && in.times)
    return refuse_field("times", "is what stalls and time say: give one of them");
  const double times =
      in.times ? *in.times : work.step("count", "stalls * time", *in.stalls * *in.time);
  if (in.time && *in.stall * times > *in.time)
    return refuse_field("stall", fmt::format("{:.5g} stalls of {} take longer than the time of {}",
                                             times, say(*in.stall), say(*in.time)));
  work.step("cost", in.times ? "cost_of_one * times" : "cost_of_one * count", each * times);
  const Seconds lost =
      work.step("gpu_time_lost", in.times ? "gpus * stall * times" : "gpus * stall * count",
                *in.gpus * *in.stall * times);
  if (in.time)
    work.step("part_lost", fmt::format("stall * {} / time", in.times ? "times" : "count"),
              Share{*in.stall * times / *in.time});
  work.change(
      fmt::format("Half the stall or half as many cost half; {} of a GPU's time are lost "
                  "now.",
                  say(lost)));
  return {};
}

Status compute(const StallInputs& in, Working& work) {
  if (!in.stall && !in.busy)
    return refuse_field("stall", "is missing: give it, or busy: the share of time the GPUs work");
  if (in.busy_after && !in.busy)
    return refuse_field("busy", "is missing: busy_after is compared with it");
  if (in.stall) {
    STOKER_TRY(add_stalls(in, work));
    work.binds("Every GPU waits for the slowest: a stall is paid for by all of them.");
  }
  if (!in.busy) return {};
  const Money idle = work.step("idle_per_day", "gpus * price * day * (1 - busy)",
                               *in.gpus * *in.price * kDay * (1 - in.busy->of_one));
  work.binds(fmt::format("{} a day are paid for GPUs that wait.", say(idle)));
  work.change(fmt::format("GPUs that work 1 % more of the time waste {} less in a day.",
                          say(*in.gpus * *in.price * kDay * 0.01)));
  if (in.busy_after)
    work.step("more_work", "busy_after / busy - 1",
              Share{in.busy_after->of_one / in.busy->of_one - 1},
              "In the same time, for the same money.");
  return {};
}

}  // namespace

const Kind& stall_kind() {
  static const Kind kind = with_function<StallInputs>(
      {.name = "stall",
       .question = "What does a stall cost?",
       .about = "GPUs that wait are paid for. Give a stall and how often, or the share of time in "
                "which the GPUs are busy. In quotes a price may be \"$3/h\".",
       .examples = {"--gpus 512 --price 3USD/h --stall 60s --stalls 4/h --time 7d",
                    "--price 80000USD/h --stall 4min --times 48",
                    "--gpus 512 --price 3USD/h --busy 80% --busy-after 95%"},
       .fields =
           {field("gpus", &StallInputs::gpus, "GPUs that wait.").otherwise("1").in(Range::whole),
            field("price", &StallInputs::price, "Price of one GPU, or of all if gpus is not given.")
                .required(),
            field("stall", &StallInputs::stall, "How long they wait each time."),
            field("times", &StallInputs::times, "How many times."),
            field("stalls", &StallInputs::stalls, "How often, instead: 4/h."),
            field("time", &StallInputs::time, "For how long they come that often."),
            field("busy", &StallInputs::busy, "Share of the time in which the GPUs work now."),
            field("busy_after", &StallInputs::busy_after, "The same after a change.")},
       .results = {"cost_of_one", "cost", "idle_per_day", "more_work"}},
      stall);
  return kind;
}

Result<Answer> stall(const StallInputs& inputs) {
  return answer(stall_kind(), inputs, compute);
}

}  // namespace stoker::plan
