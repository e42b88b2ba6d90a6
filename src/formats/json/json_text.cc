#include "formats/json/json_text.h"

#include <algorithm>

#include "formats/json/strict_json.h"

namespace stoker {
namespace {

/// Walks a text that is known to be JSON, so that brackets match and strings end. With any other
/// text it still stays in bounds.
class Walker {
 public:
  explicit Walker(std::string_view text) : text_(text) {}

  /// Skips spaces and separators. False at the end of the array or object.
  bool find_value() {
    at_ = text_.find_first_not_of(" \t\r\n,:", at_);
    if (at_ != std::string_view::npos && text_[at_] != ']' && text_[at_] != '}') return true;
    at_ = text_.size();
    return false;
  }

  void enter() {
    at_ = text_.find_first_of("[{");
    at_ = at_ == std::string_view::npos ? text_.size() : at_ + 1;
  }

  /// Returns the value that begins here.
  std::string_view take() {
    const std::size_t begin = at_;
    std::size_t depth = 0;
    do {
      switch (text_[at_]) {
        case '"': skip_string(); break;
        case '[':
        case '{':
          ++depth;
          ++at_;
          break;
        case ']':
        case '}':
          depth -= depth > 0 ? 1 : 0;
          ++at_;
          break;
        default:
          // Outside of brackets, a word or a number ends at a separator.
          at_ = depth > 0 ? at_ + 1
                          : std::min(text_.find_first_of(" \t\r\n,:]}", at_ + 1), text_.size());
      }
    } while (depth > 0 && at_ < text_.size());
    return text_.substr(begin, at_ - begin);
  }

 private:
  void skip_string() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

JsonMemberTexts json_member_texts(std::string_view object) {
  JsonMemberTexts members;
  Walker walker(object);
  walker.enter();
  while (walker.find_value()) {
    const Result<Json> name =
        parse_strict_json(walker.take(), "name", {.text_bytes_max = object.size()});
    if (!name.ok() || !name->is_string() || !walker.find_value()) break;
    members.emplace_back(name->get_string(), walker.take());
  }
  return members;
}

std::vector<std::string_view> json_element_texts(std::string_view array) {
  std::vector<std::string_view> elements;
  Walker walker(array);
  walker.enter();
  while (walker.find_value()) elements.push_back(walker.take());
  return elements;
}

}  // namespace stoker
