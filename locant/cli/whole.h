// Options that are whole numbers: what each may be stands in --help and is held when it is read, past 64 bits too.
// (CLI11's own ranges print hundreds of digits, and it reads 010 as 8.)
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <concepts>
#include <string>
#include <type_traits>

namespace locant::cli {

// What is wrong with `text` as a number from low to high; empty: nothing.
template <std::integral Int>
std::string not_whole(const std::string& text, Int low, Int high) {
  Int value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = error == std::errc() && fmt::format("{}", value) == text;
  return number && value >= low && value <= high
             ? std::string()
             : fmt::format("expected a whole number from {} to {}, got {}", low, high, text);
}

template <std::integral Int>
CLI::Option* add_whole(CLI::App* command, const std::string& name, Int& value, std::type_identity_t<Int> low,
                       std::type_identity_t<Int> high, const std::string& help) {
  const std::string range = fmt::format("{} to {}", low, high);
  CLI::Option* option = command->add_option(name, value, help.empty() ? range : help + " (" + range + ")");
  option->check([low, high](const std::string& text) { return not_whole<Int>(text, low, high); }, "");
  return option;
}

}  // namespace locant::cli
