#include <fmt/format.h>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

Status compute(const EpochInputs& in, Working& work) {
  if (!in.dataset && !(in.samples && in.sample))
    return refuse_field("dataset", "is missing: give it, or samples and sample");
  if (in.dataset && in.samples)
    return refuse_field("dataset", "is what samples and sample say: give one of them");
  if (in.time.has_value() == in.rate.has_value())
    return refuse_field("time", "give either time, to learn the rate, or rate, to learn the time");
  const Bytes size =
      in.dataset ? *in.dataset : work.step("size", "samples * sample", *in.samples * *in.sample);
  const std::string_view name = in.dataset ? "dataset" : "size";
  if (in.rate) {
    const Seconds time = work.step("epoch", fmt::format("{} / rate", name), size / *in.rate);
    if (in.gpus) work.step("gpu_rate", "rate / gpus", *in.rate / *in.gpus);
    work.binds(
        fmt::format("The rate: {} read once at {} take {}.", say(size), say(*in.rate), say(time)));
  } else {
    const BytesPerSecond rate =
        work.step("needed", fmt::format("{} / time", name), size / *in.time);
    if (in.gpus) work.step("gpu_rate", "needed / gpus", rate / *in.gpus);
    work.binds(fmt::format("The time: {} in {}.", say(size), say(*in.time)));
  }
  work.change("Rate and time change each other in inverse proportion; both grow with the bytes.");
  return {};
}

}  // namespace

const Kind& epoch_kind() {
  static const Kind kind = with_function<EpochInputs>(
      {.name = "epoch",
       .question = "How long does reading the dataset take, or at which rate is it read in time?",
       .about = "Give time for the rate, or rate for the time. Tokens are samples of 2 or 4 bytes.",
       .examples = {"--samples 1e12 --sample 4B --time 30d --gpus 2000",
                    "--dataset 20TB --rate 102.4MB/s"},
       .fields = {field("samples", &EpochInputs::samples, "Samples, or tokens, of the dataset."),
                  field("sample", &EpochInputs::sample, "Bytes of one."),
                  field("dataset", &EpochInputs::dataset, "Bytes of all of them."),
                  field("time", &EpochInputs::time, "Time in which all are read once."),
                  field("rate", &EpochInputs::rate, "Rate at which they are read."),
                  field("gpus", &EpochInputs::gpus, "GPUs that share the work.").in(Range::whole)},
       .results = {"needed", "gpu_rate", "epoch"}},
      epoch);
  return kind;
}

Result<Answer> epoch(const EpochInputs& inputs) {
  return answer(epoch_kind(), inputs, compute);
}

}  // namespace stoker::plan
