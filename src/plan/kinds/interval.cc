#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

/// Failures are independent and as likely at any time. docs/planning.md derives goodput().
struct Model {
  Seconds stall, unseen, mtbf, restart;

  /// The share of time that is kept work, if `interval` of training lies between two saves.
  double goodput(Seconds interval) const {
    const double lost = std::exp((restart + unseen) / mtbf);
    const double cycle = std::expm1((stall + std::max(interval, unseen)) / mtbf);
    return interval / (mtbf * lost * cycle);
  }

  /// The logarithm of goodput without the factors that no interval changes, which are e^(-(restart
  /// + unseen + stall) / mtbf): exact also where goodput itself is too small for a number.
  double merit(Seconds interval) const {
    const Seconds between = std::max(interval, unseen);
    const double failed = -std::expm1((Seconds{0} - stall - between) / mtbf);
    return std::log(interval / mtbf / failed) - between / mtbf;
  }

  /// The interval of the greatest goodput, by golden section over its logarithm: goodput has one
  /// maximum. Not below `unseen`, where saves would wait for each other.
  Seconds best() const {
    const double ratio = (std::sqrt(5.0) - 1) / 2;
    double low = std::log(std::max(unseen.count(), std::min(stall, mtbf).count() * 1e-6));
    double high = std::max(low, std::log(100 * (mtbf + stall).count()));
    for (int i = 0; i < 200; ++i) {
      const double left = high - ratio * (high - low);
      const double right = low + ratio * (high - low);
      if (merit(Seconds{std::exp(left)}) < merit(Seconds{std::exp(right)}))
        low = left;
      else
        high = right;
    }
    return Seconds{std::exp((low + high) / 2)};
  }
};

constexpr std::string_view kFormula =
    " / (between_failures * exp((restart + unseen) / between_failures) * (exp((stall + max({0}, "
    "unseen)) / "
    "between_failures) - 1))";

std::string goodput_formula(std::string_view interval) {
  return std::string(interval) + fmt::format(fmt::runtime(kFormula), interval);
}

Plot plot_of(const Model& model, Seconds best, const std::vector<Plot::Line>& marks) {
  constexpr int kPoints = 120;
  Plot plot{.title = "Goodput over the interval between saves",
            .x_name = "interval",
            .y_name = "goodput",
            .x_unit = Unit::seconds,
            .y_unit = Unit::share,
            .is_x_logarithmic = true,
            .lines = {{.name = "goodput", .points = {}}},
            .marks = marks};
  for (int i = 0; i <= kPoints; ++i) {
    const Seconds interval = best * std::pow(30.0, 2.0 * i / kPoints - 1);
    plot.lines[0].points.emplace_back(interval.count(), model.goodput(interval));
  }
  return plot;
}

