#include "locant/cli/cli.h"

int main(int argc, char** argv) { return locant::cli::run(argc, argv); }
