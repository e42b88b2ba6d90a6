#include "dataset/shards/sample_key.h"

namespace stoker {

std::string_view key_of_sample(const SampleView& sample) noexcept {
  if (!sample.key.empty()) return sample.key;
  const FieldView* field = sample.find(kKeyField);
  if (field == nullptr || (field->type != FieldType::bytes && field->type != FieldType::text))
    return {};
  return {reinterpret_cast<const char*>(field->bytes.data()), field->bytes.size()};
}

}  // namespace stoker
