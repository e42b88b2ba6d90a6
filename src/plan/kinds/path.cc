#include <fmt/format.h>

#include <algorithm>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

constexpr double kBitsOfByte = 8;

Status compute(const PathInputs& in, Working& work) {
  if (*in.payload_bits > *in.frame_bits)
    return refuse_field("payload_bits", "is more than frame_bits, of which it is a part");
  const BytesPerSecond pcie = work.step(
      "pcie_rate", "lanes * transfers / 8 * payload_bits / frame_bits",
      Bytes{1} * *in.lanes * *in.transfers / kBitsOfByte * *in.payload_bits / *in.frame_bits,
      "Before the headers of packets, which take some more percent.");
  BytesPerSecond least = pcie;
  std::string formula = "pcie_rate";
  std::string binding = "PCIe";
  const auto pass = [&](const std::optional<BytesPerSecond>& rate, std::string_view name,
                        std::string_view what) {
    if (!rate) return;
    formula += fmt::format(", {}", name);
    if (*rate < least) binding = what;
    least = std::min(least, *rate);
  };
  pass(in.storage_rate, "storage_rate", "Storage");
  pass(in.nic_rate, "nic_rate", "The NIC");
  pass(in.fabric_rate, "fabric_rate", "The fabric");
  const BytesPerSecond direct =
      work.step("direct_rate", formula == "pcie_rate" ? formula : fmt::format("min({})", formula),
                least, "GPUDirect: from the source to the GPU, past host memory.");
  if (in.memory_rate) {
    const BytesPerSecond overlapped = work.step(
        "bounce_rate", "min(direct_rate, memory_rate / 2)", std::min(direct, *in.memory_rate / 2),
        "Through host memory, both copies at once: each byte is written and read there.");
    if (overlapped < direct) binding = "Host memory";
    work.change(
        overlapped < direct
            ? fmt::format("GPUDirect would reach {} instead of {}.", say(direct), say(overlapped))
            : "GPUDirect is no faster here: it saves host memory's bandwidth and the CPU.");
  }
  const BytesPerSecond serial =
      work.step("unoverlapped_rate", "1 / (1 / direct_rate + 1 / pcie_rate)",
                BytesPerSecond{1 / (1 / direct.count() + 1 / pcie.count())},
                "Through host memory, one copy after the other, as simple readers do it.");
  work.binds(fmt::format("{}, the least of the way: {}.", binding, say(direct)));
  work.change(
      fmt::format("Copies that overlap gain {} over those that do not.", say(direct - serial)));
  return {};
}

}  // namespace

const Kind& path_kind() {
  static const Kind kind = with_function<PathInputs>(
      {.name = "path",
       .question = "What limits the way from storage to a GPU?",
       .about =
           "The least of PCIe, NIC, fabric and storage; with GPUDirect, or bounced through host "
           "memory.",
       .examples = {"--lanes 16 --from pcie-5.0",
                    "--lanes 16 --from pcie-5.0 --from connectx-7-400g --storage-rate 40GB/s "
                    "--memory-rate 300GB/s"},
       .fields =
           {field("lanes", &PathInputs::lanes, "PCIe lanes of the GPU.")
                .otherwise("16")
                .in(Range::whole),
            field("transfers", &PathInputs::transfers, "Transfers of a lane: 32e9/s.").required(),
            field("payload_bits", &PathInputs::payload_bits, "Bits of data in a frame.").required(),
            field("frame_bits", &PathInputs::frame_bits, "Bits of a frame.").required(),
            field("storage_rate", &PathInputs::storage_rate, "Rate of the storage."),
            field("nic_rate", &PathInputs::nic_rate, "Rate of the NIC in bytes."),
            field("fabric_rate", &PathInputs::fabric_rate, "This node's part of the fabric."),
            field("memory_rate", &PathInputs::memory_rate, "Bandwidth of host memory.")},
       .devices = {"pcie-5.0"},
       .results = {"pcie_rate", "direct_rate", "bounce_rate", "unoverlapped_rate"}},
      path);
  return kind;
}

Result<Answer> path(const PathInputs& inputs) {
  return answer(path_kind(), inputs, compute);
}

}  // namespace stoker::plan
