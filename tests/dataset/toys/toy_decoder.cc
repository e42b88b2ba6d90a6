#include "dataset/toys/toy_decoder.h"

#include <algorithm>

namespace stoker::testing {
namespace {

constexpr std::size_t kCropBytes = 4;

class ToyDecoder final : public FieldDecoder {
 public:
  ToyDecoder() : FieldDecoder(Dtype::uint8, {kCropBytes}) {}
  std::unique_ptr<FieldDecoder> clone() const override {
    return std::make_unique<ToyDecoder>(*this);
  }

 private:
  Status decode(const FieldView& field, const DecodeContext& context,
                std::span<std::byte> out) override {
    if (field.bytes.size() < kCropBytes)
      return Status(Code::invalid_argument, "it is too short to be cropped");
    std::ranges::copy(toy_crop(field.bytes, context.seed, context.epoch, context.position),
                      out.begin());
    return {};
  }
};

}  // namespace

std::span<const std::byte> toy_crop(std::span<const std::byte> field, std::uint64_t seed,
                                    std::uint64_t epoch, std::uint64_t position) {
  const DecodeContext context{.seed = seed, .epoch = epoch, .position = position};
  return field.subspan(context.random() % (field.size() - kCropBytes + 1), kCropBytes);
}

std::shared_ptr<const FieldDecoder> make_toy_decoder() {
  return std::make_shared<ToyDecoder>();
}

}  // namespace stoker::testing
