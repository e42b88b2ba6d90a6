#include "dataset/loader/loader_progress.h"

namespace stoker {

std::uint64_t LoaderProgress::end_of(std::uint64_t epoch) const noexcept {
  if (!epochs_) return kNoEnd;
  const std::uint64_t end = (epoch / *epochs_ + 1) * *epochs_;
  return total_ ? std::max(epoch, std::min(end, *total_)) : end;
}

LoaderProgress::Place LoaderProgress::following(const BatchCut& cut) const noexcept {
  if (cut.batches_from(at_.position) == 0) return {.epoch = at_.epoch + 1, .position = 0};
  return at_;
}

LoaderProgress::Place LoaderProgress::upcoming(const BatchCut& cut) const noexcept {
  return is_fresh_ ? next_ : following(cut);
}

bool LoaderProgress::begin(const BatchCut& cut) noexcept {
  const Place place = upcoming(cut);
  const std::uint64_t end = end_of(place.epoch);
  if (place.epoch >= end) return false;
  end_ = end;
  return true;
}

void LoaderProgress::end() noexcept {
  end_.reset();
}

bool LoaderProgress::iteration_is_done(const BatchCut& cut) const noexcept {
  return end_ && amid_ == 0 && !is_fresh_ && following(cut).epoch >= *end_;
}

void LoaderProgress::receive(const Cursor& cursor, std::uint64_t micro_batch,
                             bool is_last) noexcept {
  at_ = {.epoch = cursor.epoch, .position = cursor.position};
  amid_ = is_last ? 0 : micro_batch + 1;
  is_fresh_ = false;
}

void LoaderProgress::load(const Cursor& cursor) noexcept {
  at_ = {.epoch = cursor.epoch, .position = cursor.position};
  amid_ = 0;
  is_fresh_ = false;  // the next batch is the one after it
  counted_from_ = counted_as_ = 0;
  end_.reset();
}

bool LoaderProgress::set_epoch(std::uint64_t number, const BatchCut& cut) noexcept {
  const std::uint64_t epochs = numbered_.value_or(1);
  const Place now = upcoming(cut);
  if (now.epoch / epochs == number) {
    if (end_ && now.epoch >= *end_) end_.reset();
    return false;
  }
  at_ = next_ = {.epoch = number * epochs, .position = 0};
  amid_ = 0;
  is_fresh_ = true;
  end_.reset();
  return true;
}

bool LoaderProgress::epoch_is_done(const BatchCut& cut) const noexcept {
  return at_.position > 0 && cut.batches_from(at_.position) == 0;
}

std::uint64_t LoaderProgress::steps_received(const BatchCut& cut) const noexcept {
  const std::uint64_t size = cut.options().global_batch_size;
  return at_.epoch * cut.batches_from(0) + (at_.position + size - 1) / size;
}

std::uint64_t LoaderProgress::step(const BatchCut& cut) const noexcept {
  return counted_as_ + (steps_received(cut) - counted_from_) + (amid_ > 0 ? 1 : 0);
}

void LoaderProgress::count_from(std::uint64_t step, const BatchCut& cut) noexcept {
  counted_from_ = steps_received(cut);
  counted_as_ = step;
}

}  // namespace stoker
