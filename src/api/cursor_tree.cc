#include "api/cursor_tree.h"

#include "api/tree_json.h"
#include "formats/json/json.h"
#include "stoker/tree.h"

namespace stoker::internal {
namespace {

/// What a framework has noted beside the position.
constexpr std::string_view kFrameworkEpoch = "framework_epoch";

/// Returns the JSON without tags; null for values that no cursor has.
Json plain_json(const Tree& tree) {
  switch (tree.kind()) {
    case Tree::Kind::boolean: return *tree.boolean();
    case Tree::Kind::integer: return tree.int64() ? Json(*tree.int64()) : Json(*tree.uint64());
    case Tree::Kind::real: return *tree.real();
    case Tree::Kind::text: return *tree.text();
    case Tree::Kind::list: {
      Json list = Json::array();
      for (const Tree& item : tree.items()) list.push_back(plain_json(item));
      return list;
    }
    case Tree::Kind::map: {
      Json object = Json::object();
      for (const Tree::Field& field : tree.fields()) object[field.name] = plain_json(field.value);
      return object;
    }
    default: return nullptr;
  }
}

}  // namespace

Result<std::string> write_cursor_tree(std::string_view cursor) {
  STOKER_ASSIGN(const Tree tree, read_tree(cursor, "cursor"));
  return write_tree(tree, "cursor",
                    [](const TensorView&, const std::string&) -> Result<std::string> {
                      return Status(Code::invalid_argument, "a cursor has no tensors");
                    });
}

Result<std::optional<Cursor>> read_cursor_tree(std::string_view json, const std::string& what) {
  STOKER_ASSIGN(const Tree tree, read_tree(json, what));
  if (tree.is_null()) return std::optional<Cursor>();
  if (tree.find("version") == nullptr)
    return Status(Code::invalid_argument, what + ": this is not the position of a stoker Loader");
  Json plain = Json::object();
  for (const Tree::Field& field : tree.fields())
    if (field.name != kFrameworkEpoch) plain[field.name] = plain_json(field.value);
  const Result<Cursor> cursor = parse_cursor(plain.dump());
  if (!cursor.ok()) return cursor.status().with_context(what);
  return std::optional(*cursor);
}

}  // namespace stoker::internal
