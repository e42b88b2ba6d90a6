#include <fmt/format.h>

#include <algorithm>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

constexpr double kBitsOfByte = 8;
constexpr std::string_view kDirect = "GPUDirect: from the source to the GPU, past host memory.";
constexpr std::string_view kSerial =
    "Through host memory, one copy after the other, as simple readers do it.";

/// What lies before the GPU's PCIe link.
struct Source {
  std::optional<BytesPerSecond> rate;
  std::string binding;  ///< Which part gives this rate.
};

Source source_of(const PathInputs& in, Working& work) {
  Source source;
  std::string names;
  const auto pass = [&](const std::optional<BytesPerSecond>& rate, std::string_view name,
                        std::string_view what) {
    if (!rate) return;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
    if (source.rate && *source.rate <= *rate) return;
    source = {.rate = *rate, .binding = std::string(what)};
  };
  pass(in.storage_rate, "storage_rate", "Storage");
  pass(in.nic_rate, "nic_rate", "The NIC");
  pass(in.fabric_rate, "fabric_rate", "The fabric");
  if (source.rate)
    work.step("source_rate", names.find(',') == std::string::npos ? names : "min(" + names + ")",
              *source.rate, "What reaches this node, or its host memory.");
  return source;
}

/// A byte takes the time of both copies.
BytesPerSecond one_after_the_other(BytesPerSecond first, BytesPerSecond second) {
  return first * (second / (first + second));
}

Status compute(const PathInputs& in, Working& work) {
  if (*in.payload_bits > *in.frame_bits)
    return refuse_field("payload_bits", "is more than frame_bits, of which it is a part");
  const BytesPerSecond pcie = work.step(
      "pcie_rate", "lanes * transfers / 8 * payload_bits / frame_bits",
      Bytes{1} * *in.lanes * *in.transfers / kBitsOfByte * *in.payload_bits / *in.frame_bits,
      "Before the headers of packets, which take some more percent.");
  const Source source = source_of(in, work);
  const BytesPerSecond direct = source.rate
                                    ? work.step("direct_rate", "min(pcie_rate, source_rate)",
                                                std::min(pcie, *source.rate), kDirect)
                                    : work.step("direct_rate", "pcie_rate", pcie, kDirect);
  std::string binding = direct < pcie ? source.binding : "PCIe";
  BytesPerSecond overlapped = direct;
  if (in.memory_rate) {
    overlapped = work.step(
        "bounce_rate", "min(direct_rate, memory_rate / 2)", std::min(direct, *in.memory_rate / 2),
        "Through host memory, both copies at once: each byte is written and read there.");
    if (overlapped < direct) binding = "Host memory, if the data goes through it";
    work.change(
        overlapped < direct
            ? fmt::format("GPUDirect would reach {} instead of {}.", say(direct), say(overlapped))
            : "GPUDirect is no faster here: it saves host memory's bandwidth and the CPU.");
  }
  work.binds(fmt::format("{}, the least of the way: {}.", binding, say(overlapped)));
  if (!source.rate) {
    work.change("Give storage_rate, nic_rate or fabric_rate for the whole way from the source.");
    return {};
  }
  const BytesPerSecond serial =
      in.memory_rate
          ? work.step("unoverlapped_rate",
                      "1 / (1 / min(source_rate, memory_rate) + 1 / min(pcie_rate, memory_rate))",
                      one_after_the_other(std::min(*source.rate, *in.memory_rate),
                                          std::min(pcie, *in.memory_rate)),
                      kSerial)
          : work.step("unoverlapped_rate", "1 / (1 / source_rate + 1 / pcie_rate)",
                      one_after_the_other(*source.rate, pcie), kSerial);
  work.change(
      fmt::format("Copies that overlap gain {} over those that do not.", say(overlapped - serial)));
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
            field("transfers", &PathInputs::transfers, "Transfers of a lane, one bit each: 32e9/s.")
                .required(),
            field("payload_bits", &PathInputs::payload_bits,
                  "Bits of data in a frame of the line code: 128.")
                .required(),
            field("frame_bits", &PathInputs::frame_bits, "Bits of such a frame: 130.").required(),
            field("storage_rate", &PathInputs::storage_rate, "Rate of the storage."),
            field("nic_rate", &PathInputs::nic_rate, "Rate of the NIC in bytes."),
            field("fabric_rate", &PathInputs::fabric_rate,
                  "Rate of this node's share of the fabric."),
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
