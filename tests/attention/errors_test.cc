// What the public edge refuses, and in which words: the argument, what was expected, what came; all
// reasons at once.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "locant/attention/overlap.h"
#include "tests/attention/call.h"

namespace locant::test {
namespace {

// A call with everything in it, ready to be spoiled.
struct Spoiled {
  Call<float> call = make();
  Results<float> results{call};
  attention::Inputs<float> inputs = call.inputs();
  Terms<float> terms = call.terms;
  attention::Options options = call.options;
  attention::Outputs<float> outputs = results.outputs(call);
  attention::Gradients<float> gradients = results.gradients(call);
  View<const float, 4> out_gradient = call.out_gradient_view();
  std::vector<int64_t> q_positions = std::vector<int64_t>(2 * 5, 1),
                       k_positions = std::vector<int64_t>(2 * 7, 2);
  std::vector<float> more = std::vector<float>(1000);

  Spoiled() {
    inputs.q_positions = {q_positions.data(), {2, 5}};
    inputs.k_positions = {k_positions.data(), {2, 7}};
  }
  static Call<float> make() {
    Call<double> call;
    call.shape.b = 2, call.shape.h = 4, call.shape.hk = 2, call.shape.q = 5, call.shape.k = 7;
    call.shape.d = 6, call.shape.dv = 3;
    call.term_bits = kAllTerms;
    call = random_like(call);
    call.terms.rotation = Rotation{Rotation::Layout::kHalfSplit, 4, {1, .5}, 1, {}, 0};
    oracle::Rng rng(1);
    call.terms.number->left = oracle::random_numbers(rng, int(call.terms.number->table.heads));
    call.key_batches = 2, call.key_heads = 1;
    call.key_numbers.assign(14, 0);
    return cast_call<float>(call);
  }
  std::vector<int64_t> q_starts, k_starts;
  void pack(std::vector<int64_t> q, std::vector<int64_t> k) {
    q_starts = q, k_starts = k;
    inputs.cu_seqlens_q = {q_starts.data(), {int64_t(q.size())}};
    inputs.cu_seqlens_k = {k_starts.data(), {int64_t(k.size())}};
  }
  void forward() {
    attention::Workspace workspace;
    SerialExecutor serial;
    attention::forward(inputs, terms, options, outputs, workspace, serial);
  }
  void backward() {
    attention::Workspace workspace;
    SerialExecutor serial;
    attention::backward(inputs, terms, options, read_only(outputs), out_gradient, gradients,
                        workspace, serial);
  }
};

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "(nothing was refused)";
}

struct Wrong {
  std::string name;
  std::function<void(Spoiled&)> spoil;
  std::vector<std::string> said;
};

void expect_says(const std::string& message, const std::string& operation, const Wrong& wrong) {
  EXPECT_EQ(message.rfind("[" + operation + "] ", 0), 0u) << wrong.name << ": " << message;
  for (const std::string& words : wrong.said) {
    EXPECT_NE(message.find(words), std::string::npos)
        << wrong.name << ": no \"" << words << "\" in: " << message;
  }
}

struct TwoHeads : TileHook {
  using TileHook::add;
  void add(const ScoreTile&, double*) const override {}
  int64_t heads() const override { return 2; }
};

struct Learning : TwoHeads {
  int64_t heads() const override { return 1; }
  int64_t gradient_size() const override { return 3; }
};

const float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

const std::vector<Wrong>& wrong_inputs() {
  static const std::vector<Wrong> list{
      {"head sizes",
       [](Spoiled& s) { s.inputs.k.shape[3] = 5; },
       {"head size", "[2, 2, 7, 5]", "[2, 4, 5, 6]"}},
      {"batches",
       [](Spoiled& s) { s.inputs.k.shape[0] = 3; },
       {"k must have the batch", "[3, 2, 7, 6]"}},
      {"heads",
       [](Spoiled& s) { s.inputs.k.shape[1] = s.inputs.v.shape[1] = 3; },
       {"must divide", "3 and 4"}},
      {"no heads", [](Spoiled& s) { s.inputs.k.shape[1] = 0; }, {"must divide", "0 and 4"}},
      {"no channels",
       [](Spoiled& s) { s.inputs.q.shape[3] = 0; },
       {"at least one head and one channel", "[2, 4, 5, 0]"}},
      {"value length",
       [](Spoiled& s) { s.inputs.v.shape[2] = 6; },
       {"v must have", "[2, 2, 6, 3]", "[2, 2, 7, 6]"}},
      {"value width",
       [](Spoiled& s) { s.inputs.v.shape[3] = 0; },
       {"v must have at least one channel"}},
      {"negative",
       [](Spoiled& s) { s.inputs.q.shape[2] = -1; },
       {"q has a negative extent", "[2, 4, -1, 6]"}},
      {"no data", [](Spoiled& s) { s.inputs.v.data = nullptr; }, {"v [2, 2, 7, 3] has no data"}},
      {"last stride",
       [](Spoiled& s) { s.inputs.q.stride[3] = 2; },
       {"last stride of q must be 1, got 2"}},
      {"stride",
       [](Spoiled& s) { s.inputs.k.stride[2] = -6; },
       {"strides of k must not be negative, got -6"}},
      {"number per key",
       [](Spoiled& s) { s.inputs.number_per_key.shape[2] = 6; },
       {"number_per_key must be [2 or 1, 4 or 1, 7]", "[2, 1, 6]"}},
      {"number per key heads",
       [](Spoiled& s) { s.inputs.number_per_key.shape[1] = 2; },
       {"got [2, 2, 7]"}},
      {"negative position",
       [](Spoiled& s) { s.k_positions[10] = -5; },
       {"k_positions[1, 3] must be from 0", "got -5"}},
      {"far position",
       [](Spoiled& s) { s.q_positions[4] = int64_t{1} << 31; },
       {"q_positions[0, 4]", "2^31 - 1", "got 2147483648"}},
      {"positions' length",
       [](Spoiled& s) { s.inputs.q_positions.shape[1] = 4; },
       {"q_positions must be [2 or 1, 5]", "[2, 4]"}},
      {"positions' batch",
       [](Spoiled& s) { s.inputs.k_positions.shape[0] = 3; },
       {"k_positions must be [2 or 1, 7]"}},
      {"one side",
       [](Spoiled& s) { s.inputs.q_positions = {}; },
       {"k_positions are given and q_positions are not"}},
      {"other side",
       [](Spoiled& s) { s.inputs.k_positions = {}; },
       {"q_positions are given and k_positions are not"}},
  };
  return list;
}

const std::vector<Wrong>& wrong_options_and_terms() {
  static const std::vector<Wrong> list{
      {"scale",
       [](Spoiled& s) { s.options.scale = kNan; },
       {"scale must be finite in single precision, up to 2.35e+38 in size, got nan"}},
      {"softcap too large", [](Spoiled& s) { s.options.softcap = 1.2e38; }, {"softcap", "up to 1e+38, got 1.2000000000000001e+38"}},
      {"scale over softcap",
       [](Spoiled& s) { s.options.scale = -0x1p100, s.options.softcap = 0x1p-30; },
       {"scale / softcap must be at most 1e+30, got -1.2676506002282294e+30 / 9.3132257461547852e-10"}},
      {"infinite scale",
       [](Spoiled& s) { s.options.scale = kInfinity; },
       {"scale must be finite in single precision, up to 2.35e+38 in size, got inf"}},
      {"softcap", [](Spoiled& s) { s.options.softcap = -1; }, {"softcap", "got -1"}},
      {"packed batch",
       [](Spoiled& s) { s.pack({0, 5}, {0, 7}); },
       {"packed sequences must have a batch of 1, got 2"}},
      {"packed on one side",
       [](Spoiled& s) { s.pack({0, 5}, {0, 7}), s.inputs.cu_seqlens_k = {}; },
       {"must be given both or none"}},
      {"packed begins", [](Spoiled& s) { s.pack({1, 5}, {0, 7}); }, {"cu_seqlens_q must begin with 0, got 1"}},
      {"packed falls",
       [](Spoiled& s) { s.pack({0, 4, 3, 5}, {0, 1, 2, 7}); },
       {"cu_seqlens_q must not fall, got 3 after 4"}},
      {"packed ends",
       [](Spoiled& s) { s.pack({0, 5}, {0, 8}); },
       {"cu_seqlens_k must end with the 7 tokens there are, got 8"}},
      {"packed counts",
       [](Spoiled& s) { s.pack({0, 2, 5}, {0, 7}); },
       {"cu_seqlens_q and cu_seqlens_k must have the same length, got 3 and 2"}},
      {"packed, no numbers",
       [](Spoiled& s) {
         s.pack({0}, {0, 7});
         s.inputs.cu_seqlens_q.shape[0] = 0;
       },
       {"cu_seqlens_q must hold at least one number, got 0"}},
      {"dropout rate", [](Spoiled& s) { s.options.dropout.rate = 1; }, {"dropout.rate", "got 1"}},
      {"dropout below 0", [](Spoiled& s) { s.options.dropout.rate = -.1; }, {"dropout.rate", "-0.1"}},
      {"dropout NaN", [](Spoiled& s) { s.options.dropout.rate = kNan; }, {"dropout.rate", "nan"}},
      {"dropout heads", [](Spoiled& s) { s.options.dropout.first_head = -1; }, {"first_head", "-1"}},
      {"dropout tokens",
       [](Spoiled& s) { s.options.dropout.q_tokens = {s.q_positions.data(), {4}}; },
       {"dropout.q_tokens must be [5], got [4]"}},
      {"dropout token",
       [](Spoiled& s) {
         s.k_positions[3] = -7;
         s.inputs.q_positions = s.inputs.k_positions = {};
         s.options.dropout.k_tokens = {s.k_positions.data(), {7}};
       },
       {"dropout.k_tokens[3] must be from 0 to 2^31 - 1, got -7"}},
      {"nan softcap", [](Spoiled& s) { s.options.softcap = kNan; }, {"softcap", "got nan"}},
      {"hook heads",
       [](Spoiled& s) { s.terms.hook = std::make_shared<TwoHeads>(); },
       {"terms.hook must learn numbers for 1 or 4 heads, got 2"}},
      {"scale factor",
       [](Spoiled& s) { s.terms.scale_factor = kInfinity; },
       {"scale_factor must be finite"}},
      {"heads",
       [](Spoiled& s) { s.terms.number->table = Table<float>(3, 9, 1); },
       {"terms.number must be a table of [1 or 4][rows][1], got [3][9][1]"}},
      {"width",
       [](Spoiled& s) { s.terms.query_rows->rows = Table<float>(1, 90, 5); },
       {"terms.query_rows must be a table of [1 or 4][rows][6], got [1][90][5]"}},
      {"value width",
       [](Spoiled& s) { s.terms.value_rows->rows = Table<float>(1, 90, 6); },
       {"terms.value_rows", "[3]"}},
      {"data",
       [](Spoiled& s) { s.terms.key_rows->rows.data.pop_back(); },
       {"terms.key_rows holds"}},
      {"row too large",
       [](Spoiled& s) { s.terms.key_rows->index.rows[0] = 1000; },
       {"terms.key_rows maps distance", "to row 1000"}},
      {"row too small",
       [](Spoiled& s) { s.terms.value_rows->index.before = -2; },
       {"terms.value_rows maps distances before", "to row -2"}},
      {"row after",
       [](Spoiled& s) { s.terms.number->index.after = 500; },
       {"terms.number maps distances after", "500"}},
      {"no rows",
       [](Spoiled& s) { s.terms.number->index.rows.clear(); },
       {"terms.number has an empty index map"}},
      {"first distance",
       [](Spoiled& s) { s.terms.number->index.first = int64_t{1} << 40; },
       {"impossible distance"}},
      {"left",
       [](Spoiled& s) { s.terms.number->left.resize(7); },
       {"terms.number.left must hold", "got 7"}},
      {"right",
       [](Spoiled& s) { s.terms.number->right.resize(7); },
       {"terms.number.right must hold", "got 7"}},
      {"content bias",
       [](Spoiled& s) { s.terms.content_bias = Table<float>(4, 2, 6); },
       {"terms.content_bias must have one row a head, got 2"}},
      {"odd rotation",
       [](Spoiled& s) { s.terms.rotation->width = 5; },
       {"rotation's width must be even, got 5"}},
      {"wide rotation",
       [](Spoiled& s) { s.terms.rotation->width = 8; },
       {"at most the head size 6, got 8"}},
      {"frequencies",
       [](Spoiled& s) { s.terms.rotation->frequency.pop_back(); },
       {"2 frequencies, got 1"}},
      {"growth",
       [](Spoiled& s) { s.terms.rotation->log_growth = {1}; },
       {"2 growth rates or none, got 1"}},
      {"infinite frequency",
       [](Spoiled& s) { s.terms.rotation->frequency[1] = kInfinity; },
       {"must be finite"}},
  };
  return list;
}

TEST(AttentionErrors, TheSetupItselfIsFine) {
  Spoiled setup;
  setup.forward();
  setup.backward();
}

TEST(AttentionErrors, NameTheArgumentInBothDirections) {
  for (const auto* list : {&wrong_inputs(), &wrong_options_and_terms()}) {
    for (const Wrong& wrong : *list) {
      Spoiled setup;
      wrong.spoil(setup);
      expect_says(refusal([&] { setup.forward(); }), "attention forward", wrong);
      expect_says(refusal([&] { setup.backward(); }), "attention backward", wrong);
    }
  }
}

TEST(AttentionErrors, OfSpansNameTheArgument) {
  for (const Wrong& wrong : wrong_inputs()) {
    Spoiled setup;
    wrong.spoil(setup);
    expect_says(refusal([&] { attention::span_of(setup.inputs, setup.options); }), "attention span",
                wrong);
  }
}

TEST(AttentionErrors, OfOutputs) {
  const Wrong list[] = {
      {"out",
       [](Spoiled& s) { s.outputs.out.shape[3] = 6; },
       {"out must be [2, 4, 5, 3], got [2, 4, 5, 6]"}},
      {"no out",
       [](Spoiled& s) { s.outputs.out.data = nullptr; },
       {"out [2, 4, 5, 3] has no data"}},
      {"lse",
       [](Spoiled& s) { s.outputs.lse.shape[1] = 2; },
       {"lse must be [2, 4, 5], got [2, 2, 5]"}},
      {"stride",
       [](Spoiled& s) { s.outputs.out.stride[3] = 2; },
       {"last stride of out must be 1, got 2"}},
      {"folded", [](Spoiled& s) { s.outputs.out.stride[0] = 0; }, {"elements of out overlap"}},
      {"onto q",
       [](Spoiled& s) { s.outputs.out.data = const_cast<float*>(s.inputs.q.data); },
       {"out overlaps q"}},
      {"onto v",
       [](Spoiled& s) { s.outputs.out.data = const_cast<float*>(s.inputs.v.data) + 83; },
       {"out overlaps v"}},
      {"lse onto out",
       [](Spoiled& s) { s.outputs.lse.data = s.outputs.out.data; },
       {"lse overlaps out"}},
      {"lse onto numbers",
       [](Spoiled& s) { s.outputs.lse.data = const_cast<float*>(s.inputs.number_per_key.data); },
       {"lse overlaps number_per_key"}},
  };
  for (const Wrong& wrong : list) {
    Spoiled setup;
    wrong.spoil(setup);
    expect_says(refusal([&] { setup.forward(); }), "attention forward", wrong);
  }
}

TEST(AttentionErrors, OfGradients) {
  const Wrong list[] = {
      {"no lse", [](Spoiled& s) { s.outputs.lse = {}; }, {"lse must be [2, 4, 5], got [0, 0, 0]"}},
      {"out gradient",
       [](Spoiled& s) { s.out_gradient.shape[2] = 4; },
       {"out_gradient must be [2, 4, 5, 3]"}},
      {"q",
       [](Spoiled& s) { s.gradients.q.shape[1] = 2; },
       {"the gradient of q must be [2, 4, 5, 6], got [2, 2, 5, 6]"}},
      {"k",
       [](Spoiled& s) { s.gradients.k.shape[1] = 4; },
       {"the gradient of k must be [2, 2, 7, 6]"}},
      {"v",
       [](Spoiled& s) { s.gradients.v.stride[3] = 3; },
       {"last stride of the gradient of v must be 1"}},
      {"numbers",
       [](Spoiled& s) { s.gradients.number_per_key.shape[0] = 1; },
       {"the gradient of number_per_key must be [2, 1, 7], got [1, 1, 7]"}},
      {"numbers not given",
       [](Spoiled& s) { s.inputs.number_per_key = {}; },
       {"gradient of number_per_key is asked for"}},
      {"missing hook",
       [](Spoiled& s) { s.terms.hook = std::make_shared<Learning>(); },
       {"the gradient of terms.hook is missing", "zeros_like"}},
      {"hook size",
       [](Spoiled& s) { s.terms.hook = s.gradients.terms->hook = std::make_shared<Learning>(); },
       {"the gradient of terms.hook must hold 3 numbers, got 0"}},
      {"missing term",
       [](Spoiled& s) { s.gradients.terms->key_rows.reset(); },
       {"the gradient of terms.key_rows is missing", "zeros_like"}},
      {"extra term",
       [](Spoiled& s) { s.terms.value_rows.reset(); },
       {"the gradient of terms.value_rows has no term"}},
      {"size",
       [](Spoiled& s) { s.gradients.terms->content_bias->data.resize(1000); },
       {"the gradient of terms.content_bias must hold", "got 1000"}},
      {"left",
       [](Spoiled& s) { s.gradients.terms->number->left.clear(); },
       {"the gradient of terms.number.left", "got 0"}},
      {"itself",
       [](Spoiled& s) { s.gradients.terms = &s.terms; },
       {"must not be the terms themselves"}},
      {"onto out gradient",
       [](Spoiled& s) { s.gradients.v.data = const_cast<float*>(s.out_gradient.data); },
       {"the gradient of v overlaps out_gradient"}},
      {"onto each other",
       [](Spoiled& s) { s.gradients.k.data = s.gradients.q.data; },
       {"the gradient of k overlaps the gradient of q"}},
      {"onto lse",
       [](Spoiled& s) { s.gradients.number_per_key.data = s.outputs.lse.data; },
       {"overlaps lse"}},
  };
  for (const Wrong& wrong : list) {
    Spoiled setup;
    wrong.spoil(setup);
    expect_says(refusal([&] { setup.backward(); }), "attention backward", wrong);
  }
}

TEST(AttentionErrors, AllReasonsAtOnce) {
  Spoiled setup;
  setup.inputs.k.shape[3] = 5;
  setup.q_positions[0] = -1;
  setup.options.softcap = -2;
  setup.terms.rotation->width = 3;
  setup.outputs.lse.shape[0] = 9;
  const std::string message = refusal([&] { setup.forward(); });
  for (const char* words :
       {"head size", "q_positions[0, 0]", "softcap", "width must be even", "lse must be"}) {
    EXPECT_NE(message.find(words), std::string::npos) << words << " in " << message;
  }
}

TEST(AttentionErrors, LeaveTheOutputsAlone) {
  Spoiled setup;
  setup.forward();
  const std::vector<float> before = setup.results.out;
  setup.options.softcap = -1;
  EXPECT_THROW(setup.forward(), std::invalid_argument);
  EXPECT_EQ(setup.results.out, before);
}

// --- overlap ------------------------------------------------------------------------------------

TEST(Overlap, SeesThroughInterleavedViews) {
  using attention::extent_of;
  using attention::overlap;
  std::vector<float> packed(2 * 5 * 3 * 4 * 6);  // [B, L, 3, H, D]
  const auto slice = [&](int which, int heads) {
    return extent_of(View<float, 4>(packed.data() + which * 24, {2, heads, 5, 6}, {360, 6, 72, 1}));
  };
  for (int a = 0; a < 3; ++a) {
    for (int b = 0; b < 3; ++b) EXPECT_EQ(overlap(slice(a, 4), slice(b, 4)), a == b) << a << b;
  }
  EXPECT_TRUE(overlap(slice(0, 5), slice(1, 4))) << "one head too many";
  EXPECT_FALSE(overlap(slice(0, 3), slice(1, 2)));
}

// Against every pair of addresses, for random small views.
TEST(Overlap, IsExact) {
  oracle::Rng rng(77);
  int overlapping = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<std::vector<char>> touched;
    std::vector<attention::Extent> extents;
    for (int side = 0; side < 2; ++side) {
      attention::Extent e;
      e.start = 500 + uintptr_t(rng.integer(0, 40));
      for (int n = 0; n < 3; ++n) e.dimensions.push_back({rng.integer(1, 4), rng.integer(-12, 12)});
      e.dimensions.push_back({2, 1});
      std::vector<char> bytes(1000);
      for (int64_t i = 0; i < e.dimensions[0].extent; ++i) {
        for (int64_t j = 0; j < e.dimensions[1].extent; ++j) {
          for (int64_t k = 0; k < e.dimensions[2].extent; ++k) {
            const int64_t at = int64_t(e.start) + i * e.dimensions[0].stride +
                               j * e.dimensions[1].stride + k * e.dimensions[2].stride;
            bytes[size_t(at)] = bytes[size_t(at + 1)] = 1;
          }
        }
      }
      touched.push_back(bytes);
      extents.push_back(e);
    }
    bool want = false;
    for (size_t n = 0; n < 1000; ++n) want = want || (touched[0][n] && touched[1][n]);
    ASSERT_EQ(attention::overlap(extents[0], extents[1]), want) << "trial " << trial;
    overlapping += want;
  }
  EXPECT_GT(overlapping, 300);
  EXPECT_LT(overlapping, 2700);
}

}  // namespace
}  // namespace locant::test
