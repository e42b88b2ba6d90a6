#include <fmt/format.h>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

Status compute(const PrefetchInputs& in, Working& work) {
  const Bytes one = work.step("batch_size", "batch * decoded", *in.batch * *in.decoded);
  const Bytes ahead = work.step("ahead", "depth * batch_size", *in.depth * one,
                                "Of one queue: all of Stoker's loader, or one worker of torch.");
  const Bytes all =
      work.step("total", "ahead * workers * processes", ahead * *in.workers * *in.processes,
                "On one node, for all workers of all its processes.");
  if (in.memory) {
    const Share part = work.step("part", "total / memory", Share{all / *in.memory});
    work.binds(part.of_one > 1
                   ? fmt::format("Memory: {} do not fit in {}.", say(all), say(*in.memory))
                   : fmt::format("Nothing: the batches take {} of the memory.", say(part)));
  } else {
    work.binds(fmt::format("The product: {:.0f} batches of {}.",
                           *in.depth * *in.workers * *in.processes, say(one)));
  }
  work.change(
      "uint8 instead of float32 is a quarter; one queue for all workers divides by their "
      "number.");
  return {};
}

}  // namespace

const Kind& prefetch_kind() {
  static const Kind kind = with_function<PrefetchInputs>(
      {.name = "prefetch",
       .question = "How much memory does reading ahead take?",
       .about = "A sample counts as it lies in memory: 3 x 224 x 224 x 4 bytes of an image are "
                "602112B, whatever the file has.",
       .examples = {"--depth 4 --batch 256 --decoded 602112B --workers 8",
                    "--depth 2 --batch 32 --decoded 150MB --workers 4 --processes 8 --memory 1TiB"},
       .fields =
           {field("depth", &PrefetchInputs::depth, "Batches read ahead.").required(),
            field("batch", &PrefetchInputs::batch, "Samples of a batch.").required(),
            field("decoded", &PrefetchInputs::decoded, "Bytes of a decoded sample.").required(),
            field("workers", &PrefetchInputs::workers, "Workers that each read ahead (torch).")
                .otherwise("1")
                .in(Range::whole),
            field("processes", &PrefetchInputs::processes, "Processes of a node: one for each GPU.")
                .otherwise("1")
                .in(Range::whole),
            field("memory", &PrefetchInputs::memory, "Memory of the node.")},
       .results = {"total", "part"}},
      prefetch);
  return kind;
}

Result<Answer> prefetch(const PrefetchInputs& inputs) {
  return answer(prefetch_kind(), inputs, compute);
}

}  // namespace stoker::plan
