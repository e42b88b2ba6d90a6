#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/ranks/message_carrier.h"
#include "checkpoint/ranks/message_place.h"

namespace stoker {

struct CarriedPlaceOptions {
  std::shared_ptr<MessageCarrier> carrier;
  std::string prefix = {};                         ///< Begins the names of all messages.
  std::function<Status(nanoseconds)> pause = {};   ///< As for MessageCarrier::call().
  std::size_t piece_bytes = std::size_t{2} << 20;  ///< Longer texts are cut.
};

/// Messages that a carrier takes to where all ranks find them (message_carrier.h).
///
/// A text is stored with '=' before it. A longer one is cut: the pieces are stored first, as
/// `<name>/<word>/<number>`, then '#', the word, which is unique, and the number of pieces.
///
/// Thread safety: every method may be called from any thread.
class CarriedPlace final : public MessagePlace {
 public:
  explicit CarriedPlace(CarriedPlaceOptions options);

  /// May return kGrace after the deadline. A text that did not arrive in time is withdrawn.
  Status publish(const std::string& name, const std::string& text, Deadline deadline) override;
  Result<std::vector<std::string>> find(std::span<const std::string> names,
                                        Deadline deadline) override;
  Result<std::vector<std::string>> take(std::span<const std::string> names,
                                        Deadline deadline) override;
  void withdraw(const std::string& name) override;
  void remove(const std::string& name) override;
  std::vector<bool> are_there(std::span<const std::string> names) override;

 private:
  /// The names under which a message is stored, and its text.
  struct Found {
    std::vector<std::string> stored = {};
    std::string text = {};
    bool is_there = false;
  };

  std::string stored_name(const std::string& name) const { return options_.prefix + name; }
  Status put(const std::string& stored, std::string text, Deadline deadline);
  Status put_cut(const std::string& name, std::string_view text, Deadline deadline);
  Result<std::vector<Found>> find_all(std::span<const std::string> names, Deadline deadline);
  Result<Found> find_pieces(const std::string& stored, std::string_view header, Deadline deadline);
  void remember_cut(const std::string& name, std::vector<std::string> pieces);
  std::vector<std::string> forget_cut(const std::string& name);

  const CarriedPlaceOptions options_;
  const std::string unique_;
  Mutex mutex_;
  std::uint64_t serial_ STOKER_GUARDED_BY(mutex_) = 0;
  // The pieces of texts that this rank has published, by name: the newest.
  std::deque<std::pair<std::string, std::vector<std::string>>> cut_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker
