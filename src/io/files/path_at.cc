#include "io/files/path_at.h"

#include <utility>

namespace stoker {

PathAt::PathAt(std::shared_ptr<const RootDirectory> root, std::string_view name)
    : root_(std::move(root)), text_(root_->path) {
  if (!name.empty()) text_.append("/").append(name);
  name_begin_ = text_.size() - name.size();
}

PathAt PathAt::operator/(std::string_view name) const {
  if (root_ == nullptr) return {text_ + "/" + std::string(name)};
  const std::string_view own = this->name();
  return {root_, own.empty() ? std::string(name) : std::string(own) + "/" + std::string(name)};
}

PathAt PathAt::parent() const {
  const std::string_view path = name();
  const std::size_t slash = path.rfind('/');
  if (root_ != nullptr) return {root_, path.substr(0, slash == std::string_view::npos ? 0 : slash)};
  if (slash == std::string_view::npos) return {"."};
  return {std::string(path.substr(0, slash == 0 ? 1 : slash))};
}

}  // namespace stoker
