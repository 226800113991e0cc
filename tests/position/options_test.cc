// The grammar of schemes in text, its messages, and the registry.
#include "locant/position/options.h"

#include <gtest/gtest.h>

#include <limits>

#include "locant/position/registry.h"
#include "locant/position/scheme.h"

namespace locant {
namespace {

// A scheme with one option of each kind.
class Sample final : public Scheme {
 public:
  enum class Side { kLeft, kRight };
  std::string name() const override { return "sample"; }
  Description describe() const override { return {}; }
  void options(OptionVisitor& visit) override {
    visit.integer("count", count, 1, 100, "how many");
    visit.real("base", base, 1, 1e9, "a number");
    visit.word("side", side, {"left", "right"}, "which side");
    visit.flag("quick", quick, "whether");
    visit.reals("list", list, 0, 10, "some numbers");
  }
  void check() const override {
    if (quick && count == 13) throw std::invalid_argument("[sample] 13 is never quick");
  }
  int64_t count = 3;
  double base = 10000;
  Side side = Side::kLeft;
  bool quick = false;
  std::vector<double> list;
};

class Options : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { register_scheme<Sample>(); }
};

template <class Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}
std::string refusal(std::string_view text) {
  return message_of([&] { make_scheme(text); });
}

#define EXPECT_SAYS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "message: " << (text)

TEST_F(Options, GrammarReadsNamesAndValues) {
  const auto bare = parse_specification("alibi");
  EXPECT_EQ(bare.name, "alibi");
  EXPECT_TRUE(bare.options.empty());
  EXPECT_TRUE(parse_specification(" nope ( ) ").options.empty());
  const auto full = parse_specification(" t5 ( buckets = 32 ,max_distance=128, order=j-i ) ");
  EXPECT_EQ(full.name, "t5");
  const std::vector<std::pair<std::string, std::string>> expected{
      {"buckets", "32"}, {"max_distance", "128"}, {"order", "j-i"}};
  EXPECT_EQ(full.options, expected);
}

TEST_F(Options, GrammarNamesThePlaceWhereItBreaks) {
  const auto said = [](std::string_view text) {
    return message_of([&] { parse_specification(text); });
  };
  EXPECT_SAYS(said(""), "character 1: expected a name");
  EXPECT_SAYS(said("a b"), "character 1: expected a name");
  EXPECT_SAYS(said("(x=1)"), "character 1: expected a name");
  EXPECT_SAYS(said("t5(buckets=32"), "character 14: expected ')'");
  EXPECT_SAYS(said("t5(buckets=32) x"), "character 15: expected nothing after ')'");
  EXPECT_SAYS(said("t5(buckets)"), "character 4: expected option=value");
  EXPECT_SAYS(said("t5(buckets=1,)"), "character 14: expected option=value");
  EXPECT_SAYS(said("t5(,)"), "character 4: expected option=value");
  EXPECT_SAYS(said("t5(=3)"), "character 4: expected the name of an option");
  EXPECT_SAYS(said("t5(buckets=)"), "character 12: expected a value");
  EXPECT_SAYS(said("t5(a=b=c)"), "character 7: expected ',' or ')'");
  EXPECT_SAYS(said("t5(a=b(c))"), "character 7: expected ',' or ')'");
}

TEST_F(Options, ListsSplitOutsideParentheses) {
  const std::vector<std::string> expected{"alibi", "t5(buckets=32,max_distance=64)", "rope"};
  EXPECT_EQ(split_specifications("alibi, t5(buckets=32,max_distance=64) ,rope"), expected);
  EXPECT_SAYS(message_of([] { split_specifications("alibi,,rope"); }), "character 7");
  EXPECT_SAYS(message_of([] { split_specifications(""); }), "expected the name of a scheme");
  EXPECT_SAYS(message_of([] { split_specifications("alibi,"); }), "character 7");
  EXPECT_SAYS(message_of([] { split_specifications("t5(a=1"); }), "expected ')'");
  EXPECT_SAYS(message_of([] { split_specifications("t5)a"); }), "character 3");
}

TEST_F(Options, ValuesReachTheMembers) {
  const auto scheme = make_scheme("sample(count=7,base=2.5e5,side=right,quick=yes,list=1/0.5/2)");
  const auto& sample = dynamic_cast<const Sample&>(*scheme);
  EXPECT_EQ(sample.count, 7);
  EXPECT_EQ(sample.base, 250000);
  EXPECT_EQ(sample.side, Sample::Side::kRight);
  EXPECT_TRUE(sample.quick);
  EXPECT_EQ(sample.list, (std::vector<double>{1, 0.5, 2}));
  EXPECT_TRUE(dynamic_cast<const Sample&>(*make_scheme("sample(list=none)")).list.empty());
}

TEST_F(Options, MessagesSayWhatExists) {
  EXPECT_SAYS(refusal("alibl"), "there is no scheme 'alibl'; there are: ");
  for (const std::string& name : scheme_names()) EXPECT_SAYS(refusal("alibl"), name);
  EXPECT_SAYS(refusal("sample(cuont=1)"),
              "no option 'cuont'; there are: count, base, side, quick, list");
  EXPECT_SAYS(refusal("nope(x=1)"), "no option 'x'; the scheme has no options");
  EXPECT_SAYS(refusal("sample(count=1,count=2)"), "option count is given twice");
  EXPECT_SAYS(refusal("sample(side=up)"), "side must be one of left, right; got 'up'");
  EXPECT_SAYS(refusal("sample(quick=true)"), "quick must be one of no, yes; got 'true'");
  EXPECT_SAYS(refusal("sample(quick=yes,count=13)"), "13 is never quick");
}

