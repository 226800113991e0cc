#include "locant/position/rope.h"

#include <cmath>

#include "locant/base/check.h"

namespace locant {
namespace {

bool zeros_and_ones(const std::vector<double>& pattern) {
  for (double x : pattern) {
    if (x != 0 && x != 1) return false;
  }
  return true;
}

bool at_layer(const std::vector<double>& pattern, int layer) {
  return pattern.at(static_cast<size_t>(layer) % pattern.size()) != 0;
}

}  // namespace

Description Rope::describe() const {
  return {.title = "RoPE, rotary positions",
          .paper = "Su et al. 2021, arXiv 2104.09864",
          .acts = "queries and keys, turned before their product",
          .where = "every layer (or a list of layers)",
          .learns = "nothing",
          .cost = "one pass over q and k per call",
          .beyond = "defined; angles never seen, loss rises unless scaled (PI, NTK, YaRN, ...)",
          .users = "Llama, Mistral, Qwen, Gemma, Phi, GPT-NeoX, GPT-J, DeepSeek, RoFormer"};
}

void Rope::options(OptionVisitor& visit) {
  visit.real("base", base, 1.01, 1e12, "longest wavelength / 2 pi");
  visit.integer("width", width, 0, 1 << 20, "channels that turn; 0 = share of the head");
  visit.real("share", share, 0, 1, "part of the head's channels that turn");
  visit.word("partial", partial, {"leading", "proportional"},
             "the first channels turn, or pairs span the head and the slow ones stand");
  visit.word("layout", layout, {"interleaved", "half-split"}, "which channels make a pair");
  scaling.options(visit);
  visit.reals("rotate_layers", rotate_layers, 0, 1,
              "repeated over layers: 1 turns, 0 has no positions");
  visit.reals("local_layers", local_layers, 0, 1,
              "repeated over layers: 1 has local_base and no scaling");
  visit.real("local_base", local_base, 1.01, 1e12, "base of the local layers");
}

void Rope::check() const {
  scaling.check(name());
  Check check(name());
  check.require(zeros_and_ones(rotate_layers), "rotate_layers must hold 0 and 1 only");
  check.require(zeros_and_ones(local_layers), "local_layers must hold 0 and 1 only");
  check.require(width == 0 || share == 1, "give width or share, not both");
  const bool plain =
      scaling.kind == RopeScaling::Kind::kNone || scaling.kind == RopeScaling::Kind::kLinear;
  check.require(partial == Partial::kLeading || plain,
                "partial=proportional goes with scaling=none and linear only");
  check.done();
}

int64_t Rope::rotary_width(int64_t head_size) const {
  return width > 0 ? width : static_cast<int64_t>(static_cast<double>(head_size) * share);
}

void Rope::check(const Call& call) const {
  const int64_t head_size = call.sizes.head_size, r = rotary_width(head_size);
  Check check(name());
  // proportional rounds an odd number down to whole pairs, as its models do.
  const bool whole_pairs = r % 2 == 0 || partial == Partial::kProportional;
  check.require(r > 1 && whole_pairs, "rotary width must be even and 2 or more, got ", r,
                " (head size ", head_size, ")");
  check.require(r <= head_size, "rotary width must be at most the head size, got ", r, " of ",
                head_size);
  check.require(partial == Partial::kLeading || head_size % 2 == 0,
                "partial=proportional needs an even head size, got ", head_size);
  check.done();
  scaling.check(name(), r);
}

std::vector<Variant> Rope::test_time_variants(double factor, int64_t original) const {
  if (scaling.kind != RopeScaling::Kind::kNone || factor <= 1) return {};
  std::vector<Variant> variants;
  const auto add = [&](std::string label, RopeScaling::Kind kind) {
    Rope variant = *this;
    variant.scaling.kind = kind;
    variant.scaling.factor = factor;
    if (kind == RopeScaling::Kind::kYarn) variant.scaling.original = original;
    variants.push_back({std::move(label), specification(variant)});
  };
  add("pi", RopeScaling::Kind::kLinear);
  // proportional knows linear only; NTK stretches between a fastest and a slowest pair.
  if (partial == Partial::kLeading) {
    add("ntk", RopeScaling::Kind::kNtk);
    add("yarn", RopeScaling::Kind::kYarn);
  }
  return variants;
}

bool Rope::rotates(int layer) const {
  return rotate_layers.empty() || at_layer(rotate_layers, layer);
}
bool Rope::is_local(int layer) const {
  return !local_layers.empty() && at_layer(local_layers, layer);
}

// 1. nothing

// 2.
std::optional<Rotation> Rope::turn(const Call& call) const {
  if (!rotates(call.layer)) return std::nullopt;
  const bool local = is_local(call.layer);
  const RopeScaling unscaled;
  const RopeScaling& used = local ? unscaled : scaling;
  const double used_base = local ? local_base : base;
  const int64_t head_size = call.sizes.head_size, r = rotary_width(head_size);

  Rotation rotation;
  rotation.layout = layout;
  rotation.width = r;
  rotation.magnitude = used.magnitude();
  rotation.follows_length = used.kind == RopeScaling::Kind::kDynamic ||
                            used.kind == RopeScaling::Kind::kLongRope;
  if (partial == Partial::kLeading) {
    rotation.frequency = used.frequencies(r, used_base, call.length);
  } else {
    rotation.width = head_size;
    rotation.frequency = rope_frequencies(head_size, used_base, r / 2);
    if (used.kind == RopeScaling::Kind::kLinear) {
      for (double& theta : rotation.frequency) theta /= used.effective_factor();
    }
    rotation.frequency.resize(static_cast<size_t>(head_size / 2), 0.0);
  }
  return rotation;
}

// 3. Only DeepSeek's factor on the scale.
void Rope::score(const Call& call, const Parameters&, Terms<double>& terms) const {
  if (rotates(call.layer) && !is_local(call.layer)) {
    terms.scale_factor *= scaling.softmax_factor();
  }
}

// 4. nothing  5. nothing is learned, so there is nothing to load; no end

std::vector<int64_t> rotary_row_order(int64_t head_size, int64_t width, Rotation::Layout from,
                                      Rotation::Layout to) {
  if (width < 0 || width % 2 != 0 || width > head_size) {
    fail("rotary_row_order", "width must be even and at most the head size, got ", width, " of ",
         head_size);
  }
  std::vector<int64_t> order;
  for (int64_t n = 0; n < head_size; ++n) order.push_back(n);
  if (from == to) return order;
  for (int64_t t = 0; t < width / 2; ++t) {
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t interleaved = 2 * t + half, split = t + half * (width / 2);
      if (to == Rotation::Layout::kHalfSplit) {
        order[static_cast<size_t>(split)] = interleaved;
      } else {
        order[static_cast<size_t>(interleaved)] = split;
      }
    }
  }
  return order;
}

}  // namespace locant
