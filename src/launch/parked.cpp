#include "launch/parked.h"

#include "base/pidfd.h"
#include "launch/child/init_message.h"

#include <algorithm>
#include <cerrno>

#include <sys/socket.h>

namespace glovebox::launch {
namespace {

// Whether it has said that it waits; asked once it is needed.
bool is_waiting(ParkedBox& parked) {
  if (parked.is_ready) return true;
  std::uint32_t word = 0;
  parked.is_ready = ::recv(parked.order.get(), &word, sizeof(word), MSG_DONTWAIT) == sizeof(word) &&
                    word == kParkedWord;
  return parked.is_ready;
}

}  // namespace

ParkedBox::~ParkedBox() { box.kill_and_reap(); }

Result<void> ParkedBoxes::open() {
  TRY(ended_, Epoll::open());
  return {};
}

ParkedBoxes::Shape* ParkedBoxes::find(const plan::PlanView& plan) {
  const auto found = std::ranges::find_if(
      shapes_, [&](const Shape& shape) { return shape.plan.has_same_shape(plan); });
  if (found == shapes_.end()) return nullptr;
  shapes_.splice(shapes_.begin(), shapes_, found);
  return &shapes_.front();
}

void ParkedBoxes::remember(const plan::PlanView& plan) {
  std::vector<std::byte> bytes = plan.common_part();
  auto copy = plan::PlanView::decode(bytes);
  if (!copy) return;
  if (shapes_.size() >= kMaxShapes) {
    if (wanted_ == &shapes_.back()) wanted_ = nullptr;
    shapes_.pop_back();
  }
  shapes_.push_front(Shape{std::move(bytes), *copy});
}

void ParkedBoxes::expect(const plan::PlanView& plan, std::uint32_t keep) {
  Shape* shape = find(plan);
  if (shape == nullptr) return remember(plan);
  shape->losses = 0;
  // A request that comes too late for the last one shows that more are needed.
  if (std::ranges::none_of(shape->boxes, is_waiting)) shape->target *= 2;
  shape->target = std::min({shape->target, keep, kMaxPerShape});
}

std::optional<ParkedBox> ParkedBoxes::take(const plan::PlanView& plan) {
  Shape* shape = find(plan);
  if (shape == nullptr) return std::nullopt;
  const auto found = std::ranges::find_if(shape->boxes, is_waiting);
  if (found == shape->boxes.end()) return std::nullopt;
  ParkedBox parked = std::move(*found);
  shape->boxes.erase(found);
  // The client gets the pidfd, so closing ours would not end the watch.
  ended_.remove(parked.box.init);
  return parked;
}

void ParkedBoxes::put_back(const plan::PlanView& plan, ParkedBox parked) {
  wanted_ = find(plan);
  add(std::move(parked));
}

const plan::PlanView* ParkedBoxes::wanted() {
  const auto found = std::ranges::find_if(shapes_, [](const Shape& shape) {
    return shape.losses < kMaxLosses && shape.boxes.size() < shape.target;
  });
  wanted_ = found == shapes_.end() ? nullptr : &*found;
  return wanted_ == nullptr ? nullptr : &wanted_->plan;
}

void ParkedBoxes::add(ParkedBox parked) {
  if (wanted_ == nullptr) return;
  // One that cannot be watched is not kept.
  if (!ended_.add(parked.box.init, EPOLLIN)) return give_up();
  wanted_->boxes.push_back(std::move(parked));
  ++refills_;
}

void ParkedBoxes::give_up() {
  if (wanted_ != nullptr) wanted_->losses = kMaxLosses;
}

void ParkedBoxes::reap() {
  for (Shape& shape : shapes_) {
    const std::size_t before = shape.boxes.size();
    std::erase_if(shape.boxes, [](const ParkedBox& one) { return has_ended(one.box.init); });
    shape.losses += static_cast<std::uint32_t>(before - shape.boxes.size());
  }
}

ParkedCounts ParkedBoxes::counts() const {
  ParkedCounts counts{0, refills_};
  for (const Shape& shape : shapes_)
    counts.parked += static_cast<std::uint32_t>(shape.boxes.size());
  return counts;
}

}  // namespace glovebox::launch