TEST_F(Options, NumbersAreReadWholeAndInRange) {
  for (const char* value :
       {"0", "101", "1.5", "3x", "x", "0x10", "1e2", "-1", "+1", "99999999999999999999"}) {
    const std::string text = std::string("sample(count=") + value + ")";
    EXPECT_SAYS(refusal(text),
                "count must be an integer from 1 to 100, got '" + std::string(value) + "'");
  }
  for (const char* value : {"0.99", "1e10", "nan", "inf", "-inf", "1,5e3", "1..2", "1e400"}) {
    const std::string text = std::string("sample(base=") + value + ")";
    EXPECT_NE(refusal(text), "nothing was thrown") << text;
  }
  EXPECT_SAYS(refusal("sample(base=nan)"), "base must be a number from 1 to 1000000000, got 'nan'");
  EXPECT_SAYS(refusal("sample(list=1//2)"), "got ''");
  EXPECT_SAYS(refusal("sample(list=1/2/)"), "list ends in '/'");
  EXPECT_SAYS(refusal("sample(list=1/11)"), "list must be numbers from 0 to 10 joined by '/'");
}

TEST_F(Options, AllReasonsAtOnce) {
  const std::string said = refusal("sample(count=0,side=up,colour=red)");
  EXPECT_SAYS(said, "count must be");
  EXPECT_SAYS(said, "side must be");
  EXPECT_SAYS(said, "no option 'colour'");
}

TEST_F(Options, AFailedReadLeavesNothingHalfSetInAnotherScheme) {
  EXPECT_NE(refusal("sample(count=5,base=0)"), "nothing was thrown");
  EXPECT_EQ(specification(*make_scheme("sample")), "sample");
}

TEST_F(Options, SpecificationNamesWhatDiffers) {
  Sample sample;
  EXPECT_EQ(specification(sample), "sample");
  EXPECT_EQ(specification(sample, true), "sample(count=3,base=10000,side=left,quick=no,list=none)");
  sample.base = 0.1;
  sample.list = {1, 1e-7, 1.0 / 3};
  EXPECT_EQ(specification(sample), "sample(base=0.1,list=1/1e-07/0.3333333333333333)");
  sample.base = 500000;
  sample.list = {};
  EXPECT_EQ(specification(sample), "sample(base=500000)");
}

TEST_F(Options, EveryRealNumberRoundTrips) {
  Sample sample;
  for (double value : {1.0, 1.0 / 3 + 1, 2e8 / 3, 9.87654321e8, 1e9, 12345.6789}) {
    sample.base = value;
    sample.list = {value / 1e9, std::numeric_limits<double>::denorm_min(), 0};
    const auto again = make_scheme(specification(sample));
    EXPECT_EQ(dynamic_cast<const Sample&>(*again).base, value);
    EXPECT_EQ(dynamic_cast<const Sample&>(*again).list, sample.list);
  }
}

TEST_F(Options, ASchemeNobodyRegisteredPrintsAllItsOptions) {
  class Stranger final : public Scheme {
   public:
    std::string name() const override { return "stranger"; }
    Description describe() const override { return {}; }
    void options(OptionVisitor& visit) override { visit.integer("n", n, 0, 9, ""); }
    int64_t n = 4;
  };
  EXPECT_EQ(specification(Stranger()), "stranger(n=4)");
}

TEST_F(Options, RegisteringIsChecked) {
  EXPECT_SAYS(message_of([] { register_scheme<Sample>(); }), "the name 'sample' is taken");
  EXPECT_SAYS(
      message_of([] { register_scheme("other", [] { return std::make_unique<Sample>(); }); }),
      "'other' must be the name() of what its factory makes, got 'sample'");
  EXPECT_SAYS(message_of([] { register_scheme("none", SchemeFactory()); }), "is empty");
}

// Whatever is registered, now and later.
TEST_F(Options, EverySchemeRoundTripsAndExplainsItself) {
  for (const std::string& name : scheme_names()) {
    SCOPED_TRACE(name);
    const auto scheme = make_scheme(name);
    EXPECT_EQ(scheme->name(), name);
    EXPECT_EQ(specification(*scheme), name);
    const std::string full = specification(*scheme, true);
    const auto again = make_scheme(full);
    EXPECT_EQ(specification(*again), name);
    EXPECT_EQ(specification(*again, true), full);
    for (const OptionHelp& option : explain_options(*scheme)) {
      EXPECT_EQ(
          message_of([&] { make_scheme(name + "(" + option.name + "=" + option.value + ")"); }),
          "nothing was thrown");
      if (name == "sample") continue;
      EXPECT_FALSE(option.meaning.empty()) << option.name;
      EXPECT_SAYS(refusal(name + "(" + option.name + "=~)"), option.name);
    }
    EXPECT_SAYS(refusal(name + "(no_such_option=1)"), "no option 'no_such_option'");
  }
}

// A word option must take each of its words, alone or refused with a reason, and print it back.
TEST_F(Options, EveryWordOfEverySchemeRoundTrips) {
  for (const std::string& name : scheme_names()) {
    const auto scheme = make_scheme(name);
    for (const OptionHelp& option : explain_options(*scheme)) {
      if (option.allowed.find('|') == std::string::npos) continue;
      for (size_t at = 0; at < option.allowed.size();) {
        const size_t end = std::min(option.allowed.find('|', at), option.allowed.size());
        const std::string word = option.allowed.substr(at, end - at);
        at = end + 1;
        auto fresh = make_default_scheme(name);
        set_options(*fresh, {{option.name, word}});
        const std::string expected =
            word == option.value ? name : name + "(" + option.name + "=" + word + ")";
        EXPECT_EQ(specification(*fresh), expected);
      }
    }
  }
}

}  // namespace
}  // namespace locant
