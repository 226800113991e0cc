#include "locant/position/mpnet.h"

namespace locant {

Description Mpnet::describe() const {
  Description description = T5::describe();
  description.title = "MPNet, T5's biases in an encoder";
  description.paper = "Song et al. 2020, arXiv 2004.09297";
  description.users = "MPNet, sentence encoders made from it";
  return description;
}

// The answers to the five questions are T5's.

}  // namespace locant
