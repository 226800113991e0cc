// See decode_check.h.
#include "locant/attention/decode_check.h"

#include <array>
#include <cmath>
#include <set>
#include <string>

#include "locant/attention/check_inputs.h"
#include "locant/attention/check_terms.h"
#include "locant/attention/check_views.h"

namespace locant::attention {
namespace {

// Shapes of the cache, for sequences of so many heads, and what its block table names.
template <class T>
void check_cache(Check& check, const KvCache<T>& cache, int64_t B) {
  bool good = check_view(check, "the cache's k", cache.k);
  good &= check_view(check, "the cache's v", cache.v);
  good &= check_view(check, "the cache's lengths", cache.lengths, false);
  const auto &k = cache.k.shape, &v = cache.v.shape;
  good &= check.require(k[0] == v[0] && k[1] == v[1] && k[2] == v[2],
                        "the cache's k and v must agree but for their last dimension, got ",
                        shape_text(cache.k), " and ", shape_text(cache.v));
  check.require(k[1] >= 1 && k[3] >= 1 && v[3] >= 1,
                "the cache must have at least one head and one channel, got k ", shape_text(cache.k),
                " and v ", shape_text(cache.v));
  good &= check.require(cache.batch() == B, "the cache must have the batch of q or of the new tokens, ",
                        B, ", got lengths ", shape_text(cache.lengths));
  if (cache.paged()) {
    good &= check_view(check, "block_table", cache.block_table, false);
    good &= check.require(cache.block_table.shape[0] == B, "block_table must be [", B, ", blocks], got ",
                          shape_text(cache.block_table));
    good &= check.require(k[2] >= 1, "pages must hold at least one token, got k ", shape_text(cache.k));
  } else {
    good &= check.require(k[0] == B, "the cache's k must be [", B, ", Hk, capacity, D], got ",
                          shape_text(cache.k));
  }
  if (!good) return;
  for (int64_t b = 0; b < B; ++b) {
    const int64_t length = cache.lengths(b);
    if (!check.require(length >= 0 && length <= cache.capacity(), "lengths[", b,
                       "] must be from 0 to the capacity ", cache.capacity(), ", got ", length)) {
      return;
    }
  }
}

// The pages of tokens [from, to) of a sequence.
template <class T>
bool check_pages(Check& check, const KvCache<T>& cache, int64_t b, int64_t from, int64_t to) {
  if (!cache.paged() || from >= to) return true;
  for (int64_t n = from / cache.page_size(); n <= (to - 1) / cache.page_size(); ++n) {
    const int64_t page = cache.block_table(b, n);
    if (!check.require(page >= 0 && page < cache.k.shape[0], "block_table[", b, ", ", n,
                       "] must be a page of the pool's ", cache.k.shape[0], ", got ", page)) {
      return false;
    }
  }
  return true;
}

template <int N>
void check_positions(Check& check, const char* name, const View<const int64_t, N>& view, int64_t B,
                     int64_t width) {
  if (!check.require((view.shape[0] == B || view.shape[0] == 1) && view.shape[1] == width, name,
                     " must be [", B, " or 1, ", width, "], got ", shape_text(view))) {
    return;
  }
  check_view(check, name, view, false);
}

void check_turned(Check& check, bool keys_turned, const Rotation& rotation) {
  check.require(!keys_turned || !rotation.follows_length,
                "the rotation's frequencies follow the length of the sequence (dynamic NTK, LongRoPE), "
                "so keys that were turned earlier would be stale: keep them unturned "
                "(keys_turned = false), or lower the scheme with fixed frequencies");
}

}  // namespace

template <class T>
void check_append(const KvCache<T>& cache, const NewTokens<T>& tokens, const Terms<Real<T>>& terms) {
  Check check("cache append");
  const auto [B, Hk, N, D] = tokens.k.shape;
  check_cache(check, cache, B);
  check_view(check, "the new k", tokens.k);
  check_view(check, "the new v", tokens.v);
  const int64_t Dv = cache.v.shape[3];
  check.require(Hk == cache.k.shape[1] && D == cache.k.shape[3],
                "the new k must have the heads and the head size of the cache, ", cache.k.shape[1],
                " and ", cache.k.shape[3], ", got ", shape_text(tokens.k));
  check.require(tokens.v.shape == std::array<int64_t, 4>{B, Hk, N, Dv}, "the new v must be [", B, ", ", Hk,
                ", ", N, ", ", Dv, "], got ", shape_text(tokens.v));
  if (tokens.positions) check_positions(check, "positions", tokens.positions, B, N);
  if (tokens.counts) {
    check.require(tokens.counts.shape[0] == B, "counts must be [", B, "], got ", shape_text(tokens.counts));
    check_view(check, "counts", tokens.counts, false);
  }
  if (terms.rotation) {
    Terms<Real<T>> only;
    only.rotation = terms.rotation;
    check_terms(check, 1, D, Dv, only);
    check_turned(check, cache.keys_turned, *terms.rotation);
  }
  check.done();

  std::set<int64_t> written;
  for (int64_t b = 0; b < B; ++b) {
    const int64_t length = cache.lengths(b), count = tokens.counts ? tokens.counts(b) : N;
    if (!check.require(count >= 0 && count <= N, "counts[", b, "] must be from 0 to ", N, ", got ", count) ||
        !check.require(length + count <= cache.capacity(), "sequence ", b, " holds ", length, " and gets ",
                       count, " tokens, more than the capacity ", cache.capacity())) {
      continue;
    }
    if (!check_pages(check, cache, b, length, length + count)) continue;
    if (cache.paged() && count > 0) {
      const int64_t size = cache.page_size();
      for (int64_t n = length / size; n <= (length + count - 1) / size; ++n) {
        const int64_t page = cache.block_table(b, n);
        check.require(written.insert(page).second, "page ", page, " would be written twice, by sequence ", b,
                      " and by another block");
      }
    }
    bool good = true;
    for (int64_t n = 0; good && n < count; ++n) {
      const auto& given = tokens.positions;
      const int64_t position = given ? given(given.shape[0] == 1 ? 0 : b, n) : length + n;
      good = !given || check_position(check, "positions", b, n, position);
      if (good && terms.rotation && cache.keys_turned) {
        good = check_scales(check, "positions", *terms.rotation, position);
      }
    }
  }
  check.done();
}

template <class T>
void check_decode(const DecodeInputs<T>& in, const Terms<Real<T>>& terms, const Options& options,
                  const Outputs<T>& outputs) {
  Check check("attention decode");
  const auto [B, H, Q, D] = in.q.shape;
  const KvCache<const T>& cache = in.cache;
  check_view(check, "q", in.q);
  check.require(H >= 1 && D >= 1, "q must have at least one head and one channel, got ", shape_text(in.q));
  check_cache(check, cache, B);
  const int64_t Hk = cache.k.shape[1], Dv = cache.v.shape[3];
  check.require(Hk >= 1 && H % Hk == 0, "the heads of the cache must divide those of q, got ", Hk, " and ",
                H);
  check.require(cache.k.shape[3] == D, "the cache's keys must have the head size of q, got k ",
                shape_text(cache.k), " and q ", shape_text(in.q));
  check_options(check, options);
  check_terms(check, H, D, Dv, terms);
  check.require(options.dropout.rate == 0, "decoding has no dropout, got dropout.rate ",
                options.dropout.rate);
  if (in.number_per_key) {
    const auto& shape = in.number_per_key.shape;
    check.require((shape[0] == B || shape[0] == 1) && (shape[1] == H || shape[1] == 1) &&
                      shape[2] == cache.capacity(),
                  "number_per_key must be [", B, " or 1, ", H, " or 1, ", cache.capacity(), "], got ",
                  shape_text(in.number_per_key));
    check_view(check, "number_per_key", in.number_per_key, false);
  }
  if (in.q_positions) check_positions(check, "q_positions", in.q_positions, B, Q);
  if (in.k_positions) check_positions(check, "k_positions", in.k_positions, B, cache.capacity());
  if (in.rotations) {
    check.require(in.rotations.shape[0] == B, "rotations must be [", B, "], got ", shape_text(in.rotations));
    check.require(!terms.rotation, "rotations are given and terms.rotation too");
  }
  const std::array<int64_t, 4> out_shape{B, H, Q, Dv};
  check.require(outputs.out.shape == out_shape, "out must be [", B, ", ", H, ", ", Q, ", ", Dv, "], got ",
                shape_text(outputs.out));
  check_view(check, "out", outputs.out);
  if (outputs.lse) {
    check.require(outputs.lse.shape == std::array<int64_t, 3>{B, H, Q}, "lse must be [", B, ", ", H, ", ", Q,
                  "], got ", shape_text(outputs.lse));
    check_view(check, "lse", outputs.lse, false);
  }
  check.done();

  // What may be looked at now that shapes hold.
  for (int64_t b = 0; b < B; ++b) {
    const int64_t length = cache.lengths(b);
    if (!check_pages(check, cache, b, 0, length)) break;
    bool good = true;
    for (int64_t i = 0; good && i < Q; ++i) {
      good = !in.q_positions || check_position(check, "q_positions", b, i, query_position(in, b, i));
    }
    for (int64_t j = 0; good && in.k_positions && j < length; ++j) {
      good = check_position(check, "k_positions", b, j, key_position(in, b, j));
    }
    if (in.rotations) {
      Terms<Real<T>> only;
      only.rotation = in.rotations(b);
      check_terms(check, H, D, Dv, only);
    }
    if (const Rotation* rotation = rotation_of(in, terms, b)) {
      for (int64_t i = 0; good && i < Q; ++i) {
        good = check_scales(check, "q_positions", *rotation, query_position(in, b, i));
      }
      for (int64_t j = 0; good && !cache.keys_turned && j < length; ++j) {
        good = check_scales(check, "k_positions", *rotation, key_position(in, b, j));
      }
      check_turned(check, cache.keys_turned, *rotation);
      check.require(!rotation->follows_length || in.rotations || length == cache.lengths(0),
                    "the rotation's frequencies follow the length of the sequence and lengths differ, ",
                    cache.lengths(0), " and ", length, ": give one rotation a sequence (rotations)");
    }
    if (!check.ok()) break;
  }
  if (outputs.out.data && outputs.out.size() > 0) {
    const Extent out = extent_of(outputs.out);
    const auto apart = [&](const char* name, const auto& view) {
      if (view.data && view.size() > 0) {
        check.require(!overlap(out, extent_of(view)), "out overlaps ", name);
      }
    };
    apart("q", in.q);
    apart("the cache's k", cache.k);
    apart("the cache's v", cache.v);
    apart("number_per_key", in.number_per_key);
    apart("lse", outputs.lse);
  }
  check.done();
}

template void check_append(const KvCache<float>&, const NewTokens<float>&, const Terms<float>&);
template void check_append(const KvCache<double>&, const NewTokens<double>&, const Terms<double>&);
template void check_append(const KvCache<Bf16>&, const NewTokens<Bf16>&, const Terms<float>&);
template void check_decode(const DecodeInputs<float>&, const Terms<float>&, const Options&,
                           const Outputs<float>&);
template void check_decode(const DecodeInputs<double>&, const Terms<double>&, const Options&,
                           const Outputs<double>&);
template void check_decode(const DecodeInputs<Bf16>&, const Terms<float>&, const Options&,
                           const Outputs<Bf16>&);

}  // namespace locant::attention
