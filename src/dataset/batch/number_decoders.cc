#include <fmt/format.h>

#include <cstring>

#include "dataset/batch/batch_data.h"
#include "dataset/batch/column_decoders.h"
#include "dataset/batch/field_values.h"

namespace stoker::internal {
namespace {

template <typename T>
Status store(const Result<T>& value, std::span<std::byte> out) {
  if (!value.ok()) return value.status();
  std::memcpy(out.data(), &*value, sizeof(T));
  return {};
}

class NumberDecoder final : public RowDecoder {
 public:
  explicit NumberDecoder(Dtype dtype) : RowDecoder(dtype, {}) {}
  std::unique_ptr<ColumnDecoder> clone() const override {
    return std::make_unique<NumberDecoder>(*this);
  }

 private:
  Status decode(const FieldView& field, const RowContext& /*context*/,
                std::span<std::byte> out) override {
    if (dtype() == Dtype::boolean) return store(read_bool(field, arrays_), out);
    return dtype() == Dtype::int64 ? store(read_int64(field, arrays_), out)
                                   : store(read_float64(field, arrays_), out);
  }

  ArrayReader arrays_;
};

class JsonNumberDecoder final : public RowDecoder {
 public:
  JsonNumberDecoder(Dtype dtype, std::string path)
      : RowDecoder(dtype, {}), path_(std::move(path)) {}
  std::unique_ptr<ColumnDecoder> clone() const override {
    return std::make_unique<JsonNumberDecoder>(*this);
  }

 private:
  Status decode(const FieldView& field, const RowContext& context,
                std::span<std::byte> out) override {
    STOKER_ASSIGN(const Json* value, context.json->find(field, path_));
    return dtype() == Dtype::int64 ? store(json_int64(*value), out)
                                   : store(json_float64(*value), out);
  }

  std::string path_;
};

class JsonTextDecoder final : public ColumnDecoder {
 public:
  explicit JsonTextDecoder(std::string path) : path_(std::move(path)) {}
  std::unique_ptr<ColumnDecoder> clone() const override {
    return std::make_unique<JsonTextDecoder>(*this);
  }

  void begin(const ColumnRoom& room, std::size_t rows) override {
    room_ = room;
    room_.store->views.resize(rows);
  }
  Status set_row(std::size_t row, const FieldView& field, const RowContext& context) override {
    STOKER_ASSIGN(const Json* value, context.json->find(field, path_));
    if (!value->is_string())
      return Status(Code::invalid_argument,
                    fmt::format("its JSON value is {}, not text", value->type_name()));
    const std::string& text = value->get_string();
    room_.store->views[row] = room_.spare->keep(std::as_bytes(std::span(text)));
    return {};
  }
  void finish(Column& out) override {
    out.is_text = true;
    out.views = room_.store->views;
  }

 private:
  std::string path_;
  ColumnRoom room_;
};

}  // namespace

std::unique_ptr<ColumnDecoder> make_number_decoder(const FieldSpec& spec) {
  if (spec.kind == FieldKind::boolean) return std::make_unique<NumberDecoder>(Dtype::boolean);
  if (spec.kind != FieldKind::json)
    return std::make_unique<NumberDecoder>(spec.kind == FieldKind::int64 ? Dtype::int64
                                                                         : Dtype::float64);
  return std::make_unique<JsonNumberDecoder>(
      spec.json_type == JsonType::int64 ? Dtype::int64 : Dtype::float64, spec.json_path);
}

std::unique_ptr<ColumnDecoder> make_json_text_decoder(const FieldSpec& spec) {
  return std::make_unique<JsonTextDecoder>(spec.json_path);
}

}  // namespace stoker::internal
