// A scheme of your own, outside the library: 20 lines, and the whole command works with it:
//   custom_scheme compare --preset smoke --corpus TEXT --schemes root_distance,alibi
#include <cmath>

#include "locant/cli/cli.h"
#include "locant/position/registry.h"

// score += -slope sqrt(i - j), outside the scale, the same for all heads: far keys fade, ever slower.
struct RootDistance : locant::Scheme {
  double slope = 0.5;

  std::string name() const override { return "root_distance"; }
  locant::Description describe() const override {
    return {.title = "penalty by the root of the distance", .paper = "an example", .acts = "scores, after the scale",
            .where = "every layer", .learns = "nothing", .cost = "as a number per distance",
            .beyond = "defined", .users = "nobody yet"};
  }
  void options(locant::OptionVisitor& visit) override {
    visit.real("slope", slope, 0, 100, "penalty at distance 1");
  }
  bool same_in_every_layer() const override { return true; }
  void score(const locant::Call& call, const locant::Parameters&, locant::Terms<double>& terms) const override {
    locant::NumberPerDistance<double> number;
    number.index.first = call.first_distance;
    for (int64_t d = call.first_distance; d <= call.last_distance; ++d) {
      number.index.rows.push_back(static_cast<int32_t>(d - call.first_distance));
      number.table.data.push_back(-slope * std::sqrt(std::abs(static_cast<double>(d))));
    }
    number.table.heads = number.table.width = 1;
    number.table.rows = static_cast<int64_t>(number.table.data.size());
    terms.number = std::move(number);
  }
};

int main(int argc, char** argv) {
  locant::register_scheme<RootDistance>();
  return locant::cli::run(argc, argv);
}
