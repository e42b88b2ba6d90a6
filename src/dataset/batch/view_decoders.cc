#include "dataset/batch/batch_data.h"
#include "dataset/batch/column_decoders.h"
#include "dataset/batch/field_values.h"
#include "formats/tfrecord/tf_example.h"

namespace stoker::internal {
namespace {

bool is_inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

class ViewDecoder final : public ColumnDecoder {
 public:
  explicit ViewDecoder(FieldKind kind) : kind_(kind) {}

  std::unique_ptr<ColumnDecoder> clone() const override {
    return std::make_unique<ViewDecoder>(*this);
  }
  bool keeps_records() const noexcept override { return true; }

  void begin(const ColumnRoom& room, std::size_t rows) override {
    room_ = room;
    room_.store->views.resize(rows);
    if (kind_ == FieldKind::own) room_.store->fields.resize(rows);
  }

  Status set_row(std::size_t row, const FieldView& field, const RowContext& context) override {
    ColumnStore& store = *room_.store;
    if (kind_ == FieldKind::text) STOKER_TRY(check_text(field));
    if (kind_ != FieldKind::own) {
      store.views[row] = lasting_bytes(field.bytes, context.record, *room_.spare);
      return {};
    }
    const auto name =
        lasting_bytes(std::as_bytes(std::span(field.name)), context.record, *room_.spare);
    store.fields[row] = lasting_field(field, context.record, *room_.spare);
    store.fields[row].name = {reinterpret_cast<const char*>(name.data()), name.size()};
    store.views[row] = store.fields[row].bytes;
    return {};
  }

  void finish(Column& out) override {
    out.is_text = kind_ == FieldKind::text;
    out.views = room_.store->views;
    out.fields = room_.store->fields;
  }

 private:
  FieldKind kind_;
  ColumnRoom room_;
};

}  // namespace

std::span<const std::byte> lasting_bytes(std::span<const std::byte> bytes,
                                         std::span<const std::byte> record, SpareMemory& spare) {
  // A view with a null address means that the field is missing; the bytes of an empty field may
  // have one.
  static constexpr std::byte kEmpty{};
  if (bytes.empty()) return {&kEmpty, 0};
  return is_inside(bytes, record) ? bytes : spare.keep(bytes);
}

FieldView lasting_field(const FieldView& field, std::span<const std::byte> record,
                        SpareMemory& spare) {
  FieldView kept{.name = {},
                 .bytes = lasting_bytes(field.bytes, record, spare),
                 .type = field.type,
                 .is_implied = field.is_implied};
  if (field.dtype == kBytesListDtype) {
    kept.dtype = kBytesListDtype;
  } else if (!field.dtype.empty()) {
    // An unknown dtype stays empty.
    const Result<Dtype> dtype = dtype_from_descr(field.dtype);
    if (dtype.ok()) kept.dtype = dtype_descr(*dtype);
  }
  if (!field.shape.empty()) {
    const std::span<const std::byte> shape = spare.keep(std::as_bytes(field.shape));
    kept.shape = {reinterpret_cast<const std::uint64_t*>(shape.data()), field.shape.size()};
  }
  return kept;
}

std::unique_ptr<ColumnDecoder> make_view_decoder(FieldKind kind) {
  return std::make_unique<ViewDecoder>(kind);
}

}  // namespace stoker::internal
