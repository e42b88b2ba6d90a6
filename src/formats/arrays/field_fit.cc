#include "formats/arrays/field_fit.h"

namespace stoker::internal {

Result<Dtype> dtype_of(const FieldView& field) {
  switch (field.type) {
    case FieldType::int64: return Dtype::int64;
    case FieldType::float32: return Dtype::float32;
    case FieldType::float64: return Dtype::float64;
    default: break;
  }
  Result<Dtype> dtype = dtype_from_descr(field.dtype);
  if (!dtype.ok())
    return Status(Code::invalid_argument, std::string(field.dtype) + " has no form in this format");
  return dtype;
}

}  // namespace stoker::internal
