// The pool keeps what executor.h promises. Nothing here depends on timing; run it under the thread
// sanitizer too.
#include "locant/base/executor.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace locant {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

TEST_P(ThreadPoolTest, CallsEveryIndexOnceWithWorkersInRange) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (int64_t count : {0, 1, 2, 7, 100, 1000}) {
    std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
    std::atomic<bool> in_range{true};
    pool.run(count, [&](int64_t index, int worker) {
      calls[static_cast<size_t>(index)].fetch_add(1);
      if (worker < 0 || worker >= GetParam()) in_range = false;
    });
    for (int64_t index = 0; index < count; ++index) {
      EXPECT_EQ(calls[static_cast<size_t>(index)].load(), 1) << index << " of " << count;
    }
    EXPECT_TRUE(in_range);
  }
}

TEST_P(ThreadPoolTest, NoTwoTasksAtOnceShareAWorkerNumber) {
  ThreadPool pool(GetParam());
  std::vector<std::atomic<int>> busy(static_cast<size_t>(GetParam()));
  std::atomic<bool> shared{false};
  for (int repeat = 0; repeat < 50; ++repeat) {
    pool.run(32, [&](int64_t, int worker) {
      if (busy[static_cast<size_t>(worker)].fetch_add(1) != 0) shared = true;
      std::this_thread::yield();
      busy[static_cast<size_t>(worker)].fetch_sub(1);
    });
  }
  EXPECT_FALSE(shared);
}

// Tasks that wait for the one before them end only if indices are handed out in ascending order.
TEST_P(ThreadPoolTest, ATaskMayWaitForASmallerIndex) {
  ThreadPool pool(GetParam());
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::atomic<int64_t> done{0};
    std::vector<int64_t> order;
    pool.run(64, [&](int64_t index, int) {
      while (done.load() != index) std::this_thread::yield();
      order.push_back(index);  // guarded by the wait
      done.store(index + 1);
    });
    ASSERT_EQ(order.size(), 64u);
    for (int64_t index = 0; index < 64; ++index)
      EXPECT_EQ(order[static_cast<size_t>(index)], index);
  }
}

TEST_P(ThreadPoolTest, RethrowsAfterStartedTasksEndAndGoesOn) {
  ThreadPool pool(GetParam());
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::atomic<int> running{0}, started{0};
    const auto task = [&](int64_t index, int) {
      running.fetch_add(1);
      started.fetch_add(1);
      std::this_thread::yield();
      running.fetch_sub(1);
      if (index == 3) throw std::runtime_error("three");
    };
    try {
      pool.run(100000, task);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(std::string(error.what()), "three");
    }
    EXPECT_EQ(running.load(), 0);
    EXPECT_GE(started.load(), 4);
    std::atomic<int> calls{0};
    pool.run(10, [&](int64_t, int) { calls.fetch_add(1); });
    EXPECT_EQ(calls.load(), 10);
  }
}

TEST_P(ThreadPoolTest, AnExceptionSkipsTasksNotYetStarted) {
  ThreadPool pool(GetParam());
  std::atomic<int> started{0};
  const auto task = [&](int64_t, int) {
    started.fetch_add(1);
    throw std::runtime_error("at once");
  };
  EXPECT_THROW(pool.run(1000, task), std::runtime_error);
  EXPECT_LE(started.load(), GetParam());  // at most one a worker
}

TEST_P(ThreadPoolTest, NestedRunsStayInTheCallingWorker) {
  ThreadPool pool(GetParam());
  std::atomic<int> calls{0};
  std::atomic<bool> moved{false};
  pool.run(8, [&](int64_t, int worker) {
    const std::thread::id me = std::this_thread::get_id();
    int64_t expected = 0;
    pool.run(5, [&](int64_t index, int nested_worker) {
      if (std::this_thread::get_id() != me || nested_worker != worker) moved = true;
      if (index != expected++) moved = true;
      calls.fetch_add(1);
    });
  });
  EXPECT_EQ(calls.load(), 40);
  EXPECT_FALSE(moved);
}

TEST_P(ThreadPoolTest, ExceptionsPassThroughNestedRuns) {
  ThreadPool pool(GetParam());
  const auto outer = [&](int64_t, int) {
    pool.run(2, [](int64_t index, int) {
      if (index == 1) throw std::invalid_argument("inner");
    });
  };
  EXPECT_THROW(pool.run(4, outer), std::invalid_argument);
}

TEST_P(ThreadPoolTest, OtherCallersWait) {
  ThreadPool pool(GetParam());
  int64_t total = 0;  // not atomic: run() of another caller must not overlap
  std::mutex guard;
  std::atomic<int> runs_at_once{0};
  std::atomic<bool> overlapped{false};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::atomic<bool> first{true};
        std::atomic<int> left{6};
        pool.run(6, [&](int64_t, int) {
          if (first.exchange(false) && runs_at_once.fetch_add(1) != 0) overlapped = true;
          {
            const std::lock_guard lock(guard);
            ++total;
          }
          if (left.fetch_sub(1) == 1) runs_at_once.fetch_sub(1);
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 50 * 6);
  EXPECT_FALSE(overlapped);
}

// With more tasks than one thread can hold at once every worker is needed: also after it fell
// asleep.
TEST_P(ThreadPoolTest, AllWorkersComeAlsoAfterARest) {
  ThreadPool pool(GetParam());
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(repeat));
    std::atomic<int> arrived{0};
    pool.run(GetParam(), [&](int64_t, int) {
      arrived.fetch_add(1);
      while (arrived.load() < GetParam()) std::this_thread::yield();
    });
    EXPECT_EQ(arrived.load(), GetParam());
  }
}

TEST_P(ThreadPoolTest, PlainWritesOfTasksAreVisibleAfterRun) {
  ThreadPool pool(GetParam());
  std::vector<int64_t> squares(512);
  for (int repeat = 1; repeat <= 200; ++repeat) {
    pool.run(512, [&](int64_t index, int) {
      squares[static_cast<size_t>(index)] = index * index * repeat;
    });
    int64_t sum = 0;
    for (int64_t square : squares) sum += square;
    ASSERT_EQ(sum, repeat * int64_t{511} * 512 * 1023 / 6);
  }
}

TEST(ThreadPoolErrors, RefusesAbsurdThreadCounts) {
  for (int threads : {0, -1, 1025}) {
    try {
      ThreadPool pool(threads);
      ADD_FAILURE() << threads << " threads were accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(threads)), std::string::npos);
    }
  }
}

TEST(ThreadPoolLife, IdlePoolsEnd) {
  for (int repeat = 0; repeat < 20; ++repeat) ThreadPool pool(4);
}

TEST(SerialExecutorTest, RunsInOrderInTheCaller) {
  SerialExecutor serial;
  EXPECT_EQ(serial.threads(), 1);
  std::vector<int64_t> order;
  serial.run(5, [&](int64_t index, int worker) {
    EXPECT_EQ(worker, 0);
    order.push_back(index);
  });
  EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace locant
