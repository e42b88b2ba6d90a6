#include <fmt/format.h>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

Status compute(const ReadInputs& in, Working& work) {
  const PerSecond samples =
      work.step("samples_per_second", "gpus * batch / step", *in.gpus * *in.batch / *in.step);
  const BytesPerSecond rate =
      work.step("needed", "samples_per_second * sample", samples * *in.sample,
                "What storage, or a cache, has to deliver to all GPUs.");
  work.step("gpu_rate", "needed / gpus", rate / *in.gpus);
  work.step("shard_reads_per_second", "needed / request", rate / *in.request,
            "Samples in shards: large reads.");
  work.step("file_operations_per_second", "3 * samples_per_second", 3 * samples,
            "Samples as single files: an open, a stat and a close each.");
  if (in.read_rate) {
    const double drives =
        work.step("drives", "ceil(needed / read_rate)", round_up(rate / *in.read_rate));
    work.binds(fmt::format("{:.0f} drives of {} feed these GPUs.", drives, say(*in.read_rate)));
  }
  if (in.fed) {
    const double part = std::min(1.0, *in.fed / rate);
    work.step("busy", "min(1, fed / needed)", Share{part},
              "Of the time in which the GPUs could compute, if reading and computing overlap.");
    work.binds(part < 1 ? fmt::format("Storage: it gives {} of the {} that the GPUs need.",
                                      say(*in.fed), say(rate))
                        : "The GPUs: storage gives all that they need.");
  }
  if (!in.fed && !in.read_rate) work.binds("The GPUs: slower storage makes them wait.");
  work.change(fmt::format("Each more GPU needs {} more.", say(rate / *in.gpus)));
  work.change("Half the bytes of a sample, or twice the time of a step, need half the rate.");
  return {};
}

}  // namespace

const Kind& read_kind() {
  static const Kind kind = with_function<ReadInputs>(
      {.name = "read",
       .question = "How fast must storage be for my GPUs?",
       .about = "Images: a sample is a file. Text: a sample is a sequence, its tokens times the "
                "bytes of a token. Video: a sample is a clip, its seconds times its bit rate, "
                "divided by 8 (10 s at 6 Mb/s are 7.5MB).",
       .examples = {"--gpus 8 --batch 256 --sample 130KB --step 200ms",
                    "--gpus 512 --batch 4 --sample 8KiB --step 2s",
                    "--gpus 64 --batch 4 --sample 7.5MB --step 500ms --read-rate 6.5GB/s",
                    "--gpus 8 --from mlperf-unet3d-h100 --fed 12GB/s"},
       .fields =
           {field("gpus", &ReadInputs::gpus, "GPUs that read.").required().in(Range::whole),
            field("batch", &ReadInputs::batch, "Samples that each GPU takes in a step.").required(),
            field("sample", &ReadInputs::sample, "Bytes of a sample as it is stored.").required(),
            field("step", &ReadInputs::step, "Time of a training step.").required(),
            field("request", &ReadInputs::request, "Bytes of one read of a shard.")
                .otherwise("4MiB"),
            field("fed", &ReadInputs::fed, "Rate that the storage has, for all GPUs."),
            field("read_rate", &ReadInputs::read_rate, "Read rate of one drive.")},
       .results = {"needed", "file_operations_per_second", "drives", "busy"}},
      read);
  return kind;
}

Result<Answer> read(const ReadInputs& inputs) {
  return answer(read_kind(), inputs, compute);
}

}  // namespace stoker::plan
