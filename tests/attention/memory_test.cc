// Nothing of size n x n, in either direction: peak memory of a whole process, measured from outside
// the library. A child process makes the arguments, touches them, then runs forward and backward;
// what its resident memory grew by at its peak is what the call needed beyond its arguments.
#include <gtest/gtest.h>

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "tests/attention/blocks.h"

// Sanitizers keep memory of their own beside every array.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LOCANT_MEMORY_IS_NOT_OURS 1
#endif

namespace locant::test {
namespace {

// "VmHWM:   1234 kB" in bytes.
double status(const char* field) {
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(field, 0) == 0) return 1024.0 * std::stod(line.substr(line.find(':') + 1));
  }
  return -1;
}

// Growth of the resident memory at its peak in a child that runs a causal call of n tokens.
double extra_memory(const std::string& specification, int n) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    double grown = -1;
    // Every array its own mapping, given back when freed: else the call could live in heap that the
    // making of the arguments left behind.
    mallopt(M_MMAP_THRESHOLD, 64 << 10);
    try {
      Call<double> shape;
      shape.shape.q = shape.shape.k = n, shape.shape.d = shape.shape.dv = 16;
      shape.options.causal = true;
      const Call<float> call = cast_call<float>(scheme_call(specification, shape));
      Results<float> got(call);
      attention::Workspace workspace;
      SerialExecutor serial;
      malloc_trim(0);
      // Forgets the peak of making the arguments.
      std::ofstream("/proc/self/clear_refs") << "5" << std::flush;
      const double before = status("VmRSS");
      attention::forward(call.inputs(), call.terms, call.options, got.outputs(call), workspace, serial);
      attention::backward(call.inputs(), call.terms, call.options, read_only(got.outputs(call)),
                          call.out_gradient_view(), got.gradients(call), workspace, serial);
      const double peak = status("VmHWM");
      if (before > 0 && peak >= before) grown = peak - before;
    } catch (...) {
    }
    const ssize_t written = write(ends[1], &grown, sizeof grown);
    _exit(written == sizeof grown ? 0 : 1);
  }
  close(ends[1]);
  double grown = -1;
  if (child < 0 || read(ends[0], &grown, sizeof grown) != sizeof grown) grown = -1;
  close(ends[0]);
  int state = 0;
  if (child > 0) waitpid(child, &state, 0);
  return state == 0 ? grown : -1;
}

// Pages that are not the call's own: of the stack, of code that runs for the first time, of small
// pieces of heap.
constexpr double kSlack = 512 << 10;

TEST(Memory, TwiceTheLengthIsAtMostTwiceTheMemory) {
#ifdef LOCANT_MEMORY_IS_NOT_OURS
  GTEST_SKIP() << "a sanitizer's own memory is counted in";
#endif
  for (const char* specification :
       {"nope", "t5", "alibi(slopes=learned)", "rope", "shaw(on=both)", "transformer_xl",
        "deberta(buckets=64,max_positions=128)"}) {
    const double half = extra_memory(specification, 8192), whole = extra_memory(specification, 16384);
    std::printf("%-40s %6.2f MB at 8192, %6.2f MB at 16384\n", specification, half / (1 << 20), whole / (1 << 20));
    RecordProperty(specification, std::to_string(whole));
    ASSERT_GE(half, 0) << specification << ": the child could not measure";
    ASSERT_GT(whole, 0) << specification << ": the child could not measure";
    EXPECT_LE(whole, 2 * half + kSlack) << specification;
    // An n x n array of bits is 32 MB at 16384.
    EXPECT_LE(whole, 24.0 * (1 << 20)) << specification;
  }
}

TEST(Memory, TheMeasurementSeesAnArrayOfNByN) {
#ifdef LOCANT_MEMORY_IS_NOT_OURS
  GTEST_SKIP() << "a sanitizer's own memory is counted in";
#endif
  std::ofstream("/proc/self/clear_refs") << "5" << std::flush;
  const double before = status("VmRSS");
  {
    std::vector<char> square(size_t(8192) * 8192 / 8);
    for (size_t n = 0; n < square.size(); n += 4096) square[n] = 1;
  }
  EXPECT_GE(status("VmHWM") - before, 8192.0 * 8192 / 8 - kSlack);
}

}  // namespace
}  // namespace locant::test