Status compute(const IntervalInputs& in, Working& work) {
  if (in.mtbf && in.gpu_mtbf)
    return refuse_field("mtbf", "is what gpu_mtbf and gpus say: give one of them");
  if (!in.mtbf && !(in.gpu_mtbf && in.gpus))
    return refuse_field("mtbf",
                        "is missing: give the mean time between failures of the job, like "
                        "3h, or gpu_mtbf and gpus");
  const Seconds mtbf =
      in.mtbf ? work.step("between_failures", "mtbf", *in.mtbf, "Mean time between failures.")
              : work.step("between_failures", "gpu_mtbf / gpus", *in.gpu_mtbf / *in.gpus,
                          "Mean time between failures of the whole job.");
  const Seconds stall =
      work.step("stall", in.blocked ? "blocked" : "save", in.blocked ? *in.blocked : *in.save,
                "How long a save stops the training.");
  const Seconds unseen =
      work.step("unseen", "max(0, save - stall)", std::max(Seconds{0}, *in.save - stall),
                "How long a save is written in the background: a failure then undoes the interval "
                "before it, too.");
  const Model model{.stall = stall, .unseen = unseen, .mtbf = mtbf, .restart = *in.restart};
  const double ratio = stall / (2.0 * mtbf);
  const Seconds young = work.step("young", "sqrt(2 * stall * between_failures)",
                                  mtbf * std::sqrt(2 * (stall / mtbf)));
  const Seconds daly =
      ratio < 1 ? work.step("daly",
                            "young * (1 + sqrt(stall / (2 * between_failures)) / 3 + stall / (2 * "
                            "between_failures) / 9) - stall",
                            young * (1 + std::sqrt(ratio) / 3 + ratio / 9) - stall)
                : work.step("daly", "between_failures", mtbf,
                            "A save takes more than twice the time between failures.");
  const Seconds best = work.step("best", "argmax(goodput)", model.best(),
                                 "Numerically, from the formula of goodput below.");
  std::vector<Plot::Line> marks;
  const auto add = [&](std::string_view name, Seconds interval) {
    const double value = model.goodput(interval);
    work.step(fmt::format("goodput_{}", name == "interval" ? "own" : name), goodput_formula(name),
              Share{value});
    marks.push_back({std::string(name), {{interval.count(), value}}});
    return value;
  };
  add("young", young);
  add("daly", daly);
  const double most = add("best", best);
  if (in.interval) {
    const double own = add("interval", *in.interval);
    const double more = std::max(0.0, most - own);
    work.step("gain", "goodput_best - goodput_own", Share{more});
    if (in.price && in.gpus)
      work.step("gain_per_day", "gpus * price * day * gain", *in.gpus * *in.price * kDay * more);
  }
  if (in.price && in.gpus)
    work.step("lost_per_day", "gpus * price * day * (1 - goodput_best)",
              *in.gpus * *in.price * kDay * (1 - most), "Saves, repeated work and restarts.");
  if (in.step)
    work.step("every_steps", "max(1, floor(best / step))",
              std::max(1.0, std::floor(best / *in.step)),
              "saver.due(step, every_steps=...) in Python.");
  if (most < 0.01)
    work.binds("Failures: hardly any work is kept, because one comes before a save is durable.");
  const Share lost_to_restarts{1 - std::exp((Seconds{0} - *in.restart) / mtbf)};
  work.binds(best <= unseen * 1.000001 ? "The save: it must be durable before the next one begins."
                                       : fmt::format("The stall of {} against a failure every {}.",
                                                     say(stall), say(mtbf)));
  work.change(
      fmt::format("A quarter of the stall halves the interval, and with it the repeated "
                  "work. Restarts alone cost {}, at any interval.",
                  say(lost_to_restarts)));
  work.plot(plot_of(model, best, marks));
  return {};
}

}  // namespace

const Kind& interval_kind() {
  static const Kind kind = with_function<IntervalInputs>(
      {.name = "interval",
       .question = "How often should I save?",
       .about =
           "The best training time between two saves: by Young, by Daly, and numerically; and "
           "the goodput, the share of time that is kept work. save and blocked are what the log "
           "of a Checkpointer says: written in, and blocked. Without failures of your own to "
           "count, "
           "begin with 50000h for each GPU: Llama 3 had 419 unexpected interruptions on 16,384 "
           "GPUs "
           "in 54 days.",
       .examples = {"--save 60s --mtbf 3h --restart 300s",
                    "--save 20s --blocked 0.3s --gpus 16384 --gpu-mtbf 50000h --step 5s",
                    "--save 60s --mtbf 3h --interval 2h --gpus 512 --price 3USD/h --plot "
                    "goodput.svg"},
       .fields = {field("save", &IntervalInputs::save,
                        "Time from the beginning of a save until it is durable.")
                      .required(),
                  field("blocked", &IntervalInputs::blocked,
                        "Time for which a save stops the training (default: all of save)."),
                  field("mtbf", &IntervalInputs::mtbf, "Mean time between failures of the job."),
                  field("gpus", &IntervalInputs::gpus, "GPUs of the job.").in(Range::whole),
                  field("gpu_mtbf", &IntervalInputs::gpu_mtbf,
                        "Mean time between failures that one GPU, with its node, causes."),
                  field("restart", &IntervalInputs::restart,
                        "Time from a failure until training continues.")
                      .in(Range::zero_too)
                      .otherwise("5min"),
                  field("interval", &IntervalInputs::interval, "Your own interval, to compare."),
                  field("step", &IntervalInputs::step, "Time of a training step."),
                  field("price", &IntervalInputs::price, "Price of a GPU.")},
       .results = {"best", "goodput_best", "goodput_own", "gain_per_day", "every_steps"},
       .has_plot = true},
      interval);
  return kind;
}

Result<Answer> interval(const IntervalInputs& inputs) {
  return answer(interval_kind(), inputs, compute);
}

}  // namespace stoker::plan
