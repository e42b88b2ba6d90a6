#include "bench/checkpoint/bench_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "bench/memory_room.h"
#include "bench/noise.h"
#include "stoker/units.h"

namespace stoker {
namespace {

constexpr std::uint64_t kTensorBytes = std::uint64_t{64} << 20;
constexpr std::size_t kPageBytes = 4096;
/// Clears one exponent bit of each float, which makes every float finite.
constexpr std::uint64_t kFiniteMask = 0xBFFFFFFFBFFFFFFF;
constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;

}  // namespace

void BenchTensors::Free::operator()(std::byte* memory) const noexcept {
  std::free(memory);
}

Result<BenchTensors> BenchTensors::make(std::uint64_t size_bytes) {
  size_bytes -= size_bytes % sizeof(std::uint64_t);
  const std::uint64_t available = available_memory_bytes();
  const Status refused(Code::no_space,
                       fmt::format("--size {} needs twice as much memory, and {} are available: "
                                   "lower --size",
                                   format_bytes(size_bytes), format_bytes(available)));
  if (size_bytes > available / 2) return refused;
  const std::uint64_t rounded = (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, rounded));
  if (memory == nullptr) return refused;
  BenchTensors tensors(memory, size_bytes);
  fill_with_noise(tensors.bytes(), size_bytes);
  for (std::size_t at = 0; at < size_bytes; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, memory + at, sizeof word);
    word &= kFiniteMask;
    std::memcpy(memory + at, &word, sizeof word);
  }
  return tensors;
}

void BenchTensors::change(std::uint64_t round) {
  for (std::size_t at = 0; at < size_bytes_; at += kPageBytes) {
    const std::uint64_t stamp = mix_bits(round * kGolden + at) & kFiniteMask;
    std::memcpy(memory_.get() + at, &stamp, sizeof stamp);
  }
}

void BenchTensors::clear() {
  std::memset(memory_.get(), 0, size_bytes_);
}

std::size_t BenchTensors::count() const noexcept {
  return static_cast<std::size_t>((size_bytes_ + kTensorBytes - 1) / kTensorBytes);
}

std::span<std::byte> BenchTensors::tensor(std::size_t index) const noexcept {
  const std::uint64_t begin = index * kTensorBytes;
  return bytes().subspan(begin, std::min(kTensorBytes, size_bytes_ - begin));
}

std::string BenchTensors::name_of(std::size_t index) {
  return fmt::format("layers.{:05}.weight", index);
}

std::vector<SaveTensor> BenchTensors::to_save() const {
  std::vector<SaveTensor> list;
  for (std::size_t i = 0; i < count(); ++i)
    list.push_back({.name = name_of(i),
                    .type = TensorType::f32,
                    .shape = {tensor(i).size() / sizeof(float)},
                    .data = tensor(i).data()});
  return list;
}

std::vector<ReadTarget> BenchTensors::to_fill() {
  std::vector<ReadTarget> list;
  for (std::size_t i = 0; i < count(); ++i)
    list.push_back({.name = name_of(i), .memory = tensor(i)});
  return list;
}

}  // namespace stoker
