#include "bench/gpu/pcie_link.h"

#include <array>
#include <charconv>

#include "io/files/file_ops.h"
#include "io/files/text_file.h"

namespace stoker {
namespace {

constexpr std::size_t kFileBytesMax = 256;

struct Generation {
  double gigatransfers_per_s;
  double coded;  ///< The part of the bits that are data.
};
constexpr std::array kGenerations = {Generation{2.5, 8.0 / 10},   Generation{5, 8.0 / 10},
                                     Generation{8, 128.0 / 130},  Generation{16, 128.0 / 130},
                                     Generation{32, 128.0 / 130}, Generation{64, 242.0 / 256}};

template <typename Number>
std::optional<Number> leading_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

std::optional<PcieLink> read_link(const std::string& directory, const std::string& which) {
  const auto read = [&](const std::string& what) -> std::string {
    const std::string path = directory + "/" + which + "_link_" + what;
    Result<std::string> text = read_text_file(posix_file_ops(), path, kFileBytesMax);
    return text.ok() ? *std::move(text) : "";
  };
  return parse_pcie_link(read("speed"), read("width"));
}

}  // namespace

unsigned PcieLink::generation() const noexcept {
  for (std::size_t i = 0; i < kGenerations.size(); ++i)
    if (kGenerations[i].gigatransfers_per_s == gigatransfers_per_s)
      return static_cast<unsigned>(i + 1);
  return 0;
}

double PcieLink::bytes_per_s() const noexcept {
  const unsigned found = generation();
  const double coded = found == 0 ? 1 : kGenerations[found - 1].coded;
  return gigatransfers_per_s * 1e9 * coded / 8 * width;
}

std::optional<PcieLink> parse_pcie_link(std::string_view speed, std::string_view width) {
  const std::optional<double> rate = leading_number<double>(speed);
  const std::optional<unsigned> lanes = leading_number<unsigned>(width);
  if (!rate || !lanes || *rate <= 0 || *lanes == 0 || *lanes > 32) return std::nullopt;
  return PcieLink{.gigatransfers_per_s = *rate, .width = *lanes};
}

PcieLinks read_pcie_links(const std::string& directory) {
  return {.now = read_link(directory, "current"), .most = read_link(directory, "max")};
}

}  // namespace stoker
